//! The words of gRPC clients by CSDS, as `chancery status` shows it.

use std::process::Command;

use super::{Rig, bootstrap_for, hello, plain, service, with_clients};
use crate::running::{find, is_repaired, lines};
use crate::support::ask::status;
use crate::support::chancery::Chancery;
use crate::support::ports::Port;
use crate::support::wait;

/// The client tells what it runs, in the version that the server sent, and what it rejects and why.
fn is_told(rig: &Rig, command: impl FnOnce(&str) -> Command) {
    let one = rig.greeter("one");
    let directory = hello(rig, &[one.port.number()]);
    let chancery = Chancery::serve(&directory);
    let port = Port::reserve();
    let csds = port.number().to_string();
    let command = command(&csds);
    let client = rig.start("client", command, &bootstrap_for(&chancery), &["xds:///hello.test"]);
    client.says("from one");
    let at = format!("127.0.0.1:{csds}");
    let asked = || status(rig.path(), &["--csds", &at]);
    let (code, told, error) = asked();
    assert_eq!((code, error.as_str()), (Some(0), ""), "{told:?}");
    let of = told.iter().find(|client| find(client, "lds", "hello.test").is_some());
    let of = of.unwrap_or_else(|| panic!("nobody has the listener: {told:?}"));
    assert_eq!(of["node"], "grpc-1");
    let expected = [
        "lds hello.test running",
        "rds hello-route running",
        "cds hello-cluster running",
        "eds hello-endpoint running",
    ];
    assert_eq!(lines(of), expected);
    let good = service(plain, "");
    let bad = good.replace("lb_policy: ROUND_ROBIN", "lb_policy: MAGLEV");
    directory.write("service.yaml", &bad);
    let (code, rejected) = wait::until("the client to tell of its rejection", || {
        let (code, told, _) = asked();
        let mut found = told.iter().filter_map(|client| find(client, "cds", "hello-cluster"));
        Some((code, found.find(|it| it["state"] == "rejected")?.clone()))
    });
    assert_eq!(code, Some(1));
    let why = rejected["error"]["details"].as_str().expect("a reason");
    assert!(!why.is_empty(), "{rejected}");
    // A client that is given nothing that is new to it goes on to tell of its last error.
    let mended = "type: EDS\n  circuit_breakers: {thresholds: [{max_requests: 77}]}";
    directory.write("service.yaml", &good.replace("type: EDS", mended));
    is_repaired(rig.path(), &["--csds", &at]);
}

#[test]
fn the_c_core_tells_what_it_runs() {
    with_clients(|rig| {
        is_told(rig, |csds| {
            let mut command = rig.clients.python("client.py");
            command.args(["--csds", csds]);
            command
        });
    });
}

#[test]
fn grpc_node_tells_what_it_runs() {
    with_clients(|rig| {
        is_told(rig, |csds| {
            let mut command = rig.clients.node("client.js");
            command.args(["--csds", csds]);
            command
        });
    });
}
