//! The rules that Envoy has in its code: Envoy and our checks look at the same configurations, and agree
//! about each that is refused. The cases are in `envoy-rules/cases.json`.

use std::fs;
use std::path::Path;
use std::thread;

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
        let checks = Checks { rules: RuleCheck::Fault };
        let parsed = parse_checked(schema, Format::Json, text.as_bytes(), checks);
        let faults = parsed.faults.iter().map(ToString::to_string);
        let broken = parsed.violations.iter().map(|it| format!("{}: {}", it.rule, it.fault));
        faults.chain(broken).collect()
    }

    /// The last words of Envoy about the configuration; `None` if it takes it.
    fn refused(&self, clients: &RealClients, dir: &Path) -> Option<String> {
        let config = json!({
            "node": {"id": "a", "cluster": "b"},
            "static_resources": {"listeners": [self.listener], "clusters": [self.cluster]},
        });
        let file = dir.join("envoy.json");
        fs::write(&file, config.to_string()).expect("the file is written");
        let mut envoy = clients.envoy("1.40.0");
        envoy.args(["--mode", "validate", "-l", "error", "-c"]).arg(&file);
        let mut envoy = Process::start(dir, "envoy", &mut envoy);
        let status = until("Envoy to look at a configuration", || envoy.ended());
        (!status.success()).then(|| envoy.output())
    }
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
