//! A client that began with the second server of its bootstrap, when the first one comes.
//!
//! Not gRPC for Go: 1.85.0 turns to the first server, and asks it for nothing it had asked the second
//! one for.

use std::process::Command;

use super::{Rig, bootstrap, hello, server, with_clients};
use crate::support::chancery::{Chancery, Directory};
use crate::support::ports::Port;
use crate::support::resources::endpoints;

/// It turns to the better server as soon as that is there, and follows it.
fn returns_to_the_first_server(rig: &Rig, command: Command) {
    let (one, two) = (rig.greeter("one"), rig.greeter("two"));
    let move_to = |directory: &Directory, port: &Port| {
        directory.write("eds.yaml", &endpoints("hello-endpoint", &[port.number()]));
    };
    let directory = hello(rig, &[one.port.number()]);
    let second = Chancery::serve(&directory);
    let ports = [Port::reserve(), Port::reserve()];
    let servers = [server(&ports[0].address()), server(&second.address())];
    let client = rig.start("client", command, &bootstrap(&servers), &["xds:///hello.test"]);
    client.says("from one");
    move_to(&directory, &two.port);
    let _first = Chancery::serve_on(ports, &directory, &[] as &[&str]);
    client.says("from two");
    second.says("stream closed");
    let mark = client.mark();
    move_to(&directory, &one.port);
    client.says_after(mark, "from one");
}

// S-129
#[test]
fn python_returns_to_the_first_server() {
    with_clients(|rig| returns_to_the_first_server(rig, rig.clients.python("client.py")));
}

// S-129
#[test]
fn java_returns_to_the_first_server() {
    with_clients(|rig| returns_to_the_first_server(rig, rig.clients.grpc_java("client")));
}
