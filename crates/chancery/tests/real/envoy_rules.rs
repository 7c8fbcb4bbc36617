//! The rules that Envoy has in its code: Envoy and our checks look at the same configurations, and agree
//! about each that is refused. The cases are in `envoy-rules/cases.json`.

use std::fs;
use std::path::Path;
use std::thread;

use chancery_proto::complete::Complete;
use chancery_proto::document::{Checks, Format, RuleCheck, parse_checked};
use chancery_proto::schema::Schema;
use serde_json::{Value, json};

use crate::support::clients::{RealClients, clients};
use crate::support::process::Process;
use crate::support::wait::until;

const CASES: &str = include_str!("envoy-rules/cases.json");

/// The number of cases that Envoy looks at at once.
const AT_ONCE: usize = 4;

/// A configuration that differs from a good one, and whether Envoy refuses it.
struct Case {
    name: String,
    cluster: Value,
    listener: Value,
    /// The reason for which our checks do not know what Envoy does.
    only_envoy: Option<String>,
}

/// A case is a change of the good configuration, in one of its parts.
fn case(mut case: Value) -> Case {
    let mut cluster = json!({
        "name": "c", "type": "STATIC", "connect_timeout": "1s",
        "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [{"endpoint": {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}}}]}]},
    });
    let mut routes = json!({"name": "r", "virtual_hosts": [{
        "name": "v", "domains": ["*"],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}]}]});
    change(&mut routes, case["routes"].take());
    let extension = "type.googleapis.com/envoy.extensions.filters";
    let mut manager = json!({
        "@type": format!("{extension}.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "s", "route_config": routes,
        "http_filters": [{"name": "envoy.filters.http.router",
            "typed_config": {"@type": format!("{extension}.http.router.v3.Router")}}],
    });
    change(&mut manager, case["manager"].take());
    let filter = "envoy.filters.network.http_connection_manager";
    let mut listener = json!({
        "name": "l", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
        "filter_chains": [{"filters": [{"name": filter, "typed_config": manager}]}],
    });
    change(&mut listener, case["listener"].take());
    change(&mut cluster, case["cluster"].take());
    let only_envoy = case["only_envoy"].as_str().map(str::to_owned);
    Case { name: case["name"].as_str().expect("a name").to_owned(), cluster, listener, only_envoy }
}

/// Sets the fields of a part. A field that is `null` is removed.
fn change(part: &mut Value, change: Value) {
    let Value::Object(fields) = change else { return };
    let part = part.as_object_mut().expect("a part has fields");
    for (name, value) in fields {
        match value {
            Value::Null => drop(part.remove(&name)),
            value => drop(part.insert(name, value)),
        }
    }
}

impl Case {
    /// All that our checks find wrong.
    fn found(&self, schema: &Schema) -> Vec<String> {
        let with_type = |body: &Value, name: &str| {
            let mut body = body.clone();
            body["@type"] = format!("type.googleapis.com/envoy.config.{name}").into();
            body
        };
        let both = [
            with_type(&self.cluster, "cluster.v3.Cluster"),
            with_type(&self.listener, "listener.v3.Listener"),
        ];
        let text = Value::from(both.to_vec()).to_string();
        let checks = Checks { rules: RuleCheck::Fault, ..Checks::default() };
        let parsed = parse_checked(schema, Format::Json, text.as_bytes(), checks);
        let faults = parsed.faults.iter().map(ToString::to_string);
        let broken = parsed.violations.iter().map(|it| format!("{}: {}", it.rule, it.fault));
        faults.chain(broken).collect()
    }

    /// The last words of Envoy about the configuration; `None` if it takes it.
    fn refused(&self, clients: &RealClients, dir: &Path) -> Option<String> {
        refused(clients, dir, std::slice::from_ref(&self.listener), &self.cluster)
    }
}

/// The last words of Envoy about these listeners and a cluster; `None` if it takes them.
fn refused(
    clients: &RealClients,
    dir: &Path,
    listeners: &[Value],
    cluster: &Value,
) -> Option<String> {
    let config = json!({
        "node": {"id": "a", "cluster": "b"},
        "static_resources": {"listeners": listeners, "clusters": [cluster]},
    });
    let file = dir.join("envoy.json");
    fs::write(&file, config.to_string()).expect("the file is written");
    let mut envoy = clients.envoy("1.40.0");
    envoy.args(["--mode", "validate", "-l", "error", "-c"]).arg(&file);
    let mut envoy = Process::start(dir, "envoy", &mut envoy);
    let status = until("Envoy to look at a configuration", || envoy.ended());
    (!status.success()).then(|| envoy.output())
}

#[test]
fn envoy_refuses_what_breaks_a_rule_and_takes_the_rest() {
    let Some(clients) = clients() else { return };
    let Value::Array(cases) = serde_json::from_str(CASES).expect("the cases are JSON") else {
        panic!("the cases are a list")
    };
    let cases: Vec<_> = cases.into_iter().map(case).collect();
    let schema = Schema::bundled();
    let differences: Vec<String> = thread::scope(|scope| {
        let parts = cases.chunks(cases.len().div_ceil(AT_ONCE));
        let threads: Vec<_> = parts
            .map(|part| {
                let (clients, schema) = (&clients, &schema);
                scope.spawn(move || {
                    let dir = tempfile::tempdir().expect("there is a temporary directory");
                    part.iter()
                        .filter_map(|case| difference(case, clients, schema, dir.path()))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|it| it.join().expect("no case panics")).collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Changes of two listeners, which are the same otherwise, and the sentence of ours if they clash.
fn pairs() -> Vec<(&'static str, Value, Value)> {
    let at = |address: &str, port: u16| json!({"address": {"socket_address": {"address": address, "port_value": port}}});
    let with = |mut one: Value, other: Value| {
        change(&mut one, other);
        one
    };
    let no_bind = json!({"bind_to_port": false});
    let pipe = json!({"address": {"pipe": {"path": "/tmp/chancery-no-socket"}}});
    let additional = json!({"additional_addresses": [at("127.0.0.1", 20001)]});
    let udp = json!({"address": {"socket_address":
        {"address": "127.0.0.1", "port_value": 20001, "protocol": "UDP"}}});
    let udp = with(
        udp,
        json!({"udp_listener_config": {}, "filter_chains": [],
        "listener_filters": [{"name": "proxy", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
            "stat_prefix": "u", "matcher": {"on_no_match": {"action": {"name": "route",
                "typed_config": {"@type":
                    "type.googleapis.com/envoy.extensions.filters.udp.udp_proxy.v3.Route",
                    "cluster": "c"}}}}}}]}),
    );
    vec![
        ("one address", at("127.0.0.1", 20001), at("127.0.0.1", 20001)),
        ("two ports", at("127.0.0.1", 20001), at("127.0.0.1", 20002)),
        ("any port", at("127.0.0.1", 0), at("127.0.0.1", 0)),
        ("any address", at("0.0.0.0", 20001), at("127.0.0.1", 20001)),
        ("one binds", at("127.0.0.1", 20001), with(at("127.0.0.1", 20001), no_bind.clone())),
        (
            "port 0, none binds",
            with(at("127.0.0.1", 0), no_bind.clone()),
            with(at("127.0.0.1", 0), no_bind),
        ),
        ("an additional address", at("127.0.0.1", 20001), with(at("127.0.0.1", 20002), additional)),
        ("another text of it", at("::1", 20001), at("0:0:0:0:0:0:0:1", 20001)),
        ("mapped", at("127.0.0.1", 20001), at("::ffff:127.0.0.1", 20001)),
        ("one path", pipe.clone(), pipe),
        ("two protocols", at("127.0.0.1", 20001), udp),
    ]
}

#[test]
fn envoy_refuses_a_listener_with_an_address_of_another_one() {
    let Some(clients) = clients() else { return };
    let (schema, dir) = (Schema::bundled(), tempfile::tempdir().expect("there is a directory"));
    for (name, one, other) in pairs() {
        let of = |change: Value| case(json!({"name": name, "listener": change}));
        let (one, mut other) = (of(one), of(other));
        other.listener["name"] = "other".into();
        let mut complete = Complete::new();
        for listener in [&one.listener, &other.listener] {
            let mut typed = listener.clone();
            typed["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener".into();
            let parsed = parse_checked(
                &schema,
                Format::Json,
                typed.to_string().as_bytes(),
                Checks::default(),
            );
            let [resource] = &parsed.resources[..] else { panic!("{name}: {:?}", parsed.faults) };
            complete.insert(&resource.type_url, std::sync::Arc::clone(&resource.resource));
        }
        let listeners = vec![one.listener.clone(), other.listener.clone()];
        let refused = refused(&clients, dir.path(), &listeners, &one.cluster);
        assert_eq!(
            complete.clashes().count(),
            usize::from(refused.is_some()),
            "{name}: {refused:?}"
        );
    }
}

/// A sentence about a case in which Envoy and our checks differ otherwise than it says.
fn difference(case: &Case, clients: &RealClients, schema: &Schema, dir: &Path) -> Option<String> {
    let (found, refused) = (case.found(schema), case.refused(clients, dir));
    let name = &case.name;
    match (found.first(), refused, &case.only_envoy) {
        (None, None, None) | (Some(_), Some(_), None) | (None, Some(_), Some(_)) => None,
        (Some(found), None, _) => Some(format!("{name}: Envoy takes it, and we say {found}")),
        (None, Some(refused), None) => {
            let last = refused.lines().rfind(|line| line.contains("rror")).unwrap_or_default();
            let from = last.len().saturating_sub(300);
            let last: String = last.chars().skip(from).collect();
            Some(format!("{name}: Envoy refuses it, and we find nothing: {last}"))
        }
        (_, _, Some(_)) => Some(format!("{name}: `only_envoy` is not true any more")),
    }
}
