//! The TLS settings of gRPC servers (C-122, C-146, [gRFC
//! A29](https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md)): certificates come from providers
//! of the bootstrap, and little else can be said. Not here: the names of providers, which only the bootstrap knows.

use prost_reflect::{DynamicMessage, Value};

use super::{ALL, CORE, Findings, GO, JAVA, NODE, type_in};
use crate::any;
use crate::walk::{list_in, message_in, text_in, value_in};

const CONTEXT: &str = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";

/// Adds what is found in the transport socket of a filter chain.
pub(super) fn lint(path: &str, socket: &DynamicMessage, found: &mut Findings) {
    if text_in(socket, "name") != "envoy.transport_sockets.tls" {
        let why = "the name must be `envoy.transport_sockets.tls`";
        found.rejected(GO.and(JAVA).and(NODE), format!("{path}.name"), why);
    }
    let config = message_in(socket, "typed_config").filter(|config| type_in(config) == CONTEXT);
    let Some(context) = config.and_then(any::open) else {
        return found.rejected(
            ALL,
            path,
            "a server has no other socket than a `DownstreamTlsContext`",
        );
    };
    let path = format!("{path}.typed_config");
    let requires = |field| {
        let flag = message_in(&context, field).and_then(|it| value_in(it, "value"));
        flag.and_then(Value::as_bool) == Some(true)
    };
    if requires("require_sni") {
        found.rejected(ALL, format!("{path}.require_sni"), "servers do not have this");
    }
    let ocsp = value_in(&context, "ocsp_staple_policy").and_then(Value::as_enum_number);
    if ocsp.unwrap_or_default() != 0 {
        let why = "the policy must be `LENIENT_STAPLING`";
        found.rejected(ALL, format!("{path}.ocsp_staple_policy"), why);
    }
    let Some(common) = message_in(&context, "common_tls_context") else {
        let why = "must be set, with a provider of the certificate";
        return found.rejected(ALL, format!("{path}.common_tls_context"), why);
    };
    let path = format!("{path}.common_tls_context");
    lint_common(&path, common, found);
    let validation = validation(common);
    if let Some((field, context)) = &validation {
        lint_validation(&format!("{path}.{field}"), context, found);
    }
    let has_roots = validation.as_ref().is_some_and(|(_, it)| message_in(it, ROOTS).is_some())
        || message_in(common, OLD_ROOTS).is_some();
    if requires("require_client_certificate") && !has_roots {
        let why = "the certificate of a client needs authorities, from a provider of the bootstrap";
        let who = GO.and(CORE);
        let who = if validation.is_none() { who.and(NODE) } else { who };
        found.rejected(who, path, why);
    }
}

fn lint_common(path: &str, common: &DynamicMessage, found: &mut Findings) {
    let providers =
        ["tls_certificate_provider_instance", "tls_certificate_certificate_provider_instance"];
    if !providers.iter().any(|field| message_in(common, field).is_some()) {
        let why = "the certificate must come from a provider of the bootstrap";
        found.rejected(ALL, format!("{path}.{}", providers[0]), why);
    }
    for field in ["validation_context_sds_secret_config", "tls_params", "custom_handshaker"] {
        if message_in(common, field).is_some() {
            found.rejected(ALL, format!("{path}.{field}"), "the field is not supported");
        }
    }
}

/// The context by which clients are validated, and its field.
fn validation(common: &DynamicMessage) -> Option<(String, &DynamicMessage)> {
    let combined = "combined_validation_context";
    let inner = "default_validation_context";
    let in_combined = || {
        let inner_context = message_in(message_in(common, combined)?, inner)?;
        Some((format!("{combined}.{inner}"), inner_context))
    };
    let plain = message_in(common, "validation_context");
    plain.map(|it| ("validation_context".to_owned(), it)).or_else(in_combined)
}

fn lint_validation(path: &str, validation: &DynamicMessage, found: &mut Findings) {
    for field in ["verify_certificate_spki", "verify_certificate_hash"] {
        if !list_in(validation, field).is_empty() {
            found.rejected(ALL, format!("{path}.{field}"), "the field is not supported");
        }
    }
    for field in ["require_signed_certificate_timestamp", "crl", "custom_validator_config"] {
        if message_in(validation, field).is_some() {
            found.rejected(ALL, format!("{path}.{field}"), "the field is not supported");
        }
    }
    if !list_in(validation, "match_subject_alt_names").is_empty() {
        let why = "servers do not compare names";
        found.rejected(GO.and(CORE).and(JAVA), format!("{path}.match_subject_alt_names"), why);
    }
    let has_roots = message_in(validation, ROOTS).is_some();
    if message_in(validation, "system_root_certs").is_some() && !has_roots {
        let why = "a server takes the authorities from a provider of the bootstrap";
        found.rejected(GO.and(CORE), format!("{path}.system_root_certs"), why);
    } else if message_in(validation, "trusted_ca").is_some() && !has_roots {
        let why = "the authorities must come from a provider of the bootstrap";
        found.rejected(GO, format!("{path}.trusted_ca"), why);
    }
}

const ROOTS: &str = "ca_certificate_provider_instance";
const OLD_ROOTS: &str = "validation_context_certificate_provider_instance";
