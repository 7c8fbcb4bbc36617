//! HTTP connection managers of Envoys without any filter.
//!
//! Envoy 1.40 accepts one, and then no request gets an answer: it waits until it times out. Not
//! here: a last filter that does not end the chain, which Envoy refuses (`rules/envoy`), and
//! listeners of gRPC clients.

use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage};

use super::{NO_HTTP_FILTER, Warning};
use crate::facts::is_v2;
use crate::walk::{list_in, message_in, walk};

const MANAGER: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

/// Warns of each connection manager of a listener that has no filter.
pub(crate) fn lint_managers(type_url: &TypeUrl, listener: &DynamicMessage) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let is_listener = type_url.api() == Api::Lds && !is_v2(type_url);
    if !is_listener || message_in(listener, "api_listener").is_some() {
        return warnings;
    }
    walk(listener, &mut |path, message| {
        let is_manager = message.descriptor().full_name() == MANAGER;
        if is_manager && list_in(message, "http_filters").is_empty() {
            let text = "has no filter in `http_filters`, so no request gets an answer: end the \
                        list with `envoy.filters.http.router`";
            warnings.push(Warning { code: NO_HTTP_FILTER, ..Warning::new(path, text) });
        }
    });
    warnings
}
