//! Clusters that gRPC clients reject (C-107, C-112, C-122, C-149). Not here: their policies (`policies`).

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::{ALL, Findings, GO, JAVA, NODE, is_negative, policies, type_in};
use crate::walk::{list_in, message_in, messages_in, text_in, value_in, walk};

/// Adds what is found in a cluster.
pub(super) fn lint(cluster: &DynamicMessage, found: &mut Findings) {
    lint_type(cluster, found);
    policies::lint(cluster, found);
    lint_socket(cluster, found);
    lint_outliers(cluster, found);
}

fn lint_type(cluster: &DynamicMessage, found: &mut Findings) {
    if let Some(custom) = message_in(cluster, "cluster_type") {
        let config = message_in(custom, "typed_config");
        if config.is_some_and(|config| type_in(config) == AGGREGATE) {
            let clusters = config.and_then(crate::any::open);
            if clusters.is_some_and(|clusters| list_in(&clusters, "clusters").is_empty()) {
                let why = "an aggregate cluster must name clusters";
                found.rejected(ALL, "cluster_type.typed_config", why);
            }
            if text_in(custom, "name") != AGGREGATE_NAME {
                let why = format!("must be `{AGGREGATE_NAME}`");
                found.rejected(GO.and(JAVA), "cluster_type.name", &why);
            }
        } else {
            let why = "a cluster must be `EDS`, `LOGICAL_DNS` or an aggregate";
            found.rejected(ALL, "cluster_type", why);
        }
        return;
    }
    match enum_in(cluster, "type").as_deref() {
        Some("EDS") => {}
        Some("LOGICAL_DNS") => {
            let assignment = message_in(cluster, "load_assignment");
            let localities: Vec<_> =
                assignment.map(|it| messages_in(it, "endpoints").collect()).unwrap_or_default();
            let endpoints = localities.first().map_or(0, |it| list_in(it, "lb_endpoints").len());
            if localities.len() != 1 || endpoints != 1 {
                let why = "a `LOGICAL_DNS` cluster must have one locality with one endpoint";
                found.rejected(ALL, "load_assignment", why);
            }
        }
        _ => {
            let why = "a cluster must be `EDS`, `LOGICAL_DNS` or an aggregate";
            found.rejected(ALL, "type", why);
        }
    }
}

fn lint_socket(cluster: &DynamicMessage, found: &mut Findings) {
    if !list_in(cluster, "transport_socket_matches").is_empty() {
        found.rejected(GO.and(JAVA), "transport_socket_matches", "the field is not supported");
    }
    let socket = message_in(cluster, "transport_socket");
    let Some(config) = socket.and_then(|socket| message_in(socket, "typed_config")) else {
        if socket.is_some() {
            found.rejected(ALL, "transport_socket", "must have a `typed_config`");
        }
        return;
    };
    let name = type_in(config);
    if ![TLS, PROXY].contains(&name.as_str()) {
        found.rejected(ALL, "transport_socket", "a transport socket must be one of TLS");
        return;
    }
    let is_named = socket.is_some_and(|socket| text_in(socket, "name") == TLS_NAME);
    if name == TLS && !is_named {
        let why = format!("must be `{TLS_NAME}`");
        found.rejected(GO.and(JAVA).and(NODE), "transport_socket.name", &why);
    }
    let mut has_roots = false;
    walk(config, &mut |_, message| {
        has_roots |= match message.descriptor().full_name() {
            VALIDATION => ["ca_certificate_provider_instance", "system_root_certs"]
                .iter()
                .any(|field| message_in(message, field).is_some()),
            COMBINED | CONTEXT => {
                message_in(message, "validation_context_certificate_provider_instance").is_some()
            }
            _ => false,
        };
    });
    if name == TLS && !has_roots {
        let why = "the authorities must come from a certificate provider of the bootstrap, or be \
                   those of the system";
        found.rejected(ALL, "transport_socket.typed_config", why);
    }
}

fn lint_outliers(cluster: &DynamicMessage, found: &mut Findings) {
    let Some(detection) = message_in(cluster, "outlier_detection") else { return };
    for field in PERCENTAGES {
        let number = message_in(detection, field).and_then(|it| value_in(it, "value"));
        if number.and_then(Value::as_u32).is_some_and(|number| number > 100) {
            found.rejected(ALL, format!("outlier_detection.{field}"), "must be at most 100");
        }
    }
    for field in ["interval", "base_ejection_time", "max_ejection_time"] {
        if message_in(detection, field).is_some_and(is_negative) {
            found.rejected(ALL, format!("outlier_detection.{field}"), "must not be negative");
        }
    }
}

/// The name of the value of an enum, if the field is set.
pub(super) fn enum_in(message: &DynamicMessage, field: &str) -> Option<String> {
    let number = value_in(message, field)?.as_enum_number()?;
    let kind = message.descriptor().get_field_by_name(field)?.kind();
    let value = kind.as_enum()?.get_value(number)?;
    Some(value.name().to_owned())
}

const AGGREGATE: &str = "envoy.extensions.clusters.aggregate.v3.ClusterConfig";
const AGGREGATE_NAME: &str = "envoy.clusters.aggregate";
const TLS: &str = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
/// The name that a socket of TLS has to have.
const TLS_NAME: &str = "envoy.transport_sockets.tls";
const PROXY: &str =
    "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport";
const VALIDATION: &str = "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext";
const CONTEXT: &str = "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext";
const COMBINED: &str = "envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.\
                        CombinedCertificateValidationContext";

const PERCENTAGES: [&str; 4] = [
    "max_ejection_percent",
    "enforcing_success_rate",
    "failure_percentage_threshold",
    "enforcing_failure_percentage",
];
