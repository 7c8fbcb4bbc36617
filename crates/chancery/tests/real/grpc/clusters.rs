//! Routes that gain several clusters at once, and lose them again.
//!
//! A client that reads of several new clusters may ask for their endpoints one after the other: it
//! adds a name to its subscription before it has read the answer to the names before it. The
//! server must see from its answers that it has all of them, or the next change of the routes
//! waits for `warm-wait`, which is far longer here than what a test waits for.

use std::process::Command;

use super::{Rig, bootstrap_for, client_listener, eds_cluster, routes_by_prefix, with_clients};
use crate::support::chancery::{Chancery, Directory};
use crate::support::resources::endpoints;

/// The number of clusters after each edit. Odd and even take turns, as do the servers that
/// answer.
const EDITS: [usize; 12] = [5, 10, 3, 12, 7, 14, 1, 8, 15, 2, 9, 16];

/// All calls take the last of the clusters, and each edit makes it another one.
fn follows_routes(rig: &Rig, command: Command) {
    let servers = ["even", "odd"].map(|name| rig.greeter(name));
    let ports = servers.each_ref().map(|server| server.port.number());
    let directory = Directory::new(rig.path(), "config");
    directory
        .write("chancery.yaml", "gate: {loss: off}\nlimits: {warm-wait: 1h, removal-wait: 1h}\n");
    directory.write("service.yaml", &service_on(2, ports));
    let chancery = Chancery::serve(&directory);
    let client = rig.start("client", command, &bootstrap_for(&chancery), &["xds:///hello.test"]);
    client.says("from even");
    for clusters in EDITS {
        let mark = client.mark();
        directory.write("service.yaml", &service_on(clusters, ports));
        client.says_after(mark, ["from even", "from odd"][clusters % 2]);
    }
}

/// A service on so many clusters: clusters with an even number lead to the first port, those with
/// an odd one to the second, and only the last of them is called.
fn service_on(clusters: usize, ports: [u16; 2]) -> String {
    let name = |number| format!("cluster-{number}");
    let routes = (1..=clusters).map(|number| {
        let prefix = if number == clusters { String::new() } else { format!("/none/{number}") };
        (prefix, name(number))
    });
    let mut text = client_listener("hello.test", "routes") + &routes_by_prefix("routes", routes);
    for number in 1..=clusters {
        let at = format!("endpoints-{number}");
        text += &eds_cluster(&name(number), &at);
        text += &endpoints(&at, &[ports[number % 2]]);
    }
    text
}

// S-037, S-097
#[test]
fn go_follows_routes_to_new_clusters() {
    with_clients(|rig| follows_routes(rig, rig.clients.grpc_go("client")));
}

// S-037, S-097
#[test]
fn java_follows_routes_to_new_clusters() {
    with_clients(|rig| follows_routes(rig, rig.clients.grpc_java("client")));
}

// S-037, S-097
#[test]
fn python_follows_routes_to_new_clusters() {
    with_clients(|rig| follows_routes(rig, rig.clients.python("client.py")));
}

// S-037, S-097
#[test]
fn node_follows_routes_to_new_clusters() {
    with_clients(|rig| follows_routes(rig, rig.clients.node("client.js")));
}
