//! Types beyond listeners, routes, clusters and endpoints, and the life time of a resource.

use super::on_both_versions;
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::resources::{Source, cluster, endpoints, listener, rds, routes, wrapped};
use crate::support::tls::{CertificateAndKey, CertificateAuthority};
use crate::support::wait;

/// The secret of a listener, with its key inside.
fn secret(identity: &CertificateAndKey) -> String {
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
        let authority = CertificateAuthority::new(&rig.path().join("tls"));
        let (old, new) = (authority.identity("old"), authority.identity("new"));
        let directory = rig.plain(Source::Ads);
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
        let presents = |identity: &CertificateAndKey| {
            authority.visit(rig.edge.number()) == Some(identity.der.clone())
        };
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
        let directory = rig.plain(Source::Ads);
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
        let directory = rig.plain(Source::Ads);
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
        let directory = rig.plain(Source::Ads);
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
        // And only by them.
        drop(chancery);
        wait::holds("the listener to expire", || {
            envoy.stat("listener_manager.listener_removed") == 1
        });
    });
}
