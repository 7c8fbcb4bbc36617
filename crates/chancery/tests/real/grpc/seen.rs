//! Clients that say they are gRPC, where nobody declared any: what gRPC leaves out is warned of from then on, and
//! nothing is held back.

use std::process::Command;

use super::{Rig, bootstrap_for, hello, with_clients};
use crate::support::chancery::Chancery;

/// Envoy needs no weights, and what gRPC rejects (an address that is a name) Envoy may reject too, or not get.
const OF_ENVOY: &str = "\
- '@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: of-envoy
  endpoints:
  - locality: {zone: a}
    lb_endpoints:
    - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: of-envoy
  type: EDS
  eds_cluster_config: {eds_config: {ads: {}}}
  lb_policy: MAGLEV
";

fn is_seen(rig: &Rig, command: Command) {
    let server = rig.greeter("one");
    let directory = hello(rig, &[server.port.number()]);
    directory.write("of-envoy.yaml", OF_ENVOY);
    let chancery = Chancery::serve(&directory);
    let ignored = "without `load_balancing_weight`: ignored by gRPC";
    assert!(!chancery.said_since(0).join("\n").contains(ignored));
    let client = rig.start("client", command, &bootstrap_for(&chancery), &["xds:///hello.test"]);
    client.says("from one");
    chancery.says("gRPC clients are connected (nodes in no group)");
    chancery.says(ignored);
    chancery.says("lb_policy: the policy must be");
    // All of gRPC rejects this, so it would be held back if gRPC were declared.
    directory.write("of-envoy.yaml", &OF_ENVOY.replace("MAGLEV", "RANDOM"));
    chancery.says("~cds of-envoy");
}

#[test]
fn a_go_client_is_seen() {
    with_clients(|rig| is_seen(rig, rig.clients.grpc_go("client")));
}

#[test]
fn a_java_client_is_seen() {
    with_clients(|rig| is_seen(rig, rig.clients.grpc_java("client")));
}

#[test]
fn a_client_of_the_c_core_is_seen() {
    with_clients(|rig| is_seen(rig, rig.clients.python("client.py")));
}

#[test]
fn a_node_client_is_seen() {
    with_clients(|rig| is_seen(rig, rig.clients.node("client.js")));
}
