//! Virtual hosts and clusters that Envoy asks for when a request needs them.

use super::on_both_versions;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::Chancery;
use crate::support::resources::{Source, endpoints, listener, rds, routes_by, wrapped};

/// A virtual host, in the wrapper that gives it its name and its alias.
fn virtual_host(name: &str, alias: &str, host: &str, action: &str) -> String {
    let body = format!(
        "\
- '@type': type.googleapis.com/envoy.config.route.v3.VirtualHost
  name: {name}
  domains: [{host}, alias-of-{host}]
  routes:
  - match: {{prefix: /}}
    {action}
"
    );
    wrapped(&format!("name: {name}\n  aliases: [{alias}]"), &body)
}

// S-091, S-093, T-20
#[test]
fn virtual_hosts_on_demand() {
    on_both_versions(|rig| {
        let host = |host: &str, action: &str| {
            virtual_host(&format!("r1/{host}"), &format!("r1/alias-of-{host}"), host, action)
        };
        let directory = rig.plain(Source::Ads);
        let filter = "\
- name: envoy.filters.http.on_demand
  typed_config:
    '@type': type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand
";
        let edge = rig.edge.number();
        directory.write("lds.yaml", &listener("l1", edge, &rds("r1", Source::Ads), filter));
        directory.write(
            "rds.yaml",
            &format!(
                "\
- '@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: r1
  virtual_hosts:
  - name: static
    domains: [static.example]
    routes:
    - match: {{prefix: /}}
      direct_response: {{status: 200, body: {{inline_string: static}}}}
  vhds:
    config_source: {}
",
                Source::PerType("DELTA_GRPC").yaml()
            ),
        );
        let to_a = "route: {cluster: svc-a}";
        directory.write("vhds.yaml", &(host("a.example", to_a) + &host("b.example", to_a)));
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("DELTA_GRPC").server("xds", chancery.port(), Transport::H2c);
        let mut envoy = rig.envoy(&bootstrap);
        envoy.is_live();
        envoy.answers_with(&["Host: static.example"], "static");
        envoy.answers_with(&["Host: a.example"], "from one");
        envoy.answers_with(&["Host: alias-of-b.example"], "from one");
        envoy.answers_at_once(&["Host: unknown.example"], 404);
        let changed = "direct_response: {status: 200, body: {inline_string: changed}}";
        directory.write("vhds.yaml", &(host("a.example", changed) + &host("b.example", to_a)));
        envoy.answers_with(&["Host: a.example"], "changed");
        directory.write("vhds.yaml", &host("b.example", to_a));
        envoy.answers_at_last(&["Host: a.example"], 404);
        envoy.answers_with(&["Host: b.example"], "from one");
        envoy.refused_nothing();
    });
}

// S-095
#[test]
fn clusters_on_demand() {
    on_both_versions(|rig| {
        let filter = format!(
            "\
- name: envoy.filters.http.on_demand
  typed_config:
    '@type': type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand
    odcds:
      source: {}
      timeout: 5s
",
            Source::Ads.yaml()
        );
        let directory = rig.plain(Source::Ads);
        let edge = rig.edge.number();
        directory.write("lds.yaml", &listener("l1", edge, &rds("r1", Source::Ads), &filter));
        directory.write("rds.yaml", &routes_by("r1", "cluster_header: x-cluster"));
        let chancery = Chancery::serve(&directory);
        let stream = "- envoy_grpc: {cluster_name: xds}";
        let bootstrap = Bootstrap::ads_stream("DELTA_GRPC", stream)
            .dynamic(&format!("lds_config: {}", Source::Ads.yaml()))
            .server("xds", chancery.port(), Transport::H2c);
        let mut envoy = rig.envoy(&bootstrap);
        envoy.is_live();
        envoy.answers_with(&["x-cluster: svc-a"], "from one");
        envoy.answers_at_once(&["x-cluster: unknown"], 503);
        directory.write("eds.yaml", &endpoints("svc-a", &[rig.two.port()]));
        envoy.answers_with(&["x-cluster: svc-a"], "from two");
        envoy.refused_nothing();
    });
}
