//! A server that is started again, with a state directory, on files that would cut the traffic of an Envoy:
//! an Envoy that is connected keeps its traffic, and one that starts meanwhile gets all it needs.

use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::clients;
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

const REQUESTS: usize = 50;

/// Breaks the files while the server is down; `told` is in the log after that.
fn traffic_goes_on(kind: &str, breaks: impl FnOnce(&Directory), told: &str) {
    let Some(clients) = clients() else { return };
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let backend = Backend::start("backend");
    let edge = Port::reserve();
    let directory = Directory::new(dir.path(), "config");
    let all = cluster("web", Source::Ads) + &endpoints("web", &[backend.port()]);
    directory.write("lds.yaml", &listener("l1", edge.number(), &rds("r1", Source::Ads), ""));
    directory.write("rds.yaml", &routes("r1", "web"));
    directory.write("clusters.yaml", &all);
    let flags = [format!("--state={}", dir.path().join("state").display())];
    let chancery = Chancery::serve_with(&directory, &flags);
    let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
    let start = || {
        let mut envoy = Envoy::start(&clients, VERSIONS[0], dir.path(), &bootstrap, edge.number());
        envoy.is_live();
        envoy.answers_from("backend");
        envoy
    };
    let envoy = start();
    let head = dir.path().join("state/v1/head");
    wait::holds("the state to be kept", || head.is_file());

    let ports = chancery.stop();
    breaks(&directory);
    let chancery = Chancery::serve_on(ports, &directory, &flags);
    chancery.says(told);
    wait::holds("Envoy to be connected", || envoy.stat("control_plane.connected_state") == 1);
    for request in 0..REQUESTS {
        let reply = envoy.get(&[]).expect("the listener is there");
        assert_eq!(reply.status, 200, "request {request}: {reply:?}");
    }
    envoy.refused_nothing();
    drop(envoy);

    let envoy = start();
    directory.write("lds.yaml", &listener("l1", edge.number(), &rds("r1", Source::Ads), ""));
    directory
        .write("clusters.yaml", &(all + &cluster("more", Source::Ads) + &endpoints("more", &[])));
    wait::holds("the repaired files to be served", || envoy.has_cluster("more"));
    envoy.answers_from("backend");
    envoy.refused_nothing();
}

#[test]
fn a_truncated_file_cuts_no_traffic_over_a_restart() {
    let breaks = |directory: &Directory| directory.write("clusters.yaml", "- '@type': type.goo\n");
    traffic_goes_on("GRPC", breaks, "base has faults in ");
}

#[test]
fn what_went_while_the_server_was_down_cuts_no_traffic() {
    let breaks = |directory: &Directory| {
        directory.remove("lds.yaml");
        directory.write("clusters.yaml", &(cluster("web", Source::Ads) + &endpoints("web", &[])));
    };
    traffic_goes_on("DELTA_GRPC", breaks, "0 of 1 resource of type `lds` left");
}
