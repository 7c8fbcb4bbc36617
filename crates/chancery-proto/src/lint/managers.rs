//! HTTP connection managers of Envoys without any filter.
//!
//! Envoy 1.40 accepts one, and then no request gets an answer: it waits until it times out. Not
//! here: a last filter that does not end the chain, which Envoy refuses (`rules/envoy`), and
//! listeners of gRPC clients.

use prost_reflect::DynamicMessage;

use super::{NO_HTTP_FILTER, Warning};
use crate::walk::list_in;

/// Warns of a connection manager that has no filter.
pub(super) fn lint_manager(path: &str, manager: &DynamicMessage, warnings: &mut Vec<Warning>) {
    if list_in(manager, "http_filters").is_empty() {
        let text = "has no filter in `http_filters`, so no request gets an answer: end the list \
                    with `envoy.filters.http.router`";
        warnings.push(Warning::new(NO_HTTP_FILTER, path, text));
    }
}
