//! Resources that gRPC clients reject or take: real clients and `chancery check --for grpc` agree about
//! each, and about whose clients they are.

use std::collections::BTreeSet;
use std::process::Command;

use chancery_proto::document::{Checks, Format, RuleCheck, parse_checked};
use chancery_proto::schema::Schema;
use serde_json::{Value, json};

use super::{Rig, bootstrap_for, with_clients};
use crate::support::chancery::{Chancery, Directory};
use crate::support::process::Process;
use crate::support::wait;

/// A change of one of the resources of a service.
pub(super) struct Case {
    pub(super) name: String,
    /// The type of the resource, as in `cds`.
    kind: String,
    pub(super) resource: Value,
    /// The clients that end because of it, or whose channels do.
    ends: Vec<String>,
}

const CASES: &str = include_str!("judged.json");

const CLIENTS: [&str; 4] = ["Go", "C-core", "Java", "Node"];

/// The resources of a service that all clients take.
fn good() -> Vec<(&'static str, Value)> {
    let url = |name: &str| format!("type.googleapis.com/envoy.{name}");
    let filters = "extensions.filters";
    vec![
        (
            "lds",
            json!({"@type": url("config.listener.v3.Listener"), "name": "hello.test",
            "api_listener": {"api_listener": {
                "@type": url(&format!("{filters}.network.http_connection_manager.v3.HttpConnectionManager")),
                "rds": {"route_config_name": "r", "config_source": {"ads": {}}},
                "http_filters": [{"name": "router", "typed_config":
                    {"@type": url(&format!("{filters}.http.router.v3.Router"))}}]}}}),
        ),
        (
            "rds",
            json!({"@type": url("config.route.v3.RouteConfiguration"), "name": "r",
            "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
                {"match": {"prefix": "/one"}, "route": {"cluster": "c"}},
                {"match": {"prefix": ""}, "route": {"cluster": "c"}}]}]}),
        ),
        (
            "cds",
            json!({"@type": url("config.cluster.v3.Cluster"), "name": "c", "type": "EDS",
            "eds_cluster_config": {"eds_config": {"ads": {}}}}),
        ),
        (
            "eds",
            json!({"@type": url("config.endpoint.v3.ClusterLoadAssignment"), "cluster_name": "c",
            "endpoints": [
                {"locality": {"zone": "a"}, "load_balancing_weight": 1, "lb_endpoints": [
                    {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}}}]},
                {"locality": {"zone": "b"}, "load_balancing_weight": 1, "lb_endpoints": [
                    {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 2}}}}]}]}),
        ),
    ]
}

/// The cases of a file, each of which changes a good resource.
pub(super) fn cases(text: &str, good: &[(&str, Value)]) -> Vec<Case> {
    let all: Vec<Value> = serde_json::from_str(text).expect("it is JSON");
    let case = |case: Value| {
        let kind = case["kind"].as_str().expect("a kind").to_owned();
        let (_, resource) = good.iter().find(|(known, _)| *known == kind).expect("a known kind");
        let mut resource = resource.clone();
        for (path, value) in case["set"].as_object().expect("a change") {
            let (parent, field) = path.rsplit_once('/').expect("a path");
            let parent = resource.pointer_mut(parent).unwrap_or_else(|| panic!("{path}"));
            match (parent, value) {
                (Value::Object(parent), Value::Null) => drop(parent.remove(field)),
                (Value::Array(parent), value) => parent.push(value.clone()),
                (parent, value) => parent[field] = value.clone(),
            }
        }
        let ends = case["ends"].as_array().into_iter().flatten();
        let ends = ends.filter_map(Value::as_str).map(str::to_owned).collect();
        Case { name: case["name"].as_str().expect("a name").to_owned(), kind, resource, ends }
    };
    all.into_iter().map(case).collect()
}

impl Case {
    /// The implementations of gRPC that reject it, by what is found in it.
    pub(super) fn rejected_by(&self, schema: &Schema) -> BTreeSet<&'static str> {
        let clients = "grpc".parse().expect("a client");
        let checks = Checks { rules: RuleCheck::Fault, clients };
        let text = self.resource.to_string();
        let parsed = parse_checked(schema, Format::Json, text.as_bytes(), checks);
        assert!(parsed.faults.is_empty(), "{}: {:?}", self.name, parsed.faults);
        let broken = parsed.violations.iter().map(|it| (it.fault.code, it.fault.message.as_str()));
        let warnings = parsed.resources.iter().flat_map(|it| &it.warnings);
        let all = broken.chain(warnings.map(|it| (it.code, it.text.as_str())));
        let who = all.filter(|(code, _)| *code == "grpc/rejected");
        let who = who.filter_map(|(_, text)| Some(text.rsplit_once("rejected by gRPC")?.1));
        let who = who.flat_map(|names| {
            CLIENTS.into_iter().filter(move |name| names.is_empty() || names.contains(name))
        });
        who.collect()
    }
}

/// A server, and a client of it that judges one resource after the other.
struct Judge<'r> {
    rig: &'r Rig,
    name: &'static str,
    command: fn(&Rig) -> Command,
    directory: Directory,
    chancery: Chancery,
    client: Process,
    started: usize,
}

impl<'r> Judge<'r> {
    fn start(rig: &'r Rig, name: &'static str, command: fn(&Rig) -> Command) -> Self {
        let directory = Directory::new(rig.path(), "config");
        for (kind, resource) in good() {
            directory.write(&format!("{kind}.json"), &resource.to_string());
        }
        directory.write("chancery.yaml", "gate: {messages: warn, loss: off, dangling: off}\n");
        let chancery = Chancery::serve_with(&directory, &["--log-level", "debug"]);
        let client = client(rig, 0, command(rig), &chancery);
        let judge = Self { rig, name, command, directory, chancery, client, started: 1 };
        judge.takes_all(0);
        judge
    }

    /// Waits until the client has taken all good resources.
    fn takes_all(&self, mark: usize) {
        for kind in ["lds", "rds", "cds", "eds"] {
            assert!(!self.rejects(mark, kind), "{} takes the good {kind}", self.name);
        }
    }

    /// Waits until the client has judged a type since a mark. Returns true if it rejects it.
    fn rejects(&self, mark: usize, kind: &str) -> bool {
        wait::until(&format!("gRPC {} to judge {kind}", self.name), || {
            let told = self.chancery.said_since(mark).join("\n");
            let mut lines = told.lines().filter(|line| line.contains(&format!("type=\"{kind}\"")));
            lines.find_map(|line| {
                let is_rejected = line.contains(" rejected ");
                (is_rejected || line.contains(" acked ")).then_some(is_rejected)
            })
        })
    }

    /// Has the client judge a case. Returns true if it rejects it, or ends because of it.
    fn judge(&mut self, Case { name, kind, resource, ends }: &Case) -> bool {
        let (_, good) = good().into_iter().find(|(known, _)| known == kind).expect("a known kind");
        let file = format!("{kind}.json");
        let mark = self.chancery.mark();
        self.directory.write(&file, &resource.to_string());
        if ends.iter().any(|client| client == self.name) {
            // A channel of gRPC Java ends without its program.
            wait::until(&format!("gRPC {} to end", self.name), || {
                let is_over = self.client.output().contains("Panic!");
                is_over.then_some(()).or_else(|| self.client.ended().map(drop))
            });
            self.directory.write(&file, &good.to_string());
            self.chancery.says_after(mark, "loaded");
            let mark = self.chancery.mark();
            let command = (self.command)(self.rig);
            self.client = client(self.rig, self.started, command, &self.chancery);
            self.started += 1;
            self.takes_all(mark);
            return true;
        }
        let is_rejected = self.rejects(mark, kind);
        let mark = self.chancery.mark();
        self.directory.write(&file, &good.to_string());
        assert!(!self.rejects(mark, kind), "gRPC {} takes the good {kind} after {name}", self.name);
        // A changed cluster has its endpoints sent again, and their verdict is none on the next case.
        self.chancery.says_after(mark, "landed");
        is_rejected
    }
}

fn client(rig: &Rig, number: usize, command: Command, chancery: &Chancery) -> Process {
    let name = format!("client-{number}");
    rig.start(&name, command, &bootstrap_for(chancery), &["xds:///hello.test"])
}

/// Compares what a client makes of all cases with what is found in them.
fn agrees(name: &'static str, command: fn(&Rig) -> Command) {
    with_clients(|rig| {
        let schema = Schema::bundled();
        let mut judge = Judge::start(rig, name, command);
        let wrong: Vec<_> = cases(CASES, &good())
            .iter()
            .filter(|case| judge.judge(case) != case.rejected_by(&schema).contains(name))
            .map(|case| format!("{} {}: {:?}", case.kind, case.name, case.rejected_by(&schema)))
            .collect();
        assert!(wrong.is_empty(), "gRPC {name} does otherwise: {wrong:#?}");
    });
}

// S-125, S-126
#[test]
fn grpc_go_rejects_what_is_found_of_it() {
    agrees("Go", |rig| rig.clients.grpc_go("client"));
}

// S-125, S-126
#[test]
fn the_c_core_rejects_what_is_found_of_it() {
    agrees("C-core", |rig| rig.clients.python("client.py"));
}

// S-125, S-126
#[test]
fn grpc_java_rejects_what_is_found_of_it() {
    agrees("Java", |rig| rig.clients.grpc_java("client"));
}

// S-125, S-126
#[test]
fn grpc_node_rejects_what_is_found_of_it() {
    agrees("Node", |rig| rig.clients.node("client.js"));
}
