//! A server that crashed and came back: Envoy gets what changed, and nothing else.

use super::{Rig, on_both_versions};
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::Chancery;
use crate::support::resources::{Source, cluster, endpoints};
use crate::support::wait;

/// While there is no server an endpoint moves and a cluster goes; all else stays as it is.
fn meets_it_again(rig: &Rig, kind: &str) {
    let directory = rig.plain(Source::Ads);
    let clusters = cluster("svc-a", Source::Ads) + &cluster("svc-b", Source::Ads);
    directory.write("cds.yaml", &clusters);
    let at = |port| endpoints("svc-a", &[port]) + &endpoints("svc-b", &[port]);
    directory.write("eds.yaml", &at(rig.one.port()));
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
    let mut envoy = rig.envoy(&bootstrap);
    envoy.is_live();
    envoy.answers_from("one");
    assert!(envoy.has_cluster("svc-b"));
    let _chancery = chancery.crash(&directory, || {
        envoy.answers_from("one");
        directory.write("cds.yaml", &cluster("svc-a", Source::Ads));
        directory.write("eds.yaml", &endpoints("svc-a", &[rig.two.port()]));
    });
    envoy.answers_from("two");
    wait::holds("the cluster to go", || !envoy.has_cluster("svc-b"));
    for unchanged in ["cluster_manager.cluster_modified", "listener_manager.listener_modified"] {
        assert_eq!(envoy.stat(unchanged), 0, "{unchanged}");
    }
    envoy.refused_nothing();
}

// S-031, S-043
#[test]
fn over_sotw() {
    on_both_versions(|rig| meets_it_again(rig, "GRPC"));
}

// S-052, S-076, T-11, T-12
#[test]
fn over_delta() {
    on_both_versions(|rig| meets_it_again(rig, "DELTA_GRPC"));
}
