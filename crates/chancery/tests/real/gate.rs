//! Slips that would cut the traffic of an Envoy, which the gate holds back.

use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::clients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::http::Connection;
use crate::support::ports::Port;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

const REQUESTS: usize = 100;

fn traffic_goes_on(kind: &str) {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let backend = Backend::start("backend");
    let edge = Port::reserve();
    let directory = Directory::new(dir.path(), "config");
    let all = cluster("web", Source::Ads) + &endpoints("web", &[backend.port()]);
    directory.write("lds.yaml", &listener("l1", edge.number(), &rds("r1", Source::Ads), ""));
    directory.write("rds.yaml", &routes("r1", "web"));
    directory.write("clusters.yaml", &all);
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
    let mut envoy = Envoy::start(&clients, VERSIONS[0], dir.path(), &bootstrap, edge.number());
    envoy.is_live();
    envoy.answers_from("backend");

    directory.write("clusters.yaml", &(cluster("web", Source::Ads) + &endpoints("web", &[])));
    chancery.says("no endpoints left in 1 endpoint set: `web`");
    directory.write("clusters.yaml", "[]\n");
    chancery.says("0 of 1 resource of type `cds` left");
    directory.remove("lds.yaml");
    chancery.says("0 of 1 resource of type `lds` left");
    let mut connection = Connection::open(edge.number()).expect("the listener is there");
    for request in 0..REQUESTS {
        let reply = connection.get("/", &[]).expect("an answer");
        assert_eq!(reply.status, 200, "request {request}: {reply:?}");
        if reply.last {
            connection = Connection::open(edge.number()).expect("the listener is there");
        }
    }
    assert!(envoy.has_cluster("web"));
    chancery.confirm();
    wait::holds("the cluster to go", || !envoy.has_cluster("web"));
    envoy.refused_nothing();
}

#[test]
fn traffic_goes_on_over_sotw_while_a_cut_is_held_back() {
    traffic_goes_on("GRPC");
}

#[test]
fn traffic_goes_on_over_delta_while_a_cut_is_held_back() {
    traffic_goes_on("DELTA_GRPC");
}

/// A cluster that aggregates another one.
fn aggregate(name: &str, member: &str) -> String {
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  connect_timeout: 1s
  lb_policy: CLUSTER_PROVIDED
  cluster_type:
    name: envoy.clusters.aggregate
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig
      clusters: [{member}]
"
    )
}

#[test]
fn an_aggregate_of_aggregates_alone_has_no_endpoint_and_is_held_back() {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let backend = Backend::start("backend");
    let edge = Port::reserve();
    let directory = Directory::new(dir.path(), "config");
    let leaf = cluster("leaf", Source::Ads) + &endpoints("leaf", &[backend.port()]);
    directory.write("lds.yaml", &listener("l1", edge.number(), &rds("r1", Source::Ads), ""));
    directory.write("rds.yaml", &routes("r1", "top"));
    directory.write("leaf.yaml", &leaf);
    directory.write("middle.yaml", &aggregate("middle", "leaf"));
    directory.write("top.yaml", &aggregate("top", "leaf"));
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads("GRPC").server("xds", chancery.port(), Transport::H2c);
    let mut envoy = Envoy::start(&clients, VERSIONS[0], dir.path(), &bootstrap, edge.number());
    envoy.is_live();
    envoy.answers_from("backend");
    directory.write("top.yaml", &aggregate("top", "middle"));
    chancery.says("cds `top` aggregates nothing but aggregates: `middle`");
    envoy.answers_from("backend");
    chancery.confirm();
    envoy.answers_at_last(&[], 503);
    directory.write("top.yaml", &aggregate("top", "leaf"));
    envoy.answers_at_last(&[], 200);
    envoy.refused_nothing();
}
