//! The transport socket of a cluster (C-122, C-125, C-126, C-128): TLS, by certificates of providers, or none.
//!
//! A socket is checked even if no connection uses it. Not here: the bootstrap, which says what the providers
//! are; and the handshake.

use envoy_types::pb::envoy::config::cluster::v3 as cds;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::extensions::transport_sockets::http_11_proxy::v3::Http11ProxyUpstreamTransport;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;
use tls::common_tls_context::{CertificateProviderInstance, ValidationContextType};
use tls::{CertificateProviderPluginInstance, CertificateValidationContext, CommonTlsContext};

use super::fault::{At, Fault};
use super::listed_names::ListedNames;
use super::surroundings::Surroundings;
use super::{matchers, opened, quoted};

/// The way to the endpoints of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Transport {
    /// TLS, which counts if the channel leaves its security to the control plane (C-121).
    pub(crate) tls: Option<UpstreamTls>,
    /// True if connections go through a proxy, whose address is in the metadata of endpoints (C-128).
    pub(crate) is_proxied: bool,
}

/// The TLS of connections to a cluster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UpstreamTls {
    pub(crate) roots: Roots,
    /// The provider of the certificate that the client shows, if it shows one.
    pub(crate) identity: Option<Provider>,
    /// The names of the peer, one of which has to match one of its certificate (C-123); any, if empty.
    pub(crate) names: ListedNames,
    pub(crate) server_name: ServerName,
}

/// The authorities that are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the system.
    System,
    /// Those of a provider.
    Provider(Provider),
}

/// An entry of `certificate_providers` of the bootstrap, and the name of what it has to provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) instance: String,
    pub(crate) certificate: String,
}

/// The name that a client asks for (C-126).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerName {
    /// True if it is the hostname of the endpoint, where there is one.
    pub(crate) is_hostname: bool,
    /// The name otherwise, if there is one.
    pub(crate) fixed: Option<String>,
    /// True if the certificate has to be for this name, and no other name counts.
    pub(crate) is_checked: bool,
}

impl UpstreamTls {
    /// Checks that its providers are those of the bootstrap.
    fn checked(self, surroundings: &Surroundings) -> Result<Self, Fault> {
        if let Roots::Provider(provider) = &self.roots {
            surroundings.check(provider).at("validation_context")?;
        }
        if let Some(provider) = &self.identity {
            surroundings.check(provider).at("tls_certificate_provider_instance")?;
        }
        Ok(self)
    }
}

/// Reads the sockets of a cluster.
pub(super) fn read(
    cluster: &cds::Cluster,
    surroundings: &Surroundings,
) -> Result<Transport, Fault> {
    if !cluster.transport_socket_matches.is_empty() {
        return Err("it must be empty").at("transport_socket_matches");
    }
    match &cluster.transport_socket {
        None => Ok(Transport::default()),
        Some(socket) => outer(socket, surroundings).at("transport_socket"),
    }
}

/// Reads a socket that may have another one in it.
fn outer(socket: &core::TransportSocket, surroundings: &Surroundings) -> Result<Transport, Fault> {
    let config = config_of(socket);
    let Some(proxy) = config.and_then(opened::<Http11ProxyUpstreamTransport>) else {
        return Ok(Transport { tls: Some(inner(socket, surroundings)?), is_proxied: false });
    };
    let proxy = proxy.at("typed_config")?;
    let tls = proxy.transport_socket.as_ref().map(|socket| inner(socket, surroundings)).transpose();
    Ok(Transport { tls: tls.at("typed_config.transport_socket")?, is_proxied: true })
}

fn inner(
    socket: &core::TransportSocket,
    surroundings: &Surroundings,
) -> Result<UpstreamTls, Fault> {
    let context = named_config::<tls::UpstreamTlsContext>(socket)?;
    let context = context.ok_or("it must be an `UpstreamTlsContext`").at("typed_config")?;
    let read = context.map_err(Fault::from).and_then(|it| upstream(&it, surroundings));
    read.at("typed_config")
}

/// Returns the message in a socket that has the name of TLS, if it is one of this type.
pub(super) fn named_config<M: prost::Message + prost::Name + Default>(
    socket: &core::TransportSocket,
) -> Result<Option<Result<M, String>>, Fault> {
    const NAME: &str = "envoy.transport_sockets.tls";
    if socket.name != NAME {
        return Err(format!("it must be `{NAME}`, and is `{}`", quoted(&socket.name))).at("name");
    }
    Ok(config_of(socket).and_then(opened::<M>))
}

fn config_of(socket: &core::TransportSocket) -> Option<&envoy_types::pb::google::protobuf::Any> {
    let core::transport_socket::ConfigType::TypedConfig(config) = socket.config_type.as_ref()?;
    Some(config)
}

fn upstream(
    context: &tls::UpstreamTlsContext,
    surroundings: &Surroundings,
) -> Result<UpstreamTls, Fault> {
    const MOST: usize = 255;
    if context.sni.len() > MOST {
        return Err(format!("it must have at most {MOST} bytes")).at("sni");
    }
    let server_name = ServerName {
        is_hostname: context.auto_host_sni,
        fixed: (!context.sni.is_empty()).then(|| context.sni.clone()),
        is_checked: context.auto_sni_san_validation,
    };
    let common = context.common_tls_context.as_ref().ok_or("it must be set");
    let tls = common.map_err(Fault::from).and_then(|it| common_context(it, server_name));
    let tls = tls.and_then(|tls| tls.checked(surroundings));
    tls.at("common_tls_context")
}

fn common_context(
    common: &CommonTlsContext,
    server_name: ServerName,
) -> Result<UpstreamTls, Fault> {
    supported(common)?;
    let identity = identity(common)?;
    let validation = common.validation_context_type.as_ref();
    let (roots, names) = match validation.ok_or(NO_ROOTS).at("validation_context")? {
        ValidationContextType::ValidationContext(context) => {
            validated(context, None).at("validation_context")?
        }
        ValidationContextType::CombinedValidationContext(both) => {
            let none = CertificateValidationContext::default();
            let context = both.default_validation_context.as_ref().unwrap_or(&none);
            let older = older_roots(both);
            let path = "combined_validation_context.default_validation_context";
            validated(context, older).at(path)?
        }
        other => match older_instance(other) {
            Some(provider) => (Roots::Provider(provider), ListedNames::default()),
            None => return Err(NO_ROOTS).at("validation_context"),
        },
    };
    Ok(UpstreamTls { roots, identity, names, server_name })
}

/// Rejects fields that say how handshakes are made.
pub(super) fn supported(common: &CommonTlsContext) -> Result<(), Fault> {
    if common.tls_params.is_some() {
        return Err(UNSUPPORTED).at("tls_params");
    }
    if common.custom_handshaker.is_some() {
        return Err(UNSUPPORTED).at("custom_handshaker");
    }
    Ok(())
}

/// Reads the provider of one's own certificate, from the field of today or from an older one.
#[expect(deprecated, reason = "gRPC still reads the older field")]
pub(super) fn identity(common: &CommonTlsContext) -> Result<Option<Provider>, Fault> {
    let provider = common.tls_certificate_provider_instance.as_ref().map(Provider::from);
    let older = common.tls_certificate_certificate_provider_instance.as_ref().map(Provider::from);
    let provider = provider.or(older);
    for (field, is_set) in [
        ("tls_certificates", !common.tls_certificates.is_empty()),
        (
            "tls_certificate_sds_secret_configs",
            !common.tls_certificate_sds_secret_configs.is_empty(),
        ),
    ] {
        if is_set && provider.is_none() {
            return Err("a certificate must come from `tls_certificate_provider_instance`")
                .at(field);
        }
    }
    Ok(provider)
}

#[expect(deprecated, reason = "gRPC still reads the older field")]
pub(super) fn older_roots(
    both: &tls::common_tls_context::CombinedCertificateValidationContext,
) -> Option<Provider> {
    both.validation_context_certificate_provider_instance.as_ref().map(Provider::from)
}

#[expect(deprecated, reason = "gRPC still reads the older field")]
pub(super) fn older_instance(validation: &ValidationContextType) -> Option<Provider> {
    match validation {
        ValidationContextType::ValidationContextCertificateProviderInstance(older) => {
            Some(older.into())
        }
        _ => None,
    }
}

/// Reads the authorities, and the names of peers.
#[expect(deprecated, reason = "the field for names is the one that gRFC A29 has")]
pub(super) fn validated(
    context: &CertificateValidationContext,
    older: Option<Provider>,
) -> Result<(Roots, ListedNames), Fault> {
    let requires_timestamp = context.require_signed_certificate_timestamp.as_ref();
    for (field, is_set) in [
        ("verify_certificate_spki", !context.verify_certificate_spki.is_empty()),
        ("verify_certificate_hash", !context.verify_certificate_hash.is_empty()),
        ("require_signed_certificate_timestamp", requires_timestamp.is_some_and(|it| it.value)),
        ("crl", context.crl.is_some()),
        ("custom_validator_config", context.custom_validator_config.is_some()),
    ] {
        if is_set {
            return Err(UNSUPPORTED).at(field);
        }
    }
    let provider = context.ca_certificate_provider_instance.as_ref().map(Provider::from);
    let roots = match (provider.or(older), &context.system_root_certs) {
        (Some(provider), _) => Roots::Provider(provider),
        (None, Some(_)) => Roots::System,
        (None, None) => return Err(NO_ROOTS.into()),
    };
    let names = context.match_subject_alt_names.iter().enumerate();
    let names =
        names.map(|(at, it)| matchers::text(it).at(format_args!("match_subject_alt_names[{at}]")));
    Ok((roots, ListedNames::new(names.collect::<Result<_, _>>()?)))
}

impl From<&CertificateProviderPluginInstance> for Provider {
    fn from(message: &CertificateProviderPluginInstance) -> Self {
        let instance = message.instance_name.clone();
        Self { instance, certificate: message.certificate_name.clone() }
    }
}

impl From<&CertificateProviderInstance> for Provider {
    fn from(message: &CertificateProviderInstance) -> Self {
        let instance = message.instance_name.clone();
        Self { instance, certificate: message.certificate_name.clone() }
    }
}

const UNSUPPORTED: &str = "gRPC does not support this field";
const NO_ROOTS: &str = "authorities must come from `ca_certificate_provider_instance`, or be those of \
                        the system by `system_root_certs`";

#[cfg(test)]
mod tests {
    use chancery_calls::balancing::CustomPolicies;
    use chancery_client::Bootstrap;
    use serde_json::{Value, json};

    use super::super::support::{any, message};
    use super::*;

    const TLS: &str = "extensions.transport_sockets.tls.v3.UpstreamTlsContext";

    fn socket(context: Value) -> Value {
        json!({"name": "envoy.transport_sockets.tls", "typedConfig": any(TLS, context)})
    }

    fn transport(socket: Value) -> Result<Transport, String> {
        let cluster = json!({"name": "c", "transportSocket": socket});
        let cluster = message("envoy.config.cluster.v3.Cluster", &cluster);
        Ok(read(&cluster, &Surroundings::default())?)
    }

    fn tls(context: Value) -> UpstreamTls {
        transport(socket(context)).unwrap().tls.expect("TLS")
    }

    /// A context with a provider of the authorities, and these fields.
    fn common(fields: Value) -> Value {
        let mut common =
            json!({"validationContext": {"caCertificateProviderInstance": instance("r")}});
        common.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"commonTlsContext": common})
    }

    /// A context with this context of validation.
    fn validation(fields: Value) -> Value {
        let mut validation = json!({"caCertificateProviderInstance": instance("r")});
        validation.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"commonTlsContext": {"validationContext": validation}})
    }

    fn instance(name: &str) -> Value {
        json!({"instanceName": name, "certificateName": "c"})
    }

    fn provider(name: &str) -> Provider {
        Provider { instance: name.to_owned(), certificate: "c".to_owned() }
    }

    /// Returns the reason for which the context of a cluster is rejected.
    fn fault(context: Value) -> String {
        let fault = transport(socket(context)).unwrap_err();
        let path = "transport_socket.typed_config.";
        fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault}")).to_owned()
    }

    #[test]
    fn authorities_are_those_of_a_provider_or_of_the_system() {
        // C-125, gRFC A29, gRFC A82
        let roots = |common: Value| tls(json!({"commonTlsContext": common})).roots;
        let of_provider = Roots::Provider(provider("r"));
        let plain = json!({"caCertificateProviderInstance": instance("r"), "systemRootCerts": {}});
        assert_eq!(roots(json!({"validationContext": plain})), of_provider);
        let combined = json!({"defaultValidationContext": plain});
        assert_eq!(roots(json!({"combinedValidationContext": combined})), of_provider);
        let older = json!({"validationContextCertificateProviderInstance": instance("r")});
        assert_eq!(roots(json!({"combinedValidationContext": older})), of_provider);
        assert_eq!(roots(older), of_provider);
        let system = json!({"systemRootCerts": {}});
        assert_eq!(roots(json!({"validationContext": system})), Roots::System);
    }

    #[test]
    fn the_certificate_of_a_client_is_that_of_a_provider() {
        // C-122, gRFC A29
        assert_eq!(tls(common(json!({}))).identity, None);
        for field in ["tlsCertificateProviderInstance", "tlsCertificateCertificateProviderInstance"]
        {
            let context = tls(common(json!({field: instance("i"), "tlsCertificates": [{}]})));
            assert_eq!(context.identity, Some(provider("i")));
        }
        let why = "a certificate must come from `tls_certificate_provider_instance`";
        for (key, field) in [
            ("tlsCertificates", "tls_certificates"),
            ("tlsCertificateSdsSecretConfigs", "tls_certificate_sds_secret_configs"),
        ] {
            let fault = fault(common(json!({key: [{}]})));
            assert_eq!(fault, format!("common_tls_context.{field}: {why}"));
        }
    }

    #[test]
    fn providers_are_those_of_the_bootstrap() {
        // C-122, gRFC A29
        let bootstrap = |names: &[&str]| -> Bootstrap {
            let providers = names.iter().map(|name| {
                (
                    (*name).to_owned(),
                    json!({
                        "plugin_name": "file_watcher",
                        "config": {"ca_certificate_file": "/ca"},
                    }),
                )
            });
            let providers: serde_json::Map<_, _> = providers.collect();
            let server =
                json!({"server_uri": "127.0.0.1:1", "channel_creds": [{"type": "insecure"}]});
            let text = json!({"xds_servers": [server], "certificate_providers": providers});
            text.to_string().parse().unwrap()
        };
        let context = common(json!({"tlsCertificateProviderInstance": instance("i")}));
        let cluster = json!({"name": "c", "transportSocket": socket(context)});
        let cluster = message("envoy.config.cluster.v3.Cluster", &cluster);
        let with = |names: &[&str]| {
            let surroundings = Surroundings::new(&bootstrap(names), CustomPolicies::default());
            read(&cluster, &surroundings).err().map(|fault| fault.to_string())
        };
        assert_eq!(with(&["r", "i"]), None);
        let why = "`certificate_providers` of the bootstrap has none of the name";
        let path = "transport_socket.typed_config.common_tls_context";
        let roots = format!("{path}.validation_context: {why} `r`");
        assert_eq!(with(&["i"]), Some(roots));
        let identity = format!("{path}.tls_certificate_provider_instance: {why} `i`");
        assert_eq!(with(&["r"]), Some(identity));
    }

    #[test]
    fn what_grpc_cannot_check_is_rejected() {
        // C-122, gRFC A29
        let extension =
            json!({"name": "e", "typedConfig": any("config.cluster.v3.Cluster", json!({}))});
        let digest = "0123456789012345678901234567890123456789012345678901234567890123";
        for (context, field) in [
            (common(json!({"tlsParams": {}})), "tls_params"),
            (common(json!({"customHandshaker": extension})), "custom_handshaker"),
            (
                validation(json!({"verifyCertificateSpki": [digest]})),
                "validation_context.verify_certificate_spki",
            ),
            (
                validation(json!({"verifyCertificateHash": [digest]})),
                "validation_context.verify_certificate_hash",
            ),
            (
                validation(json!({"requireSignedCertificateTimestamp": true})),
                "validation_context.require_signed_certificate_timestamp",
            ),
            (validation(json!({"crl": {"filename": "/a"}})), "validation_context.crl"),
            (
                validation(json!({"customValidatorConfig": extension})),
                "validation_context.custom_validator_config",
            ),
        ] {
            let why = format!("common_tls_context.{field}: gRPC does not support this field");
            assert_eq!(fault(context), why);
        }
        tls(validation(json!({"requireSignedCertificateTimestamp": false})));
    }

    #[test]
    fn a_context_has_authorities() {
        // C-122, gRFC A29
        assert_eq!(fault(json!({})), "common_tls_context: it must be set");
        let sds = json!({"validationContextSdsSecretConfig": {"name": "s"}});
        let file = json!({"validationContext": {"trustedCa": {"filename": "/a"}}});
        let combined = "combined_validation_context.default_validation_context";
        for (common, field) in [
            (json!({}), "validation_context"),
            (sds, "validation_context"),
            (file, "validation_context"),
            (json!({"combinedValidationContext": {}}), combined),
        ] {
            let why = format!("common_tls_context.{field}: {NO_ROOTS}");
            assert_eq!(fault(json!({"commonTlsContext": common})), why);
        }
    }

    #[test]
    fn sockets_have_their_own_name_and_message() {
        // C-122, gRFC A29
        let mut named = socket(common(json!({})));
        named["name"] = json!("tls");
        let why = "transport_socket.name: it must be `envoy.transport_sockets.tls`, and is `tls`";
        assert_eq!(transport(named), Err(why.to_owned()));
        let raw = any("extensions.transport_sockets.raw_buffer.v3.RawBuffer", json!({}));
        let why = "transport_socket.typed_config: it must be an `UpstreamTlsContext`";
        for socket in [
            json!({"name": "envoy.transport_sockets.tls", "typedConfig": raw}),
            json!({"name": "envoy.transport_sockets.tls"}),
        ] {
            assert_eq!(transport(socket), Err(why.to_owned()));
        }
        let matches = json!({"name": "c", "transportSocketMatches": [{"name": "m"}]});
        let cluster = message("envoy.config.cluster.v3.Cluster", &matches);
        let fault = read(&cluster, &Surroundings::default()).unwrap_err().to_string();
        assert_eq!(fault, "transport_socket_matches: it must be empty");
    }

    #[test]
    fn names_of_the_peer_are_texts_to_match() {
        // gRFC A29
        let names = json!([{"exact": "a"}, {"prefix": "b", "ignoreCase": true}]);
        assert_eq!(tls(validation(json!({"matchSubjectAltNames": names}))).names.list().len(), 2);
        let unset = validation(json!({"matchSubjectAltNames": [{"exact": "a"}, {}]}));
        assert_eq!(
            fault(unset),
            "common_tls_context.validation_context.match_subject_alt_names[1]: \
             a text must be compared with something"
        );
    }

    #[test]
    fn the_name_that_is_asked_for_has_at_most_255_bytes() {
        // gRFC A101
        assert_eq!(tls(common(json!({}))).server_name, ServerName::default());
        let with = |fields: Value| {
            let mut context = common(json!({}));
            context.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            context
        };
        let name = "a".repeat(255);
        let context = with(json!({"sni": name, "autoHostSni": true, "autoSniSanValidation": true}));
        let expected = ServerName { is_hostname: true, fixed: Some(name), is_checked: true };
        assert_eq!(tls(context).server_name, expected);
        let long = fault(with(json!({"sni": "a".repeat(256)})));
        assert_eq!(long, "sni: it must have at most 255 bytes");
    }

    #[test]
    fn a_proxy_has_no_socket_or_tls_within() {
        // gRFC A86
        const PROXY: &str =
            "extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport";
        let proxied =
            |fields: Value| transport(json!({"name": "p", "typedConfig": any(PROXY, fields)}));
        let plain = proxied(json!({})).unwrap();
        assert_eq!(plain, Transport { tls: None, is_proxied: true });
        let inner = socket(common(json!({})));
        let tls = proxied(json!({"transportSocket": inner})).unwrap();
        assert!(tls.is_proxied && tls.tls.is_some());
        let raw = proxied(json!({"transportSocket": {"name": "raw"}})).unwrap_err();
        assert_eq!(
            raw,
            "transport_socket.typed_config.transport_socket.name: it must be \
             `envoy.transport_sockets.tls`, and is `raw`"
        );
    }
}
