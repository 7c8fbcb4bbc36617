//! Load reports of gRPC clients: the calls that they print are those that are shown.

use std::process::Command;

use super::{Rig, bootstrap_for, client_listener, eds_cluster, routes_by_prefix, with_clients};
use crate::support::chancery::{Chancery, Directory};
use crate::support::process::Process;
use crate::support::resources::endpoints;
use crate::support::wait;

/// The number of good answers that a client has printed.
fn printed(client: &Process) -> u64 {
    client.output().lines().filter(|line| line.ends_with("from one")).count() as u64
}

/// The good answers that are shown of its calls.
fn shown(chancery: &Chancery) -> u64 {
    let rows = chancery.load("?by=locality&cluster=cluster");
    rows.iter().filter_map(|row| row["succeeded"].as_u64()).sum()
}

/// All calls that were printed are shown soon, and never one that was not made.
fn reports(rig: &Rig, command: Command) {
    let server = rig.greeter("one");
    let directory = Directory::new(rig.path(), "config");
    directory.write("chancery.yaml", "load-reports: {interval: 1s}\n");
    let text = client_listener("hello.test", "routes")
        + &routes_by_prefix("routes", [(String::new(), "cluster".to_owned())])
        + &eds_cluster("cluster", "endpoints")
        + "  lrs_server: {self: {}}\n"
        + &endpoints("endpoints", &[server.port.number()]);
    directory.write("service.yaml", &text);
    let chancery = Chancery::serve(&directory);
    let client = rig.start("client", command, &bootstrap_for(&chancery), &["xds:///hello.test"]);
    client.says("from one");
    for _ in 0..3 {
        let before = printed(&client);
        wait::holds("the calls that were printed to be shown", || {
            let shown = shown(&chancery);
            // A call may be counted that is about to be printed.
            let most = printed(&client) + 1;
            assert!(shown <= most, "{shown} calls are shown of {most}");
            shown > before
        });
    }
    let [row] = &chancery.load("?by=node")[..] else { panic!("one node reports") };
    assert_eq!((&row["node"], &row["failed"]), (&"grpc-1".into(), &0.into()), "{row}");
    let [row] = &chancery.load("")[..] else { panic!("one cluster is reported") };
    assert_eq!(row["service"], "endpoints", "{row}");
}

// S-130, S-131, S-132, S-133
#[test]
fn python_reports_its_calls() {
    with_clients(|rig| reports(rig, rig.clients.python("client.py")));
}

// S-130, S-131, S-132, S-133
#[test]
fn go_reports_its_calls() {
    with_clients(|rig| reports(rig, rig.clients.grpc_go("client")));
}

// S-130, S-131, S-132, S-133
#[test]
fn java_reports_its_calls() {
    with_clients(|rig| reports(rig, rig.clients.grpc_java("client")));
}

// S-130, S-131, S-132, S-133
#[test]
fn node_reports_its_calls() {
    with_clients(|rig| reports(rig, rig.clients.node("client.js")));
}
