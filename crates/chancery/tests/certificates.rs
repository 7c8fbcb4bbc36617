//! Certificates in resources: those that have expired or have another key are warned of, and hold a load back
//! only where they come in place of good ones.

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::daemon;
use crate::daemon::{Server, chancery, dir_write, directory, eventually, finished};

/// A certificate that ends in this year, and its key.
fn identity(year: i32) -> [String; 2] {
    identity_of(year, &["a.example"])
}

/// The same for these names.
fn identity_of(year: i32, names: &[&str]) -> [String; 2] {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = KeyPair::generate().unwrap();
    [params.self_signed(&key).unwrap().pem(), key.serialize_pem()]
}

/// A secret with a certificate and a key.
fn secret([certificate, key]: [&str; 2]) -> String {
    let (certificate, key) = (Value::from(certificate), Value::from(key));
    format!(
        "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\nname: s\n\
         tls_certificate: {{certificate_chain: {{inline_string: {certificate}}}, \
         private_key: {{inline_string: {key}}}}}\n"
    )
}

fn authorities(texts: &[&str]) -> String {
    let all = Value::from(texts.concat());
    format!(
        "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\nname: a\n\
         validation_context: {{trusted_ca: {{inline_string: {all}}}}}\n"
    )
}

fn check(text: &str) -> String {
    let dir = directory(&[("a.yaml", text)]);
    let done = finished(&mut chancery(&["check", dir.path().to_str().unwrap()]));
    let told = String::from_utf8(done.stdout).unwrap();
    assert!(!told.contains("BEGIN"), "{told}");
    told
}

#[test]
fn check_warns_of_certificates_that_cannot_be_used() {
    let ([good, key], [old, old_key]) = (identity(2090), identity(2002));
    let told = check(&secret([&old, &old_key]));
    let line = "warning[certificate/expired]: sds `s`: tls_certificate: the certificate has expired at \
                2002-01-01 00:00 UTC";
    assert!(told.contains(line), "{told}");
    assert!(told.contains("a.yaml:1:1"), "{told}");
    assert!(check(&secret([&good, &old_key])).contains("warning[certificate/key]"));
    assert!(!check(&secret([&good, &key])).contains("certificate/"));
    // Somebody took out a line, or a copy lost one.
    let lines: Vec<&str> = good.lines().collect();
    let cut = [&lines[..2], &lines[3..]].concat().join("\n");
    let told = check(&secret([&cut, &key]));
    assert!(
        told.contains("warning[certificate/cut]: sds `s`: tls_certificate: the certificate"),
        "{told}"
    );
    assert!(check(&authorities(&[&good, &cut])).contains("[certificate/cut]"));
    // One authority that is good is enough.
    assert!(check(&authorities(&[&old])).contains("certificate/expired"));
    assert!(!check(&authorities(&[&old, &good])).contains("certificate/expired"));
}

#[test]
fn an_expired_certificate_in_place_of_a_good_one_is_held_back() {
    let ([good, key], [old, old_key]) = (identity(2090), identity(2002));
    let dir = directory(&[("a.yaml", &secret([&good, &key]))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "a.yaml", &secret([&old, &old_key]));
    server.log_has(
        "a.yaml:1: sds `s`: tls_certificate: the certificate has expired at 2002-01-01 00:00 UTC (what stood there",
    );
    eventually(|| {
        let line = "chancery_held_edits_total{reason=\"expired\"} 1";
        server.admin("/metrics").1.lines().any(|it| it == line)
    });
    dir_write(&dir, "a.yaml", &secret([&good, &old_key]));
    server.log_has("the private key is not that of the certificate");
    let [other, other_key] = identity(2091);
    dir_write(&dir, "a.yaml", &secret([&other, &other_key]));
    server.log_has("no longer held back");
}

/// The secrets `s` and `s2` with certificates for these names.
fn two_secrets(names: [&[&str]; 2]) -> String {
    let one = |names: &[&str]| {
        let [certificate, key] = identity_of(2090, names);
        format!("- {}", secret([&certificate, &key]).replace('\n', "\n  ").trim_end()) + "\n"
    };
    let [first, second] = names.map(one);
    first + &second.replace("name: s\n", "name: s2\n")
}

#[test]
fn a_name_may_go_from_one_certificate_of_a_chain_to_another() {
    let of = "type.googleapis.com/envoy.extensions";
    let secrets = "[{name: s, sds_config: {ads: {}}}, {name: s2, sds_config: {ads: {}}}]";
    let listener = format!(
        "\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\nname: l\naddress: {{pipe: {{path: \
         l.sock}}}}\nlistener_filters: [{{name: tls, typed_config: {{\"@type\": \
         {of}.filters.listener.tls_inspector.v3.TlsInspector}}}}]\nfilter_chains:\n- filter_chain_match: \
         {{server_names: [a.example, b.example]}}\n  filters: [{{name: f, typed_config: {{\"@type\": \
         {of}.filters.network.echo.v3.Echo}}}}]\n  transport_socket: {{name: tls, typed_config: {{\"@type\": \
         {of}.transport_sockets.tls.v3.DownstreamTlsContext, common_tls_context: \
         {{tls_certificate_sds_secret_configs: {secrets}}}}}}}\n"
    );
    let both = two_secrets([&["a.example", "b.example"], &["c.example"]]);
    let dir = directory(&[("l.yaml", &listener), ("s.yaml", &both)]);
    let mut server = Server::start(&dir, &[]);
    let split = two_secrets([&["a.example"], &["B.example", "c.example"]]);
    dir_write(&dir, "s.yaml", &split);
    server.log_has("~sds s, ~sds s2");
    assert!(!server.log().contains("held back from"), "{}", server.log());
    dir_write(&dir, "s.yaml", &two_secrets([&["a.example"], &["c.example"]]));
    server.log_has("sds `s2`: the certificate is not for `b.example`, and lds `l`");
}

#[test]
fn an_expired_certificate_that_was_there_before_holds_nothing_back() {
    let [old, old_key] = identity(2002);
    let dir = directory(&[("a.yaml", &secret([&old, &old_key]))]);
    let mut server = Server::start(&dir, &[]);
    server.log_has("the certificate has expired");
    let [older, older_key] = identity(2003);
    dir_write(&dir, "a.yaml", &secret([&older, &older_key]));
    server.log_has("2003-01-01");
    assert!(!server.log().contains("held back from"), "{}", server.log());
}

#[test]
fn an_expired_certificate_that_comes_while_the_server_is_down_is_held_back() {
    let ([good, key], [old, old_key]) = (identity(2090), identity(2002));
    let dir = directory(&[("a.yaml", &secret([&good, &key]))]);
    let state = tempfile::tempdir().unwrap();
    let flag = format!("--state={}", state.path().display());
    let mut server = Server::start(&dir, &[&flag]);
    server.signal("TERM");
    server.ends_well();
    dir_write(&dir, "a.yaml", &secret([&old, &old_key]));
    let mut server = Server::start(&dir, &[&flag]);
    server.log_has("held back from nodes without an overlay");
    let ready = server.admin("/ready").1;
    assert!(ready.contains("the certificate has expired at 2002-01-01"), "{ready}");
    // It stays so over another restart.
    server.signal("TERM");
    server.ends_well();
    let server = Server::start(&dir, &[&flag]);
    assert!(server.admin("/ready").1.contains("the certificate has expired at 2002-01-01"));
}

/// A patch of a cluster with this certificate for its client.
fn patch([certificate, key]: [&str; 2]) -> String {
    let (certificate, key) = (Value::from(certificate), Value::from(key));
    let context =
        "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
    format!(
        "patch:\n- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: shop\n  \
         transport_socket:\n    name: tls\n    typed_config:\n      \"@type\": {context}\n      \
         common_tls_context: {{tls_certificates: [{{certificate_chain: {{inline_string: {certificate}}}, \
         private_key: {{inline_string: {key}}}}}]}}\n"
    )
}

#[test]
fn certificates_in_what_comes_of_a_patch_are_looked_at() {
    let ([good, key], [old, old_key]) = (identity(2090), identity(2002));
    let shop = daemon::cluster("shop", 1);
    let with = |identity: [&str; 2]| {
        directory(&[
            ("chancery.yaml", "groups: [{name: edge, match: {cluster: edge}}]\n"),
            ("shop.yaml", &shop),
            ("groups/edge/shop.yaml", &patch(identity)),
        ])
    };
    let expired = "cds `shop`: transport_socket.typed_config.common_tls_context.tls_certificates[0]: the \
                   certificate has expired at 2002-01-01 00:00 UTC";
    let dir = with([&old, &old_key]);
    let done = finished(&mut chancery(&["check", dir.path().to_str().unwrap()]));
    let told = String::from_utf8(done.stdout).unwrap();
    assert!(told.contains(expired), "{told}");
    assert!(told.contains("groups/edge/shop.yaml:2:3"), "{told}");
    let mut server = Server::start(&dir, &[]);
    server.log_has(expired);
    drop(server);
    // One in place of a good one is held back, also where only the key is another one.
    let dir = with([&good, &key]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "groups/edge/shop.yaml", &patch([&good, &old_key]));
    server.log_has("held back from group `edge`");
    assert!(server.log().contains("the private key is not that of the certificate"));
}
