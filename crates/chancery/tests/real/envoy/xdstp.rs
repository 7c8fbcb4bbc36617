//! xdstp names: collections by a glob, and authorities on two servers.

use super::{Rig, on_both_versions};
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes};
use crate::support::wait;

/// The xdstp name of a resource of a type, in the authority `auth-a` or `auth-b`.
fn xdstp(authority: &str, kind: &str, name: &str) -> String {
    format!("xdstp://{authority}/envoy.config.{kind}/edge/{name}")
}

const LISTENER: &str = "listener.v3.Listener";
const ROUTES: &str = "route.v3.RouteConfiguration";
const CLUSTER: &str = "cluster.v3.Cluster";
const ENDPOINTS: &str = "endpoint.v3.ClusterLoadAssignment";

// S-117
#[test]
fn xdstp_collections() {
    on_both_versions(|rig| {
        let name = |kind, name| xdstp("auth-a", kind, name);
        let directory = Directory::new(rig.path(), "config");
        let routes_from = rds(&name(ROUTES, "r1"), Source::Ads);
        let edge = rig.edge.number();
        directory.write("lds.yaml", &listener(&name(LISTENER, "l1"), edge, &routes_from, ""));
        directory.write("rds.yaml", &routes(&name(ROUTES, "r1"), &name(CLUSTER, "svc-a")));
        let served_as = format!("    service_name: {}\n", name(ENDPOINTS, "svc-a"));
        let cluster = cluster(&name(CLUSTER, "svc-a"), Source::Ads) + &served_as;
        directory.write("cds.yaml", &cluster);
        let at = |port| endpoints(&name(ENDPOINTS, "svc-a"), &[port]);
        directory.write("eds.yaml", &at(rig.one.port()));
        let chancery = Chancery::serve(&directory);
        let locators = format!(
            "lds_resources_locator: {}\ncds_resources_locator: {}",
            name(LISTENER, "*"),
            name(CLUSTER, "*")
        );
        let bootstrap = Bootstrap::ads("DELTA_GRPC").dynamic(&locators).server(
            "xds",
            chancery.port(),
            Transport::H2c,
        );
        let mut envoy = rig.envoy(&bootstrap);
        envoy.is_live();
        envoy.answers_from("one");
        directory.write("eds.yaml", &at(rig.two.port()));
        envoy.answers_from("two");
        envoy.refused_nothing();
    });
}

/// Routes and endpoints from two servers, by the authority in their names.
fn xdstp_authorities(rig: &Rig, kind: &str) {
    let (svc_a, svc_b) = (xdstp("auth-a", ENDPOINTS, "svc-a"), xdstp("auth-b", ENDPOINTS, "svc-b"));
    let r1 = xdstp("auth-a", ROUTES, "r1");
    let first = Directory::new(rig.path(), "first");
    let to_b = format!(
        "    - match: {{prefix: /b}}\n      route: {{cluster: {svc_b:?}}}\n    - match: {{prefix: /}}"
    );
    first.write("rds.yaml", &routes(&r1, &svc_a).replace("    - match: {prefix: /}", &to_b));
    first.write("eds.yaml", &endpoints(&svc_a, &[rig.one.port()]));
    let second = Directory::new(rig.path(), "second");
    second.write("eds.yaml", &endpoints(&svc_b, &[rig.two.port()]));
    let (server_a, server_b) = (Chancery::serve(&first), Chancery::serve(&second));
    let mut envoy =
        rig.envoy(&two_authorities(rig, kind, &r1, [&svc_a, &svc_b], [&server_a, &server_b]));
    envoy.is_live();
    envoy.answers_from("one");
    let from = |backend: &str| {
        let words = format!("from {backend}\n");
        wait::holds(&format!("{backend} to answer for auth-b"), || {
            envoy.get_path("/b", &[]).is_some_and(|reply| reply.body.contains(&words))
        });
    };
    from("two");
    second.write("eds.yaml", &endpoints(&svc_b, &[rig.one.port()]));
    from("one");
    envoy.refused_nothing();
}

fn two_authorities(
    rig: &Rig,
    kind: &str,
    route: &str,
    clusters: [&str; 2],
    servers: [&Chancery; 2],
) -> Bootstrap {
    let source = |authority: &str, server: &str| {
        format!(
            "{{authorities: [{{name: {authority}}}], resource_api_version: V3, \
             api_config_source: {{api_type: {kind}, transport_api_version: V3, \
             set_node_on_first_message_only: true, \
             grpc_services: [{{envoy_grpc: {{cluster_name: {server}}}}}]}}}}"
        )
    };
    let top = format!(
        "config_sources:\n- {}\ndefault_config_source: {}\n",
        source("auth-b", "xds-b"),
        source("auth-a", "xds")
    );
    let by_name = |name: &str| {
        format!("- name: {name}\n  type: EDS\n  connect_timeout: 1s\n  eds_cluster_config: {{}}\n")
    };
    // Something has to be there for the validation of Envoy, which then goes by the name alone.
    let routes = format!(
        "rds:\n  route_config_name: {route}\n  config_source:\n    resource_api_version: V3\n    \
         self: {{transport_api_version: V3}}\n"
    );
    let listener = rig.listener(&routes).replace(
        "- '@type': type.googleapis.com/envoy.config.listener.v3.Listener\n  name",
        "- name",
    );
    Bootstrap::default()
        .top(&top)
        .runtime("envoy.reloadable_features.xdstp_based_config_singleton_subscriptions", "true")
        .server("xds", servers[0].port(), Transport::H2c)
        .server("xds-b", servers[1].port(), Transport::H2c)
        .cluster(&by_name(clusters[0]))
        .cluster(&by_name(clusters[1]))
        .listener(&listener)
}

// S-116
#[test]
fn xdstp_authorities_sotw() {
    on_both_versions(|rig| xdstp_authorities(rig, "AGGREGATED_GRPC"));
}

#[test]
fn xdstp_authorities_delta() {
    on_both_versions(|rig| xdstp_authorities(rig, "AGGREGATED_DELTA_GRPC"));
}
