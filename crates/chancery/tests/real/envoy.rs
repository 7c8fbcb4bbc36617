//! The Envoy matrix: every way Envoy can be told to fetch its configuration, on two versions.
//!
//! Each test is one bootstrap, run with both versions at once, each with a daemon and a directory
//! of its own. It becomes LIVE, traffic flows, one edit of the directory takes effect, and nothing
//! Envoy was sent was refused.

use std::path::Path;
use std::thread;

use crate::support::backend::Backend;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{Clients, clients};
use crate::support::envoy::{Envoy, VERSIONS};
use crate::support::ports::Port;
use crate::support::resources::{
    Source, cluster, endpoints, listener, rds, routes, routes_by, wrapped,
};
use crate::support::tls::{Authority, Identity};
use crate::support::wait;

/// What every case has: a directory to work in, two backends, a port for Envoy's listener.
struct Rig {
    clients: Clients,
    version: &'static str,
    dir: tempfile::TempDir,
    one: Backend,
    two: Backend,
    edge: Port,
}

/// Runs a case with both versions of Envoy; the thread that fails is named after its version.
fn on_both_versions(case: impl Fn(&Rig) + Sync) {
    let Some(clients) = clients() else { return };
    thread::scope(|scope| {
        for version in VERSIONS {
            let rig = Rig {
                clients: clients.clone(),
                version,
                dir: tempfile::tempdir().expect("there is a temporary directory"),
                one: Backend::start("one"),
                two: Backend::start("two"),
                edge: Port::reserve(),
            };
            let named = thread::Builder::new().name(format!("Envoy {version}"));
            let case = &case;
            named.spawn_scoped(scope, move || case(&rig)).expect("a thread can be started");
        }
    });
}

impl Rig {
    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn envoy(&self, bootstrap: &Bootstrap) -> Envoy {
        Envoy::start(&self.clients, self.version, self.path(), bootstrap, self.edge.number())
    }

    fn listener(&self, routes: &str) -> String {
        listener("l1", self.edge.number(), routes, "")
    }

    /// Listener, routes, cluster and endpoints, each from the source, leading to backend one.
    fn plain(&self, name: &str, source: Source) -> Directory {
        let directory = Directory::new(self.path(), name);
        directory.write("lds.yaml", &self.listener(&rds("r1", source)));
        directory.write("rds.yaml", &routes("r1", "svc-a"));
        directory.write("cds.yaml", &cluster("svc-a", source));
        directory.write("eds.yaml", &endpoints("svc-a", &[self.one.port()]));
        directory
    }

    /// Moves the endpoints of `svc-a` to backend two and waits for an answer from there.
    fn move_to_two(&self, envoy: &Envoy, directory: &Directory) {
        directory.write("eds.yaml", &endpoints("svc-a", &[self.two.port()]));
        envoy.answers_from("two");
    }

    /// The plain case: LIVE, traffic, a change, no refusal.
    fn follows(&self, directory: &Directory, bootstrap: &Bootstrap) -> Envoy {
        let mut envoy = self.envoy(bootstrap);
        envoy.is_live();
        envoy.answers_from("one");
        self.move_to_two(&envoy, directory);
        envoy.refused_nothing();
        envoy
    }

    /// The plain case over one aggregated stream of a kind, with a change to the bootstrap.
    fn ads(&self, kind: &str, change: impl Fn(Bootstrap) -> Bootstrap) {
        let directory = self.plain("config", Source::Ads);
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads(kind).server("xds", chancery.port(), Transport::H2c);
        self.follows(&directory, &change(bootstrap));
    }
}

// S-002
#[test]
fn ads_sotw() {
    on_both_versions(|rig| rig.ads("GRPC", |bootstrap| bootstrap));
}

// S-003
#[test]
fn ads_delta() {
    on_both_versions(|rig| rig.ads("DELTA_GRPC", |bootstrap| bootstrap));
}

/// Envoy has a second implementation of its client, off by default.
fn unified(bootstrap: Bootstrap) -> Bootstrap {
    bootstrap.runtime("envoy.reloadable_features.unified_mux", "true")
}

#[test]
fn ads_sotw_on_the_unified_mux() {
    on_both_versions(|rig| rig.ads("GRPC", unified));
}

#[test]
fn ads_delta_on_the_unified_mux() {
    on_both_versions(|rig| rig.ads("DELTA_GRPC", unified));
}

#[test]
fn ads_sotw_over_the_grpc_library() {
    on_both_versions(|rig| {
        let directory = rig.plain("config", Source::Ads);
        let chancery = Chancery::serve(&directory);
        let service = format!(
            "- google_grpc: {{target_uri: '127.0.0.1:{}', stat_prefix: xds}}",
            chancery.port()
        );
        let bootstrap = Bootstrap::ads_stream("GRPC", &service).everything(Source::Ads);
        rig.follows(&directory, &bootstrap);
    });
}

#[test]
fn ads_sotw_over_mutual_tls() {
    on_both_versions(|rig| {
        let authority = Authority::new(&rig.path().join("tls"));
        authority.issue("server");
        authority.issue("client");
        let path = |name| authority.file(name).display().to_string();
        let directory = rig.plain("config", Source::Ads);
        let flags = [
            ("--tls-cert", path("server.pem")),
            ("--tls-key", path("server.key")),
            ("--tls-client-ca", path("ca.pem")),
        ];
        let flags: Vec<String> =
            flags.into_iter().flat_map(|(flag, file)| [flag.to_owned(), file]).collect();
        let chancery = Chancery::serve_with(&directory, &flags);
        let context = format!(
            "\
sni: localhost
common_tls_context:
  tls_certificates:
  - certificate_chain: {{filename: {}}}
    private_key: {{filename: {}}}
  validation_context:
    trusted_ca: {{filename: {}}}
    match_typed_subject_alt_names:
    - san_type: DNS
      matcher: {{exact: localhost}}
",
            path("client.pem"),
            path("client.key"),
            path("ca.pem")
        );
        let server = Transport::Tls(&context);
        let bootstrap = Bootstrap::ads("GRPC").server("xds", chancery.port(), server);
        rig.follows(&directory, &bootstrap);
    });
}

// S-129
#[test]
fn failover_to_the_second_server() {
    on_both_versions(|rig| {
        let nobody = Port::reserve();
        let directory = rig.plain("config", Source::Ads);
        let chancery = Chancery::serve(&directory);
        let services = "- envoy_grpc: {cluster_name: xds}\n- envoy_grpc: {cluster_name: xds-b}";
        let bootstrap = Bootstrap::ads_stream("GRPC", services)
            .everything(Source::Ads)
            .server("xds", nobody.number(), Transport::H2c)
            .server("xds-b", chancery.port(), Transport::H2c)
            .runtime("envoy.restart_features.xds_failover_support", "true");
        rig.follows(&directory, &bootstrap);
    });
}

/// Every type, and every resource of EDS, on a stream of its own.
fn per_type(rig: &Rig, kind: &'static str) {
    let source = Source::PerType(kind);
    let directory = rig.plain("config", source);
    let chancery = Chancery::serve(&directory);
    let bootstrap =
        Bootstrap::default().everything(source).server("xds", chancery.port(), Transport::H2c);
    rig.follows(&directory, &bootstrap);
}

// S-001
#[test]
fn a_sotw_stream_per_type() {
    on_both_versions(|rig| per_type(rig, "GRPC"));
}

// S-004
#[test]
fn a_delta_stream_per_type() {
    on_both_versions(|rig| per_type(rig, "DELTA_GRPC"));
}

// S-018, S-020, S-021
#[test]
fn rest() {
    on_both_versions(|rig| {
        let directory = rig.plain("config", Source::Rest);
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::default().everything(Source::Rest).server(
            "xds",
            chancery.port(),
            Transport::Http1,
        );
        let envoy = rig.follows(&directory, &bootstrap);
        // T-29: no change is no failure.
        let polls = envoy.stat("cds.update_attempt");
        wait::holds("three more polls", || envoy.stat("cds.update_attempt") >= polls + 3);
        assert_eq!(envoy.stat("cds.update_failure"), 0);
    });
}

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

/// The secret of a listener, with its key inside.
fn secret(identity: &Identity) -> String {
    let block =
        |text: &str| text.lines().map(|line| format!("        {line}\n")).collect::<String>();
    format!(
        "\
- '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: server-cert
  tls_certificate:
    certificate_chain:
      inline_string: |
{}    private_key:
      inline_string: |
{}",
        block(&identity.certificate),
        block(&identity.key)
    )
}

// T-30
#[test]
fn secrets_and_their_rotation() {
    on_both_versions(|rig| {
        let authority = Authority::new(&rig.path().join("tls"));
        let (old, new) = (authority.identity("old"), authority.identity("new"));
        let directory = rig.plain("config", Source::Ads);
        let tls = format!(
            "    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
        common_tls_context:
          tls_certificate_sds_secret_configs:
          - name: server-cert
            sds_config: {}
",
            Source::Ads.yaml()
        );
        directory.write("lds.yaml", &(rig.listener(&rds("r1", Source::Ads)) + &tls));
        directory.write("sds.yaml", &secret(&old));
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("GRPC").server("xds", chancery.port(), Transport::H2c);
        let mut envoy = rig.envoy(&bootstrap);
        envoy.is_live();
        let presents =
            |identity: &Identity| authority.visit(rig.edge.number()) == Some(identity.der.clone());
        wait::holds("the first certificate", || presents(&old));
        directory.write("sds.yaml", &secret(&new));
        wait::holds("the second certificate", || presents(&new));
        envoy.refused_nothing();
    });
}

#[test]
fn runtime_layers() {
    on_both_versions(|rig| {
        let layer = |value: u8| {
            format!(
                "- '@type': type.googleapis.com/envoy.service.runtime.v3.Runtime\n  name: rt1\n  \
                 layer: {{toy.knob: {value}, toy.text: hi}}\n"
            )
        };
        let directory = rig.plain("config", Source::Ads);
        directory.write("rtds.yaml", &layer(42));
        let chancery = Chancery::serve(&directory);
        let rtds = format!(
            "- name: rtds\n  rtds_layer:\n    name: rt1\n    rtds_config: {}\n",
            Source::Ads.yaml()
        );
        let bootstrap = Bootstrap::ads("GRPC")
            .server("xds", chancery.port(), Transport::H2c)
            .runtime("toy.knob", "1")
            .layer(&rtds);
        let envoy = rig.follows(&directory, &bootstrap);
        let knob = |value: &str| {
            wait::holds(&format!("the knob to be {value}"), || {
                let page: Option<serde_json::Value> =
                    envoy.admin("/runtime").and_then(|page| serde_json::from_str(&page).ok());
                page.is_some_and(|page| page["entries"]["toy.knob"]["final_value"] == value)
            });
        };
        knob("42");
        directory.write("rtds.yaml", &layer(43));
        knob("43");
        envoy.refused_nothing();
    });
}

#[test]
fn extension_configs() {
    on_both_versions(|rig| {
        let extension = |value: &str| {
            format!(
                "\
- '@type': type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig
  name: ext1
  typed_config:
    '@type': type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
    mutations:
      request_mutations:
      - append:
          header: {{key: x-ecds, value: {value}}}
          append_action: OVERWRITE_IF_EXISTS_OR_ADD
"
            )
        };
        let filter = format!(
            "\
- name: ext1
  config_discovery:
    config_source: {}
    type_urls:
    - type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
",
            Source::Ads.yaml()
        );
        let directory = rig.plain("config", Source::Ads);
        let edge = rig.edge.number();
        directory.write("lds.yaml", &listener("l1", edge, &rds("r1", Source::Ads), &filter));
        directory.write("ecds.yaml", &extension("first"));
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("GRPC").server("xds", chancery.port(), Transport::H2c);
        let mut envoy = rig.envoy(&bootstrap);
        envoy.is_live();
        envoy.answers_with(&[], "x-ecds: first");
        directory.write("ecds.yaml", &extension("second"));
        envoy.answers_with(&[], "x-ecds: second");
        envoy.refused_nothing();
    });
}

/// A virtual host, in the wrapper that gives it its name and its alias.
fn virtual_host(name: &str, alias: &str, host: &str, action: &str) -> String {
    let body = format!(
        "\
- '@type': type.googleapis.com/envoy.config.route.v3.VirtualHost
  name: {host}
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
        let directory = rig.plain("config", Source::Ads);
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
        let directory = rig.plain("config", Source::Ads);
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

// S-059
#[test]
fn scoped_routes() {
    on_both_versions(|rig| {
        let scope = |name: &str, routes: &str| {
            format!(
                "\
- '@type': type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration
  name: scope-{name}
  route_configuration_name: {routes}
  key: {{fragments: [{{string_key: {name}}}]}}
"
            )
        };
        let ads = Source::Ads.yaml();
        let scoped = format!(
            "\
scoped_routes:
  name: scopes
  scope_key_builder:
    fragments:
    - header_value_extractor: {{name: x-scope, index: 0}}
  rds_config_source: {ads}
  scoped_rds:
    scoped_rds_config_source: {ads}
"
        );
        let directory = Directory::new(rig.path(), "config");
        directory.write("lds.yaml", &rig.listener(&scoped));
        directory.write("srds.yaml", &(scope("a", "ra") + &scope("b", "rb")));
        directory.write("rds.yaml", &(routes("ra", "svc-a") + &routes("rb", "svc-b")));
        let clusters = cluster("svc-a", Source::Ads) + &cluster("svc-b", Source::Ads);
        directory.write("cds.yaml", &clusters);
        let (one, two) = ([rig.one.port()], [rig.two.port()]);
        directory.write("eds.yaml", &(endpoints("svc-a", &one) + &endpoints("svc-b", &two)));
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("GRPC").server("xds", chancery.port(), Transport::H2c);
        let mut envoy = rig.envoy(&bootstrap);
        envoy.is_live();
        envoy.answers_with(&["x-scope: a"], "from one");
        envoy.answers_with(&["x-scope: b"], "from two");
        directory.write("srds.yaml", &(scope("a", "ra") + &scope("b", "ra")));
        envoy.answers_with(&["x-scope: b"], "from one");
        envoy.answers_with(&["x-scope: a"], "from one");
        envoy.refused_nothing();
    });
}

// S-086, S-087
#[test]
fn a_listener_outlives_its_ttl_by_heartbeats() {
    on_both_versions(|rig| {
        let directory = rig.plain("config", Source::Ads);
        let listener = rig.listener(&rds("r1", Source::Ads));
        directory.write("lds.yaml", &wrapped("name: l1\n  ttl: 2s", &listener));
        let chancery = Chancery::serve(&directory);
        let bootstrap = Bootstrap::ads("DELTA_GRPC").server("xds", chancery.port(), Transport::H2c);
        let envoy = rig.follows(&directory, &bootstrap);
        // A heartbeat comes at a third of the TTL: nine of them are three TTLs.
        let updates = envoy.stat("lds.update_success");
        wait::holds("nine heartbeats", || envoy.stat("lds.update_success") >= updates + 9);
        assert_eq!(envoy.stat("listener_manager.listener_removed"), 0);
        assert_eq!(envoy.stat("listener_manager.listener_modified"), 0);
        envoy.answers_from("two");
        envoy.refused_nothing();
    });
}
