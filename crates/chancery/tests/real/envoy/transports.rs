//! Ways to the management server: ADS, a stream per type, polls, TLS, a second server.

use super::{Rig, on_both_versions};
use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::Chancery;
use crate::support::ports::Port;
use crate::support::resources::Source;
use crate::support::tls::CertificateAuthority;
use crate::support::wait;

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
        let directory = rig.plain(Source::Ads);
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
        let authority = CertificateAuthority::new(&rig.path().join("tls"));
        authority.issue("server");
        authority.issue("client");
        let path = |name| authority.file(name).display().to_string();
        let directory = rig.plain(Source::Ads);
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
        let directory = rig.plain(Source::Ads);
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
    let directory = rig.plain(source);
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
        let directory = rig.plain(Source::Rest);
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
