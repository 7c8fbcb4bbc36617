//! The resources of services, in YAML.

use std::fmt::Write;

use super::backends::Backends;

/// The resources of one service: a listener with routes, clusters and endpoints.
pub(super) struct Service(pub(super) String);

impl Service {
    /// A service of this name, with these routes: a list in YAML.
    pub(super) fn new(name: &str, routes: &str) -> Self {
        Self::filtered(name, "", routes)
    }

    /// The same with HTTP filters before the router: lines of a list in YAML.
    pub(super) fn filtered(name: &str, filters: &str, routes: &str) -> Self {
        Self(format!(
            r#"
- "@type": type.googleapis.com/envoy.config.listener.v3.Listener
  name: {name}
  api_listener:
    api_listener:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: {name}
      route_config:
        name: {name}
        virtual_hosts:
        - name: all
          domains: ["*"]
          routes: {routes}
      http_filters:
      {filters}
      - name: router
        typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
"#
        ))
    }

    /// Adds a cluster of EDS with fields of its own.
    pub(super) fn cluster(mut self, name: &str, fields: &str) -> Self {
        let kind = "type: EDS\n  eds_cluster_config: {eds_config: {ads: {}}}";
        self.add("config.cluster.v3.Cluster", &format!("name: {name}\n  {kind}\n  {fields}"));
        self
    }

    /// Adds a cluster that aggregates others.
    pub(super) fn aggregate(mut self, name: &str, members: &str) -> Self {
        let config =
            "\"@type\": type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig";
        let kind = format!(
            "cluster_type: {{name: envoy.clusters.aggregate, typed_config: {{{config}, clusters: {members}}}}}"
        );
        // Envoy wants the first of the policies, and gRPC does not know it.
        let policy = |name: &str, kind: &str| {
            let kind = format!(
                "type.googleapis.com/envoy.extensions.load_balancing_policies.{name}.v3.{kind}"
            );
            format!(
                "{{typed_extension_config: {{name: {name}, typed_config: {{\"@type\": {kind}}}}}}}"
            )
        };
        let (first, second) =
            (policy("cluster_provided", "ClusterProvided"), policy("round_robin", "RoundRobin"));
        let policy = format!("load_balancing_policy: {{policies: [{first}, {second}]}}");
        self.add("config.cluster.v3.Cluster", &format!("name: {name}\n  {kind}\n  {policy}"));
        self
    }

    /// Adds a cluster of a name of DNS.
    pub(super) fn dns(mut self, name: &str, host: &str, port: u16) -> Self {
        let address =
            format!("{{address: {{socket_address: {{address: {host}, port_value: {port}}}}}}}");
        let endpoints = format!("[{{lb_endpoints: [{{endpoint: {address}}}]}}]");
        let assignment =
            format!("load_assignment: {{cluster_name: {name}, endpoints: {endpoints}}}");
        self.add(
            "config.cluster.v3.Cluster",
            &format!("name: {name}\n  type: LOGICAL_DNS\n  {assignment}"),
        );
        self
    }

    /// Adds the endpoints of a cluster: ports by locality, each with its priority and weight.
    pub(super) fn endpoints(
        mut self,
        name: &str,
        localities: &[(u32, u32, &[u16])],
        policy: &str,
    ) -> Self {
        let mut text = format!("cluster_name: {name}\n  endpoints:\n");
        for (at, (priority, weight, ports)) in localities.iter().enumerate() {
            let endpoints = ports.iter().map(|port| {
                format!("{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}")
            });
            let endpoints = endpoints.collect::<Vec<_>>().join(", ");
            writeln!(
                text,
                "  - {{locality: {{zone: z{at}}}, priority: {priority}, load_balancing_weight: {weight}, lb_endpoints: [{endpoints}]}}"
            )
            .expect("a string takes it");
        }
        self.add("config.endpoint.v3.ClusterLoadAssignment", &format!("{text}  {policy}"));
        self
    }

    /// Adds the endpoints of a cluster in one locality: ports with their health.
    pub(super) fn endpoints_of_health(mut self, name: &str, all: &[(u16, &str)]) -> Self {
        let endpoints = all.iter().map(|(port, health)| {
            let address = format!("{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}");
            format!("{{health_status: {health}, endpoint: {{address: {address}}}}}")
        });
        let endpoints = endpoints.collect::<Vec<_>>().join(", ");
        let locality = format!(
            "{{locality: {{zone: z}}, load_balancing_weight: 1, lb_endpoints: [{endpoints}]}}"
        );
        self.add(
            "config.endpoint.v3.ClusterLoadAssignment",
            &format!("cluster_name: {name}\n  endpoints: [{locality}]"),
        );
        self
    }

    /// Adds the one endpoint of a cluster, with these fields.
    pub(super) fn endpoint(mut self, name: &str, fields: &str) -> Self {
        let locality = format!(
            "{{locality: {{zone: z}}, load_balancing_weight: 1, lb_endpoints: [{{endpoint: {{{fields}}}}}]}}"
        );
        self.add(
            "config.endpoint.v3.ClusterLoadAssignment",
            &format!("cluster_name: {name}\n  endpoints: [{locality}]"),
        );
        self
    }

    /// Adds a cluster with these backends in one locality.
    pub(super) fn of(self, backends: &Backends, name: &str, members: &[&str]) -> Self {
        let ports: Vec<_> = members.iter().map(|member| backends.port(member)).collect();
        self.cluster(name, "").endpoints(name, &[(0, 1, &ports)], "")
    }

    fn add(&mut self, type_name: &str, fields: &str) {
        write!(self.0, "- \"@type\": type.googleapis.com/envoy.{type_name}\n  {fields}\n")
            .expect("a string takes it");
    }
}
