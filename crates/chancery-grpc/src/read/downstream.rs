//! The transport socket of a filter chain of a server (C-146): TLS, by certificates of providers.
//!
//! A socket is checked even if the program does not leave its security to the control plane. Not here: the
//! bootstrap, which says what the providers are; and the handshake.

use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;
use tls::common_tls_context::ValidationContextType;
use tls::downstream_tls_context::OcspStaplePolicy;
use tls::{CertificateValidationContext, CommonTlsContext};

use super::fault::{At, Fault};
use super::surroundings::Surroundings;
use super::transport::{
    Provider, Roots, identity, named_config, older_instance, older_roots, supported, validated,
};

/// The TLS of connections to a filter chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DownstreamTls {
    /// The provider of the certificate that the server shows.
    pub(crate) identity: Provider,
    /// The authorities of clients, if certificates of clients are looked at.
    pub(crate) roots: Option<Provider>,
    /// True if a client has to show a certificate.
    pub(crate) requires_certificate: bool,
}

/// Reads the socket of a filter chain.
pub(super) fn read(
    socket: &core::TransportSocket,
    surroundings: &Surroundings,
) -> Result<DownstreamTls, Fault> {
    let context = named_config::<tls::DownstreamTlsContext>(socket)?;
    let context = context.ok_or("it must be a `DownstreamTlsContext`").at("typed_config")?;
    let read = context.map_err(Fault::from).and_then(|it| downstream(&it, surroundings));
    read.at("typed_config")
}

fn downstream(
    context: &tls::DownstreamTlsContext,
    surroundings: &Surroundings,
) -> Result<DownstreamTls, Fault> {
    if context.require_sni.as_ref().is_some_and(|it| it.value) {
        return Err("it must not be set").at("require_sni");
    }
    if context.ocsp_staple_policy != i32::from(OcspStaplePolicy::LenientStapling) {
        return Err("it must be `LENIENT_STAPLING`").at("ocsp_staple_policy");
    }
    let common = context.common_tls_context.as_ref().ok_or("it must be set");
    let common = common.map_err(Fault::from).and_then(|it| providers(it, surroundings));
    let (identity, roots) = common.at("common_tls_context")?;
    let requires_certificate =
        context.require_client_certificate.as_ref().is_some_and(|it| it.value);
    if requires_certificate && roots.is_none() {
        let why =
            "there must be authorities of clients, in `common_tls_context.validation_context`";
        return Err(why).at("require_client_certificate");
    }
    Ok(DownstreamTls { identity, roots, requires_certificate })
}

/// Reads the provider of the server's certificate, and that of the authorities of clients.
fn providers(
    common: &CommonTlsContext,
    surroundings: &Surroundings,
) -> Result<(Provider, Option<Provider>), Fault> {
    const IDENTITY: &str = "tls_certificate_provider_instance";
    supported(common)?;
    let identity = identity(common)?.ok_or("it must be set").at(IDENTITY)?;
    surroundings.check(&identity).at(IDENTITY)?;
    let roots = roots(common)?;
    if let Some(roots) = &roots {
        surroundings.check(roots).at("validation_context")?;
    }
    Ok((identity, roots))
}

fn roots(common: &CommonTlsContext) -> Result<Option<Provider>, Fault> {
    match &common.validation_context_type {
        None => Ok(None),
        Some(ValidationContextType::ValidationContext(context)) => {
            clients(context, None).at("validation_context").map(Some)
        }
        Some(ValidationContextType::CombinedValidationContext(both)) => {
            let none = CertificateValidationContext::default();
            let context = both.default_validation_context.as_ref().unwrap_or(&none);
            let path = "combined_validation_context.default_validation_context";
            clients(context, older_roots(both)).at(path).map(Some)
        }
        Some(other) => match older_instance(other) {
            Some(provider) => Ok(Some(provider)),
            None => Err(NO_ROOTS).at("validation_context"),
        },
    }
}

/// Reads the authorities of clients. Servers do not look at the names of clients; RBAC does.
fn clients(
    context: &CertificateValidationContext,
    older: Option<Provider>,
) -> Result<Provider, Fault> {
    if context.ca_certificate_provider_instance.is_none() && older.is_none() {
        return Err(NO_ROOTS.into());
    }
    let (roots, names) = validated(context, older)?;
    if !names.list().is_empty() {
        return Err("it must be empty in the listener of a server").at("match_subject_alt_names");
    }
    match roots {
        Roots::Provider(provider) => Ok(provider),
        Roots::System => Err(NO_ROOTS.into()),
    }
}

const NO_ROOTS: &str = "authorities of clients must come from `ca_certificate_provider_instance`";

#[cfg(test)]
mod tests {
    use chancery_calls::balancing::CustomPolicies;
    use chancery_client::Bootstrap;
    use serde_json::{Value, json};

    use super::super::support::{any, message};
    use super::*;

    const TLS: &str = "extensions.transport_sockets.tls.v3.DownstreamTlsContext";

    fn tls_by(socket: Value, surroundings: &Surroundings) -> Result<DownstreamTls, String> {
        let chain = json!({"filters": [], "transportSocket": socket});
        let listener = json!({"name": "l", "defaultFilterChain": chain});
        let listener: envoy_types::pb::envoy::config::listener::v3::Listener =
            message("envoy.config.listener.v3.Listener", &listener);
        let socket = listener.default_filter_chain.unwrap().transport_socket.unwrap();
        Ok(read(&socket, surroundings)?)
    }

    fn socket(context: Value) -> Value {
        json!({"name": "envoy.transport_sockets.tls", "typedConfig": any(TLS, context)})
    }

    fn tls(context: Value) -> Result<DownstreamTls, String> {
        tls_by(socket(context), &Surroundings::default())
    }

    fn instance(name: &str) -> Value {
        json!({"instanceName": name, "certificateName": "c"})
    }

    fn provider(name: &str) -> Provider {
        Provider { instance: name.to_owned(), certificate: "c".to_owned() }
    }

    /// A context with an identity, these fields, and these of its common part.
    fn context(fields: Value, common: Value) -> Value {
        let mut all = json!({"tlsCertificateProviderInstance": instance("i")});
        all.as_object_mut().unwrap().extend(common.as_object().unwrap().clone());
        let mut context = json!({"commonTlsContext": all});
        context.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        context
    }

    fn fault(context: Value) -> String {
        let fault = tls(context).unwrap_err();
        fault.strip_prefix("typed_config.").unwrap_or_else(|| panic!("{fault}")).to_owned()
    }

    #[test]
    fn a_server_has_a_certificate_of_a_provider() {
        // C-146
        let read = tls(context(json!({}), json!({}))).unwrap();
        let expected =
            DownstreamTls { identity: provider("i"), roots: None, requires_certificate: false };
        assert_eq!(read, expected);
        let older = json!({"tlsCertificateCertificateProviderInstance": instance("o")});
        let read = tls(json!({"commonTlsContext": older})).unwrap();
        assert_eq!(read.identity, provider("o"));
        assert_eq!(fault(json!({})), "common_tls_context: it must be set");
        let why = "common_tls_context.tls_certificate_provider_instance: it must be set";
        assert_eq!(fault(json!({"commonTlsContext": {}})), why);
        let raw = json!({"commonTlsContext": {"tlsCertificates": [{}]}});
        let why = "common_tls_context.tls_certificates: a certificate must come from \
                   `tls_certificate_provider_instance`";
        assert_eq!(fault(raw), why);
    }

    #[test]
    fn certificates_of_clients_need_authorities() {
        // C-146, C-125
        let required = json!({"requireClientCertificate": true});
        let plain = json!({"caCertificateProviderInstance": instance("r")});
        let older = json!({"validationContextCertificateProviderInstance": instance("r")});
        for validation in [
            json!({"validationContext": plain}),
            json!({"combinedValidationContext": {"defaultValidationContext": plain}}),
            json!({"combinedValidationContext": older}),
            older,
        ] {
            let read = tls(context(required.clone(), validation.clone())).unwrap();
            assert_eq!((read.roots, read.requires_certificate), (Some(provider("r")), true));
            let read = tls(context(json!({}), validation)).unwrap();
            assert_eq!((read.roots, read.requires_certificate), (Some(provider("r")), false));
        }
        let why = "require_client_certificate: there must be authorities of clients, in \
                   `common_tls_context.validation_context`";
        assert_eq!(fault(context(required, json!({}))), why);
        let why = format!("common_tls_context.validation_context: {NO_ROOTS}");
        for validation in [
            json!({"validationContext": {}}),
            json!({"validationContext": {"systemRootCerts": {}}}),
            json!({"validationContextSdsSecretConfig": {"name": "s"}}),
        ] {
            assert_eq!(fault(context(json!({}), validation)), why);
        }
    }

    #[test]
    fn what_servers_cannot_check_is_rejected() {
        // C-146
        let common = |fields: Value| context(json!({}), fields);
        let validation = |fields: Value| {
            let mut validation = json!({"caCertificateProviderInstance": instance("r")});
            validation.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            common(json!({"validationContext": validation}))
        };
        let unsupported = "gRPC does not support this field";
        for (context, path, why) in [
            (context(json!({"requireSni": true}), json!({})), "require_sni", "it must not be set"),
            (
                context(json!({"ocspStaplePolicy": "STRICT_STAPLING"}), json!({})),
                "ocsp_staple_policy",
                "it must be `LENIENT_STAPLING`",
            ),
            (
                context(json!({"ocspStaplePolicy": "MUST_STAPLE"}), json!({})),
                "ocsp_staple_policy",
                "it must be `LENIENT_STAPLING`",
            ),
            (common(json!({"tlsParams": {}})), "common_tls_context.tls_params", unsupported),
            (
                validation(json!({"crl": {"filename": "/a"}})),
                "common_tls_context.validation_context.crl",
                unsupported,
            ),
            (
                validation(json!({"matchSubjectAltNames": [{"exact": "a"}]})),
                "common_tls_context.validation_context.match_subject_alt_names",
                "it must be empty in the listener of a server",
            ),
        ] {
            assert_eq!(fault(context), format!("{path}: {why}"));
        }
        tls(context(json!({"requireSni": false}), json!({}))).unwrap();
    }

    #[test]
    fn sockets_have_their_own_name_and_message() {
        // C-146
        let surroundings = Surroundings::default();
        let mut named = socket(context(json!({}), json!({})));
        named["name"] = json!("tls");
        let why = "name: it must be `envoy.transport_sockets.tls`, and is `tls`";
        assert_eq!(tls_by(named, &surroundings), Err(why.to_owned()));
        let upstream = any("extensions.transport_sockets.tls.v3.UpstreamTlsContext", json!({}));
        let why = "typed_config: it must be a `DownstreamTlsContext`";
        let upstream = json!({"name": "envoy.transport_sockets.tls", "typedConfig": upstream});
        assert_eq!(tls_by(upstream, &surroundings), Err(why.to_owned()));
    }

    #[test]
    fn providers_are_those_of_the_bootstrap() {
        // C-146
        let bootstrap = |name: &str| -> Bootstrap {
            let provider =
                json!({"plugin_name": "file_watcher", "config": {"ca_certificate_file": "/ca"}});
            let server =
                json!({"server_uri": "127.0.0.1:1", "channel_creds": [{"type": "insecure"}]});
            let providers = json!({name: provider});
            let text = json!({"xds_servers": [server], "certificate_providers": providers});
            text.to_string().parse().unwrap()
        };
        let roots = json!({"validationContext": {"caCertificateProviderInstance": instance("r")}});
        let fault = |name: &str| {
            let surroundings = Surroundings::new(&bootstrap(name), CustomPolicies::default());
            tls_by(socket(context(json!({}), roots.clone())), &surroundings).unwrap_err()
        };
        let why = "`certificate_providers` of the bootstrap has none of the name";
        let path = "typed_config.common_tls_context";
        assert_eq!(fault("i"), format!("{path}.validation_context: {why} `r`"));
        let identity = format!("{path}.tls_certificate_provider_instance: {why} `i`");
        assert_eq!(fault("r"), identity);
    }
}
