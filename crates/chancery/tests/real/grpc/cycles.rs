//! Clusters that aggregate each other in a circle: the clients of gRPC take them. Java and Node fail every
//! call that they are for, also where one of them has endpoints; Go and the C core call these.

use std::process::Command;

use super::{Rig, bootstrap_for, client_listener, eds_cluster, routes_by_prefix, with_clients};
use crate::support::chancery::{Chancery, Directory};
use crate::support::resources::endpoints;
use crate::support::wait;

/// A cluster that aggregates others.
fn aggregate(name: &str, members: &str) -> String {
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  cluster_type:
    name: envoy.clusters.aggregate
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig
      clusters: [{members}]
"
    )
}

/// A client whose calls fail while there is a circle, or do not.
fn meets_a_circle(rig: &Rig, command: Command, fails: bool) {
    let server = rig.greeter("leaf");
    let directory = Directory::new(rig.path(), "config");
    directory.write("chancery.yaml", "clients: grpc\ngate: {dangling: warn}\n");
    let service = client_listener("hello.test", "routes")
        + &routes_by_prefix("routes", [(String::new(), "outer".to_owned())])
        + &eds_cluster("leaf", "leaf")
        + &endpoints("leaf", &[server.port.number()]);
    directory.write("service.yaml", &service);
    directory.write("outer.yaml", &aggregate("outer", "inner, leaf"));
    directory.write("inner.yaml", &aggregate("inner", "leaf"));
    let chancery = Chancery::serve_with(&directory, &["--log-level", "debug"]);
    let client = rig.start("client", command, &bootstrap_for(&chancery), &["xds:///hello.test"]);
    client.says("from leaf");
    let mark = chancery.mark();
    directory.write("inner.yaml", &aggregate("inner", "leaf, outer"));
    chancery.says("cds `inner` aggregates itself through `outer`");
    wait::until("the client to take the clusters", || {
        let told = chancery.said_since(mark).join("\n");
        let mut lines = told.lines();
        lines.any(|it| it.contains(" acked ") && it.contains("type=\"cds\"")).then_some(())
    });
    let told = if fails { "error " } else { "from leaf" };
    client.says_after(client.mark(), told);
    let mark = client.mark();
    directory.write("inner.yaml", &aggregate("inner", "leaf"));
    client.says_after(mark, "from leaf");
}

#[test]
fn go_calls_the_others_in_a_circle_of_clusters() {
    with_clients(|rig| meets_a_circle(rig, rig.clients.grpc_go("client"), false));
}

#[test]
fn java_fails_the_calls_to_a_circle_of_clusters() {
    with_clients(|rig| meets_a_circle(rig, rig.clients.grpc_java("client"), true));
}

#[test]
fn python_calls_the_others_in_a_circle_of_clusters() {
    with_clients(|rig| meets_a_circle(rig, rig.clients.python("client.py"), false));
}

#[test]
fn node_fails_the_calls_to_a_circle_of_clusters() {
    with_clients(|rig| meets_a_circle(rig, rig.clients.node("client.js"), true));
}
