//! A canary that says only what differs, before a real Envoy.

use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::clients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

const REQUESTS: usize = 50;

const RULES: &str = "groups:\n- name: canary\n  extends: edge\n  match: {id: envoy-1}\n";

fn all_are_from(envoy: &Envoy, backend: &str) {
    let words = format!("from {backend}\n");
    for request in 0..REQUESTS {
        let reply = envoy.get(&[]).expect("an answer");
        assert!(reply.status == 200 && reply.body.contains(&words), "request {request}: {reply:?}");
    }
}

fn a_canary_is_patched(kind: &str) {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let (stable, canary) = (Backend::start("stable"), Backend::start("canary"));
    let edge = Port::reserve();
    let directory = Directory::new(dir.path(), "config");
    directory.write("chancery.yaml", RULES);
    directory.write("lds.yaml", &listener("l1", edge.number(), &rds("r1", Source::Ads), ""));
    directory.write("groups/edge/rds.yaml", &routes("r1", "web"));
    let all =
        ["web", "old"].map(|name| cluster(name, Source::Ads) + &endpoints(name, &[stable.port()]));
    directory.write("groups/edge/clusters.yaml", &all.concat());
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
    let mut envoy = Envoy::start(&clients, VERSIONS[0], dir.path(), &bootstrap, edge.number());
    envoy.is_live();
    envoy.answers_from("stable");

    let patch = format!("patch:\n{}", endpoints("web", &[canary.port()]));
    let edits = format!("{patch}remove: {{cds: [old], eds: [old]}}\n");
    directory.write("groups/canary/edits.yaml", &edits);
    envoy.answers_from("canary");
    wait::holds("the removed cluster to go", || !envoy.has_cluster("old"));

    // Slips are held back, and the canary goes on as it is.
    directory.write("groups/canary/edits.yaml", &edits.replace("web", "wbe"));
    chancery.says("which this patches (did you mean `web`?)");
    all_are_from(&envoy, "canary");
    let wrong = format!("{edits}---\npatch:\n{}", routes("r1", "wbe"));
    directory.write("groups/canary/edits.yaml", &wrong);
    chancery.says("refers to cds `wbe`, which does not exist");
    all_are_from(&envoy, "canary");
    let removed = edits.replace("remove: {", "remove: {rds: [r1], ");
    directory.write("groups/canary/edits.yaml", &removed);
    chancery.says("0 of 1 resource of type `rds` left");
    all_are_from(&envoy, "canary");

    // The end of the canary.
    directory.write("groups/canary/edits.yaml", "[]\n");
    envoy.answers_from("stable");
    wait::holds("the cluster to come back", || envoy.has_cluster("old"));
    envoy.refused_nothing();
}

#[test]
fn a_canary_is_patched_over_sotw() {
    a_canary_is_patched("GRPC");
}

#[test]
fn a_canary_is_patched_over_delta() {
    a_canary_is_patched("DELTA_GRPC");
}
