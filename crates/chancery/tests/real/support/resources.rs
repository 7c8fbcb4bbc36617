//! The resources of the tests, as the YAML a user would write.
//!
//! Names are the same everywhere: listener `l1`, routes `r1`, clusters `svc-a` and `svc-b`. A
//! config source is one line of flow style, so that it fits in at any depth.

/// Where a resource says that what it refers to comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The aggregated stream.
    Ads,
    /// A stream per resource: `GRPC` or `DELTA_GRPC`.
    PerType(&'static str),
    /// Polls.
    Rest,
}

impl Source {
    /// The config source as one line of YAML.
    pub(crate) fn yaml(self) -> String {
        match self {
            Self::Ads => "{ads: {}, resource_api_version: V3}".to_owned(),
            Self::PerType(kind) => format!(
                "{{resource_api_version: V3, api_config_source: {{api_type: {kind}, \
                 transport_api_version: V3, set_node_on_first_message_only: true, \
                 grpc_services: [{{envoy_grpc: {{cluster_name: xds}}}}]}}}}"
            ),
            Self::Rest => "{resource_api_version: V3, api_config_source: {api_type: REST, \
                 transport_api_version: V3, cluster_names: [xds], refresh_delay: 1s, \
                 request_timeout: 1s}}"
                .to_owned(),
        }
    }
}

/// A listener `name` whose HTTP connection manager takes its routes as the YAML lines say.
///
/// The lines are those of the connection manager's fields; filters come before the router.
pub(crate) fn listener(name: &str, port: u16, routes: &str, filters: &str) -> String {
    let (routes, filters) = (indent(routes, 8), indent(filters, 8));
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.listener.v3.Listener
  name: {name}
  address:
    socket_address: {{address: 127.0.0.1, port_value: {port}}}
  filter_chains:
  - filters:
    - name: envoy.filters.network.http_connection_manager
      typed_config:
        '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
        stat_prefix: edge
{routes}        http_filters:
{filters}        - name: envoy.filters.http.router
          typed_config:
            '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"
    )
}

/// The line of a connection manager that takes its routes from somewhere by name.
pub(crate) fn rds(name: &str, source: Source) -> String {
    format!("rds: {{route_config_name: {name:?}, config_source: {}}}\n", source.yaml())
}

/// Routes that send everything to one cluster.
pub(crate) fn routes(name: &str, cluster: &str) -> String {
    routes_by(name, &format!("cluster: {cluster:?}"))
}

/// Routes that send everything where one line of a route action says.
pub(crate) fn routes_by(name: &str, action: &str) -> String {
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: {name}
  virtual_hosts:
  - name: vh
    domains: ['*']
    routes:
    - match: {{prefix: /}}
      route: {{{action}}}
"
    )
}

/// A cluster that gets its endpoints under its own name.
pub(crate) fn cluster(name: &str, source: Source) -> String {
    format!(
        "\
- '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: {name}
  type: EDS
  connect_timeout: 1s
  eds_cluster_config:
    eds_config: {}
",
        source.yaml()
    )
}

/// The endpoints of a cluster, in one locality.
pub(crate) fn endpoints(cluster: &str, ports: &[u16]) -> String {
    let mut text = format!(
        "\
- '@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
  cluster_name: {cluster}
  endpoints:
  - locality: {{region: r1, zone: z1}}
    load_balancing_weight: 1
    lb_endpoints:
"
    );
    for port in ports {
        text += &format!(
            "    - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}\n"
        );
    }
    text
}

/// A resource in the wrapper that carries what its body does not: a name, aliases, a TTL.
pub(crate) fn wrapped(fields: &str, resource: &str) -> String {
    let body = resource.strip_prefix("- ").expect("one item of a list");
    let body = indent(&body.replace("\n  ", "\n"), 4);
    format!(
        "- '@type': type.googleapis.com/envoy.service.discovery.v3.Resource\n  {fields}\n  resource:\n{body}"
    )
}

/// Every line, moved to the right.
pub(crate) fn indent(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

#[test]
fn a_wrapped_resource_is_a_list_item_with_its_body_below() {
    let resource = "- '@type': t\n  name: n\n  deep:\n    x: 1\n";
    let expected = "- '@type': type.googleapis.com/envoy.service.discovery.v3.Resource\n  ttl: 3s\n  \
                    resource:\n    '@type': t\n    name: n\n    deep:\n      x: 1\n";
    assert_eq!(wrapped("ttl: 3s", resource), expected);
}
