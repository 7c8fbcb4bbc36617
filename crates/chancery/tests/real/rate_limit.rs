//! Envoy's rate limit service, which takes its limits over xDS, as a type that is not Envoy's.

use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::clients;
use crate::support::process::Process;

/// A limit for one key of a domain.
fn limit(name: &str, domain: &str, key: &str, requests: u32) -> String {
    format!(
        "\
- '@type': type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig
  name: {name}
  domain: {domain}
  descriptors:
  - key: {key}
    rate_limit: {{unit: MINUTE, requests_per_unit: {requests}}}
"
    )
}

/// A limit as the client shows it.
fn shown(key: &str, requests: u32) -> String {
    format!(
        "{key}: unit=MINUTE requests_per_unit={requests}, shadow_mode: false, quota_mode: false"
    )
}

/// The client never names what it wants, and takes each response for all there is.
// S-034, S-053, S-059
#[test]
fn limits_are_followed_and_their_rejection_is_logged() {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let directory = Directory::new(dir.path(), "config");
    directory.write("user.yaml", &limit("user", "web", "user", 5));
    let chancery = Chancery::serve(&directory);
    let mut command = clients.rate_limit();
    command.args([&chancery.address(), "rate-limit-1"]);
    let client = Process::start(dir.path(), "rate-limit", &mut command);
    let has = |limits: &[String]| {
        client.says(&format!("limits: {}", limits.join("; ")));
    };
    has(&[shown("web.user", 5)]);
    directory.write("path.yaml", &limit("path", "api", "path", 6));
    has(&[shown("api.path", 6), shown("web.user", 5)]);
    directory.write("user.yaml", &limit("user", "web", "user", 7));
    has(&[shown("api.path", 6), shown("web.user", 7)]);
    // Another resource for a domain that has one already.
    directory.write("again.yaml", &limit("again", "api", "again", 8));
    chancery.says("rejected stream=1 node=\"rate-limit-1\"");
    client.says("rejected: ");
    directory.write("again.yaml", &limit("again", "new", "again", 8));
    has(&[shown("api.path", 6), shown("new.again", 8), shown("web.user", 7)]);
    directory.remove("path.yaml");
    has(&[shown("new.again", 8), shown("web.user", 7)]);
}
