//! Resources that break the rules of Envoy's API, in `serve` and in `check`.
use crate::daemon::{Server, chancery, cluster, dir_write, directory, eventually, finished};

const WARN: &str = "gate: {messages: warn}\n";

#[test]
fn what_envoy_would_reject_is_held_back_until_the_gate_lets_it_pass() {
    // S-063
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &cluster("b", 1))]);
    let mut server = Server::start(&dir, &[]);
    dir_write(&dir, "a.yaml", &cluster("a", 0));
    assert!(server.log_has("a.yaml:3:18: connect_timeout: must be greater than 0s, found 0s"));
    assert!(server.log_has("`gate.messages: warn`"), "{}", server.log());
    let told = "ready, with faults: 1; see /api/v1/config\n- base is served as it was at 2";
    eventually(|| server.admin("/ready").1.starts_with(told));
    assert!(server.clusters("me").contains("\"1s\""));
    dir_write(&dir, "chancery.yaml", WARN);
    eventually(|| server.clusters("me").contains("\"0s\""));
    assert!(server.log_has("WARN"), "{}", server.log());
    eventually(|| server.admin("/ready").1 == "ready\n");
    assert!(server.log_has("a.yaml:3: cds `a`: connect_timeout: must be greater than 0s"));
    dir_write(&dir, "chancery.yaml", "gate: {messages: enforce}\n");
    eventually(|| server.admin("/ready").1.contains("faults: 1"));
    assert!(server.clusters("me").contains("\"0s\""), "it was the last good state");
}

#[test]
fn what_somebody_allows_is_neither_held_back_nor_warned_of() {
    // S-063
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("b.yaml", "")]);
    let mut server = Server::start(&dir, &[]);
    assert!(server.log_has("b.yaml: says nothing"));
    let commented = format!("# chancery: allow rule/duration-gt: a test\n{}", cluster("a", 0));
    dir_write(&dir, "a.yaml", &commented);
    eventually(|| server.clusters("me").contains("\"0s\""));
    dir_write(&dir, "a.yaml", &cluster("b", 0));
    assert!(server.log_has("connect_timeout: must be greater than 0s"));
    let config =
        || serde_json::from_str::<serde_json::Value>(&server.admin("/api/v1/config").1).unwrap();
    eventually(|| config()["warning_count"] == 1);
    let allow = "allow: {rule/duration-gt: a test, file/empty: a test}\n";
    dir_write(&dir, "chancery.yaml", allow);
    eventually(|| config()["warning_count"] == 0);
    eventually(|| server.clusters("me").contains("\"b\""));
}

#[test]
fn what_declared_clients_would_reject_is_held_back() {
    // S-063
    let policy = "type.googleapis.com/envoy.extensions.load_balancing_policies";
    let policies = |name: &str| {
        format!(
            "{}load_balancing_policy: {{policies: [{{typed_extension_config: {{name: a, typed_config: \
             {{\"@type\": {policy}.{name}}}}}}}]}}\n",
            cluster("a", 1)
        )
    };
    let dir = directory(&[("groups/g/a.yaml", &policies("round_robin.v3.RoundRobin"))]);
    let rules =
        |client: &str| format!("groups: [{{name: g, match: {{id: me}}, clients: {client}}}]\n");
    dir_write(&dir, "chancery.yaml", &rules("envoy=1.36"));
    let mut server = Server::start(&dir, &[]);
    let new = policies("dynamic_modules.v3.DynamicModulesLoadBalancerConfig");
    let new =
        new.replace("Config}", "Config, dynamic_module_config: {name: m}, lb_policy_name: l}");
    dir_write(&dir, "groups/g/a.yaml", &new);
    let line = "load_balancing_policy.policies: none of the policies is known to Envoy 1.36, so the \
                cluster is rejected";
    assert!(server.log_has(line), "{}", server.log());
    assert!(!server.clusters("me").contains("dynamic_modules"));
    dir_write(&dir, "chancery.yaml", &rules("envoy=1.40"));
    eventually(|| server.clusters("me").contains("dynamic_modules"));
    eventually(|| server.admin("/ready").1 == "ready\n");
}

#[test]
fn what_envoy_would_reject_counts_as_a_fault_at_a_start_unless_told_otherwise() {
    // S-063
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("groups/g/b.yaml", &cluster("b", 0))]);
    let path = dir.path().to_str().unwrap();
    let ended = finished(&mut chancery(&["serve", path, "--allow-partial=false"]));
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("b.yaml:3:18") && told.contains("help: Envoy rejects this"), "{told}");
    assert!(Server::start(&dir, &[]).clusters("me").contains("\"a\""));
    for mode in ["warn", "off"] {
        dir_write(&dir, "chancery.yaml", &format!("gate: {{messages: {mode}}}\n"));
        let mut server = Server::start(&dir, &[]);
        assert!(server.log_has("loaded"));
        let is_warned = server.log().contains("must be greater than 0s");
        assert_eq!(is_warned, mode == "warn", "{}", server.log());
    }
}

/// A field of a protobuf message: its number, and its bytes.
fn field(number: u16, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let tag = number << 3 | 2;
    let low = u8::try_from(tag & 0x7f).unwrap();
    let key =
        if tag < 0x80 { vec![low] } else { vec![low | 0x80, u8::try_from(tag >> 7).unwrap()] };
    let length = vec![u8::try_from(bytes.as_ref().len()).unwrap()];
    [key, length, bytes.as_ref().to_vec()].concat()
}

/// A descriptor set of `own.M`, whose text `f` has a rule with a pattern that RE2 does not know.
fn descriptors() -> Vec<u8> {
    let rules = field(1071, field(14, field(6, "(a")));
    let number_label_and_type = vec![3 << 3, 1, 4 << 3, 1, 5 << 3, 9];
    let f = [field(1, "f"), number_label_and_type, field(8, rules)].concat();
    let message = [field(1, "M"), field(2, f)].concat();
    let uses = field(3, "validate/validate.proto");
    let parts = [field(1, "own.proto"), field(2, "own"), uses, field(4, message)];
    field(1, [parts.concat(), field(12, "proto3")].concat())
}

#[test]
fn a_rule_that_is_not_checked_is_named() {
    let dir = directory(&[("a.yaml", &cluster("a", 1)), ("chancery.yaml", "ignore: [own.bin]\n")]);
    let set = dir.path().join("own.bin");
    std::fs::write(&set, descriptors()).unwrap();
    let flags = ["--descriptor-set", set.to_str().unwrap()];
    let told = "the rule of `own.M.f` is not checked: the pattern `(a`";
    let words = [&["check", dir.path().to_str().unwrap()], &flags[..]].concat();
    let checked = String::from_utf8(finished(&mut chancery(&words)).stdout).unwrap();
    assert!(checked.contains(&format!("warning[unsupported-rule]: {told}")), "{checked}");
    assert!(Server::start(&dir, &flags).log_has(told));
}

/// Violations in a list, in an `Any`, in a wrapper and behind an anchor, of what is deprecated, and of a
/// listener that is gRPC's.
const WRONG: &str = "\
\"@type\": type.googleapis.com/envoy.service.discovery.v3.Resource
name: a
resource:
  \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
  health_checks:
  - &check {timeout: 1s, interval: 0s, unhealthy_threshold: 3, healthy_threshold: 1, tcp_health_check: {}}
  - *check
  http_protocol_options: {}
---
\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: b
filter_chains:
- filters:
  - name: tcp
    typed_config:
      \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
      cluster: a
---
\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: c
api_listener:
  api_listener:
    \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
";

/// The findings of `check` of a severity about rules: the sentence, and the place with the column or
/// without it.
fn checked(path: &str, severity: &str, with_column: bool) -> Vec<(String, String)> {
    let told = finished(&mut chancery(&["check", path, "-o", "json"])).stdout;
    let lines = String::from_utf8(told).unwrap();
    let findings = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let rules = findings.filter(|it: &serde_json::Value| {
        let code = it["code"].as_str().unwrap();
        (code.starts_with("rule/") || code.starts_with("envoy/")) && it["severity"] == severity
    });
    let mut all: Vec<_> = rules
        .map(|it| {
            let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
            let column = if with_column { format!(":{}", it["column"]) } else { String::new() };
            let dot = if text("field").is_empty() { "" } else { ": " };
            let place = format!("{}:{}{column}", text("file"), it["line"]);
            (place, format!("{}{dot}{}", text("field"), text("message")))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn check_and_serve_say_the_same_of_messages() {
    let dir = directory(&[("a.yaml", WRONG)]);
    let path = dir.path().to_str().unwrap();
    let ended = finished(&mut chancery(&["serve", path, "--listen", "127.0.0.1:0"]));
    let told = String::from_utf8(ended.stderr).unwrap();
    let errors = told.split("error: ").skip(1).filter_map(|it| it.split_once("\n --> "));
    let mut served: Vec<_> = errors
        .map(|(sentence, rest)| (rest.lines().next().unwrap().to_owned(), sentence.to_owned()))
        .collect();
    served.sort();
    assert_eq!(served.len(), 6, "{told}");
    assert_eq!(served, checked(path, "error", true));

    dir_write(&dir, "chancery.yaml", WARN);
    assert_eq!(checked(path, "error", true), []);
    let warned = checked(path, "warning", false);
    assert_eq!(warned.len(), 9, "{warned:?}");
    let mut server = Server::start(&dir, &[]);
    for (place, sentence) in warned {
        assert!(server.log_has(&format!("{place}: {sentence}")));
    }
}
