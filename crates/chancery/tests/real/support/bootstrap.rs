//! Bootstraps of Envoy, put together from parts.
//!
//! The management server is the static cluster `xds`, the second one `xds-b`.

use super::resources::{Source, indent};

/// The transport between Envoy and a management server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport<'a> {
    /// HTTP/2 in the clear.
    H2c,
    /// HTTP/1.1 in the clear, for polls.
    Http1,
    /// HTTP/2 over TLS, with a certificate of its own; the lines of an upstream TLS context.
    Tls(&'a str),
}

/// A bootstrap in the making; `yaml` writes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bootstrap {
    /// Lines of `dynamic_resources`.
    dynamic: String,
    /// Items of `static_resources.clusters`.
    clusters: String,
    /// Items of `static_resources.listeners`.
    listeners: String,
    /// Items of `layered_runtime.layers`.
    layers: String,
    /// Whole lines of the top level.
    top: String,
}

impl Bootstrap {
    /// Listeners and clusters over one aggregated stream of the kind: `GRPC` or `DELTA_GRPC`.
    pub(crate) fn ads(kind: &str) -> Self {
        Self::ads_stream(kind, "- envoy_grpc: {cluster_name: xds}").everything(Source::Ads)
    }

    /// One aggregated stream, and nothing asked for on it yet.
    pub(crate) fn ads_stream(kind: &str, services: &str) -> Self {
        let dynamic = format!(
            "\
ads_config:
  api_type: {kind}
  transport_api_version: V3
  set_node_on_first_message_only: true
  grpc_services:
{}",
            indent(services, 2)
        );
        Self { dynamic, ..Self::default() }
    }

    /// Adds lines to `dynamic_resources`.
    pub(crate) fn dynamic(mut self, lines: &str) -> Self {
        self.dynamic += lines;
        self.dynamic += "\n";
        self
    }

    /// All listeners and clusters, from one kind of source.
    pub(crate) fn everything(self, source: Source) -> Self {
        let source = source.yaml();
        self.dynamic(&format!("lds_config: {source}\ncds_config: {source}"))
    }

    /// A management server as a static cluster.
    pub(crate) fn server(self, name: &str, port: u16, transport: Transport<'_>) -> Self {
        let mut cluster = format!(
            "\
- name: {name}
  type: STATIC
  connect_timeout: 1s
  load_assignment:
    cluster_name: {name}
    endpoints:
    - lb_endpoints:
      - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}
"
        );
        if !matches!(transport, Transport::Http1) {
            cluster += "  typed_extension_protocol_options:
    envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
      '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
      explicit_http_config:
        http2_protocol_options:
          connection_keepalive: {interval: 30s, timeout: 5s}
";
        }
        if let Transport::Tls(context) = transport {
            cluster += "  transport_socket:
    name: envoy.transport_sockets.tls
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
";
            cluster += &indent(context, 6);
        }
        self.cluster(&cluster)
    }

    /// Adds an item to the static clusters.
    pub(crate) fn cluster(mut self, item: &str) -> Self {
        self.clusters += item;
        self
    }

    /// Adds an item to the static listeners.
    pub(crate) fn listener(mut self, item: &str) -> Self {
        self.listeners += item;
        self
    }

    /// Sets a key of the static layer of the runtime.
    pub(crate) fn runtime(self, key: &str, value: &str) -> Self {
        let name = key.replace('.', "-");
        self.layer(&format!("- name: {name}\n  static_layer: {{{key}: {value}}}\n"))
    }

    /// Adds an item to the layers of the runtime.
    pub(crate) fn layer(mut self, item: &str) -> Self {
        self.layers += item;
        self
    }

    /// Adds lines to the top level.
    pub(crate) fn top(mut self, lines: &str) -> Self {
        self.top += lines;
        self
    }

    /// The file, for a node and an admin port.
    pub(crate) fn yaml(&self, node: &str, admin: u16) -> String {
        let mut text = format!(
            "\
node:
  id: {node}
  cluster: edge
  locality: {{region: r1, zone: z1}}
  metadata: {{purpose: test}}
admin:
  address:
    socket_address: {{address: 127.0.0.1, port_value: {admin}}}
{}",
            self.top
        );
        for (key, lines) in [
            ("dynamic_resources:", &self.dynamic),
            ("layered_runtime:\n  layers:", &self.layers),
            ("static_resources:\n  clusters:", &self.clusters),
        ] {
            if !lines.is_empty() {
                text += &format!("{key}\n{}", indent(lines, 2));
            }
        }
        if !self.listeners.is_empty() {
            text += &format!("  listeners:\n{}", indent(&self.listeners, 2));
        }
        text
    }
}
