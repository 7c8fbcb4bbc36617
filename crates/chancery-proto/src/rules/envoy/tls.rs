//! TLS: certificates that are missing, incomplete or no PEM.

use prost_reflect::{DynamicMessage, Value};

use super::Below::{Field, Index};
use super::clusters::type_of;
use super::{Below, Checks, Found};
use crate::rules::name::RuleName;
use crate::walk::{list_in, message_in, messages_in, text_in, texts_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext", downstream),
    ("envoy.extensions.transport_sockets.tls.v3.CommonTlsContext", common),
    ("envoy.extensions.transport_sockets.tls.v3.TlsCertificate", certificate),
    ("envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext", validation),
    ("envoy.extensions.transport_sockets.tls.v3.CommonTlsContext", alt_names),
    ("envoy.extensions.transport_sockets.tls.v3.Secret", alt_names),
    ("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", client),
    ("envoy.extensions.transport_sockets.tls.v3.TlsSessionTicketKeys", ticket_keys),
    ("envoy.config.cluster.v3.Cluster", upstream),
];

/// A server shows a certificate. Those that are not known yet come by SDS or from a provider.
fn downstream(context: &DynamicMessage, found: &mut Found<'_>) {
    let common = message_in(context, "common_tls_context");
    let has_any = common.is_some_and(|common| {
        common.fields().any(|(field, value)| {
            let name = field.name();
            let is_source =
                name.starts_with("tls_certificate") || name == "custom_tls_certificate_selector";
            is_source && value.as_list().is_none_or(|list| !list.is_empty())
        })
    });
    if !has_any {
        let sentence = "must have a certificate: set `tls_certificates` or \
                        `tls_certificate_sds_secret_configs`";
        found.says(&[Field("common_tls_context")], RuleName::TLS_CERTIFICATE, sentence);
    }
}

fn common(context: &DynamicMessage, found: &mut Found<'_>) {
    for (at, protocols) in texts_in(context, "alpn_protocols").enumerate() {
        if protocols.split(',').any(|protocol| protocol.len() > 255) {
            let below = [Field("alpn_protocols"), Index(at)];
            found.says(&below, RuleName::ALPN, "must have 255 bytes at most");
        }
    }
    // The authorities of a context that is combined with another one may come by SDS.
    let Some(validation) = message_in(context, "validation_context") else { return };
    let has_names = ["match_typed_subject_alt_names", "match_subject_alt_names"]
        .iter()
        .any(|field| !list_in(validation, field).is_empty());
    let has_authority = ["trusted_ca", "ca_certificate_provider_instance"]
        .iter()
        .any(|field| message_in(validation, field).is_some());
    if has_names && !has_authority {
        let sentence = "has names to match, which needs a `trusted_ca`: anybody can write a name into a \
                        certificate";
        found.says(&[Field("validation_context")], RuleName::TLS_AUTHORITY, sentence);
    }
}

fn certificate(certificate: &DynamicMessage, found: &mut Found<'_>) {
    let has = |field: &str| message_in(certificate, field).is_some();
    if has("pkcs12") && has("certificate_chain") {
        let sentence = "must not have both `pkcs12` and `certificate_chain`";
        found.says(&[], RuleName::TLS_CERTIFICATE, sentence);
    }
    if !has("pkcs12") {
        if has("certificate_chain") && !has("private_key") && !has("private_key_provider") {
            let sentence = "must have a `private_key` beside its `certificate_chain`";
            found.says(&[], RuleName::TLS_CERTIFICATE, sentence);
        } else if has("private_key") && !has("certificate_chain") {
            let sentence = "must have a `certificate_chain` beside its `private_key`";
            found.says(&[], RuleName::TLS_CERTIFICATE, sentence);
        }
    }
    pem(certificate, "certificate_chain", CERTIFICATE, found);
    pem(certificate, "private_key", PRIVATE_KEY, found);
}

/// The names of a context that is whole. What comes by SDS may be combined with another one.
fn alt_names(context: &DynamicMessage, found: &mut Found<'_>) {
    /// The type of a name that has an object identifier, as in `SanType`.
    const OTHER_NAME: i32 = 5;
    let Some(validation) = message_in(context, "validation_context") else { return };
    let names = "match_typed_subject_alt_names";
    for (at, matcher) in messages_in(validation, names).enumerate() {
        let kind = value_in(matcher, "san_type").and_then(Value::as_enum_number);
        if kind == Some(OTHER_NAME) && text_in(matcher, "oid").is_empty() {
            let below = [Field("validation_context"), Field(names), Index(at), Field("oid")];
            let sentence = "is required, because `san_type` is `OTHER_NAME`";
            found.says(&below, RuleName::TLS_AUTHORITY, sentence);
        }
    }
}

fn client(context: &DynamicMessage, found: &mut Found<'_>) {
    let common = message_in(context, "common_tls_context");
    if common.is_some_and(|common| list_in(common, "tls_certificates").len() > 1) {
        let below = [Field("common_tls_context"), Field("tls_certificates")];
        let sentence = "must have one item at most: a client shows no other certificate";
        found.says(&below, RuleName::TLS_CERTIFICATE, sentence);
    }
}

/// The length of a key of session tickets.
const TICKET_KEY: usize = 80;

fn ticket_keys(keys: &DynamicMessage, found: &mut Found<'_>) {
    for (at, key) in messages_in(keys, "keys").enumerate() {
        let bytes = value_in(key, "inline_bytes").and_then(Value::as_bytes).map(|it| it.len());
        let text = value_in(key, "inline_string").and_then(Value::as_str).map(str::len);
        if bytes.or(text).is_some_and(|length| length != TICKET_KEY) {
            let below = [Field("keys"), Index(at)];
            found.says(&below, RuleName::TLS_CERTIFICATE, "must have 80 bytes");
        }
    }
}

fn upstream(cluster: &DynamicMessage, found: &mut Found<'_>) {
    let socket = message_in(cluster, "transport_socket");
    let config = socket.and_then(|socket| message_in(socket, "typed_config"));
    const DOWNSTREAM: &str = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    if config.is_some_and(|config| type_of(config) == DOWNSTREAM) {
        let below = [Field("transport_socket"), Field("typed_config")];
        let sentence = "must be an `UpstreamTlsContext`: the other one is for listeners";
        found.says(&below, RuleName::EXTENSION_TYPE, sentence);
    }
}

fn validation(context: &DynamicMessage, found: &mut Found<'_>) {
    pem(context, "trusted_ca", CERTIFICATE, found);
}

/// The parts of PEM that begin a block, one of which must be there.
const CERTIFICATE: &[&str] =
    &["BEGIN CERTIFICATE-----", "BEGIN X509 CERTIFICATE-----", "BEGIN TRUSTED CERTIFICATE-----"];
const PRIVATE_KEY: &[&str] = &["PRIVATE KEY-----"];

/// Looks at a text that stands in the resource. Nothing of it is told.
fn pem(message: &DynamicMessage, field: &'static str, blocks: &[&str], found: &mut Found<'_>) {
    let Some(source) = message_in(message, field) else { return };
    let text = text_in(source, "inline_string").as_bytes();
    let bytes = value_in(source, "inline_bytes").and_then(Value::as_bytes);
    let (inner, text) = match bytes {
        Some(bytes) => ("inline_bytes", bytes.as_ref()),
        None => ("inline_string", text),
    };
    let is_inline =
        ["inline_string", "inline_bytes"].iter().any(|it| value_in(source, it).is_some());
    if is_inline && text.is_empty() {
        found.says(&[Field(field), Field(inner)], RuleName::PEM, "must not be empty");
    }
    let has = |block: &str| text.windows(block.len()).any(|part| part == block.as_bytes());
    if !text.is_empty() && !blocks.iter().any(|block| has(block)) {
        let below: [Below; 2] = [Field(field), Field(inner)];
        let sentence = match field {
            "private_key" => "must be a private key in PEM",
            _ => "must be a certificate in PEM",
        };
        found.says(&below, RuleName::PEM, sentence);
    }
}
