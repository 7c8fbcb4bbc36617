//! A real Envoy as the admin interface tells of it, and commands that take its place.

use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::clients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::resources::{Source, cluster, endpoints};
use crate::support::wait;

/// A group of all Envoys, by what they say about their program.
const RULES: &str =
    "groups:\n- name: envoys\n  match: {user-agent: envoy, user-agent-version: \">=1.36\"}\n";

#[test]
fn commands_are_given_what_an_envoy_is_given() {
    let Some(clients) = clients() else { return };
    for version in VERSIONS {
        let dir = tempfile::tempdir().expect("there is a temporary directory");
        let directory = Directory::new(dir.path(), "config");
        directory.write("chancery.yaml", RULES);
        let all = cluster("web", Source::Ads) + &endpoints("web", &[1]);
        directory.write("groups/envoys/clusters.yaml", &all);
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("DELTA_GRPC").server("xds", chancery.port(), Transport::H2c);
        let mut envoy =
            Envoy::start(&clients, version, dir.path(), &bootstrap, Port::reserve().number());
        envoy.is_live();
        wait::holds("the cluster to come", || envoy.has_cluster("web"));
        let (code, told) = chancery.asked_by(&["get", "cds", "--node", "envoy-1"]);
        assert!(code == Some(0) && told.contains("web"), "{version}: {told}");

        let after = Directory::new(dir.path(), "after");
        after.write("chancery.yaml", &RULES.replace(">=1.36", ">=1.50"));
        let all = cluster("web", Source::Ads) + &endpoints("web", &[2]);
        after.write("groups/envoys/clusters.yaml", &all);
        let path = dir.path().join("after");
        let (code, told) = chancery.asked_by(&["diff", path.to_str().expect("it is text")]);
        assert_eq!(code, Some(1), "{version}: {told}");
        assert!(told.contains("# group `envoys`\neds web changed\n"), "{version}: {told}");
        assert!(told.contains("+           port_value: 2\n"), "{version}: {told}");
        let moved = "1 node would move from group `envoys` to no group: envoy-1\n";
        assert!(told.contains(moved), "{version}: {told}");
    }
}
