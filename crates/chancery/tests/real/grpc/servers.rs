//! Listeners that gRPC servers reject or take: real servers and `chancery check --for grpc` agree about each, and
//! about whose servers they are.

use std::process::Command;

use chancery_proto::schema::Schema;
use serde_json::{Value, json};

use super::judged::{Case, cases};
use super::{LOOPBACK, Rig, bootstrap_for, file_watcher, with_clients};
use crate::support::chancery::{Chancery, Directory};
use crate::support::ports::Port;
use crate::support::process::Process;
use crate::support::tls::CertificateAuthority;
use crate::support::wait;

const CASES: &str = include_str!("servers.json");

/// A listener that all servers take, by the name that the template makes of an address.
fn good(address: &str, port: &Port) -> Value {
    let url = |name: &str| format!("type.googleapis.com/envoy.extensions.filters.{name}");
    let number = port.number();
    json!({"@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": format!("grpc/server?xds.resource.listening_address={address}:{number}"),
        "address": {"socket_address": {"address": address, "port_value": number}},
        "filter_chains": [{"name": "chain", "filters": [{"name": "hcm", "typed_config": {
            "@type": url("network.http_connection_manager.v3.HttpConnectionManager"),
            "route_config": {"name": "inline", "virtual_hosts": [{"name": "vh", "domains": ["*"],
                "routes": [{"match": {"prefix": ""}, "non_forwarding_action": {}}]}]},
            "http_filters": [{"name": "router",
                "typed_config": {"@type": url("http.router.v3.Router")}}]}}]}]})
}

/// A management server, and a gRPC server that judges one listener after the other.
struct Judge<'r> {
    rig: &'r Rig,
    command: fn(&Rig) -> Command,
    directory: Directory,
    chancery: Chancery,
    bootstrap: Value,
    good: Value,
    server: Process,
    started: usize,
    port: Port,
}

impl<'r> Judge<'r> {
    fn start(rig: &'r Rig, command: fn(&Rig) -> Command, address: &str) -> Self {
        let authority = CertificateAuthority::new(&rig.path().join("tls"));
        authority.issue("server");
        let port = Port::reserve();
        let directory = Directory::new(rig.path(), "config");
        directory.write("chancery.yaml", "gate: {messages: warn, loss: off, dangling: off}\n");
        let good = good(address, &port);
        directory.write("lds.json", &good.to_string());
        let chancery = Chancery::serve_with(&directory, &["--log-level", "debug"]);
        let mut bootstrap = bootstrap_for(&chancery);
        bootstrap["certificate_providers"] = json!({"files":
            {"plugin_name": "file_watcher", "config": file_watcher(&authority, "server")}});
        let words = [&port.number().to_string(), "judge", "xds"];
        let server = rig.start("server", command(rig), &bootstrap, &words);
        let mut judge =
            Self { rig, command, directory, chancery, bootstrap, good, server, started: 0, port };
        assert_eq!(judge.judged(0), Judged::Taken, "the good listener");
        judge
    }

    /// Waits until the server has judged a listener since a mark.
    fn judged(&mut self, mark: usize) -> Judged {
        wait::until("a gRPC server to judge a listener", || {
            let told = self.chancery.said_since(mark).join("\n");
            let mut lines = told.lines().filter(|line| line.contains("type=\"lds\""));
            let judged = lines.find_map(|line| match line {
                line if line.contains(" rejected ") => Some(Judged::Rejected),
                line if line.contains(" acked ") => Some(Judged::Taken),
                _ => None,
            });
            judged.or_else(|| self.server.ended().map(|_| Judged::Ended))
        })
    }

    /// Has the server judge a case. One that ends because of it is started again.
    fn judge(&mut self, Case { name, resource, .. }: &Case) -> Judged {
        let mark = self.chancery.mark();
        self.directory.write("lds.json", &resource.to_string());
        let judged = self.judged(mark);
        let mark = self.chancery.mark();
        self.directory.write("lds.json", &self.good.to_string());
        if judged == Judged::Ended {
            self.chancery.says_after(mark, "loaded");
            self.started += 1;
            let words = [&self.port.number().to_string(), "judge", "xds"];
            let command = (self.command)(self.rig);
            let file = format!("server-{}", self.started);
            self.server = self.rig.start(&file, command, &self.bootstrap, &words);
        }
        assert_eq!(self.judged(mark), Judged::Taken, "the good listener after {name}");
        judged
    }
}

/// The judgement of a server about a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Taken,
    Rejected,
    Ended,
}

/// Compares what a server makes of all cases with what is found in them.
fn agrees(name: &'static str, command: fn(&Rig) -> Command, address: &str) {
    with_clients(|rig| {
        let schema = Schema::bundled();
        let mut judge = Judge::start(rig, command, address);
        let cases = cases(CASES, &[("lds", judge.good.clone())]);
        let judged = cases.iter().map(|case| (case, judge.judge(case)));
        let wrong: Vec<_> = judged
            .filter(|(case, judged)| {
                let is_rejected = *judged != Judged::Taken;
                // A server may take a listener with another address, and not serve.
                let is_of_address = case.name.starts_with("address: ") && !is_rejected;
                let is_found = case.rejected_by(&schema).contains(name);
                is_rejected != is_found && !is_of_address
            })
            .map(|(case, judged)| {
                format!("{} {judged:?} {:?}", case.name, case.rejected_by(&schema))
            })
            .collect();
        assert!(wrong.is_empty(), "a server of gRPC {name} does otherwise: {wrong:#?}");
    });
}

// S-127
#[test]
fn a_go_server_rejects_what_is_found_of_it() {
    agrees("Go", |rig| rig.clients.grpc_go("server"), LOOPBACK);
}

// S-127
#[test]
fn a_server_of_the_c_core_rejects_what_is_found_of_it() {
    agrees("C-core", |rig| rig.clients.python("server.py"), LOOPBACK);
}

// S-127
#[test]
fn a_java_server_rejects_what_is_found_of_it() {
    agrees("Java", |rig| rig.clients.grpc_java("server"), "0.0.0.0");
}

// S-127
#[test]
fn a_node_server_rejects_what_is_found_of_it() {
    agrees("Node", |rig| rig.clients.node("server.js"), LOOPBACK);
}
