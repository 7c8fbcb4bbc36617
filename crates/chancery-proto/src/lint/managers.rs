//! HTTP connection managers of Envoys without a filter that answers.
//!
//! Envoy 1.40 accepts one without any filter, and then no request gets an answer: it waits until it times out.
//! It also accepts one whose last filter comes over ECDS and does not end the chain: requests get 500. Not
//! here: a last filter that does not end the chain, which Envoy refuses (`rules/envoy`), and
//! listeners of gRPC clients.

use prost_reflect::DynamicMessage;

use super::{NO_HTTP_FILTER, Warning};
use crate::rules::passes_requests_on;
use crate::walk::{message_in, messages_in, texts_in};

/// Warns of a connection manager that has no filter, or whose last one comes over ECDS and ends no chain.
pub(super) fn lint_manager(path: &str, manager: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let text = match messages_in(manager, "http_filters").last() {
        None => {
            "has no filter in `http_filters`, so no request gets an answer: end the list with \
             `envoy.filters.http.router`"
        }
        Some(last) if is_passing(last) => {
            "has no filter in `http_filters` that sends requests on: the last one, which comes over \
             ECDS, does not; end the list with `envoy.filters.http.router`"
        }
        Some(_) => return,
    };
    warnings.push(Warning::new(NO_HTTP_FILTER, path, text));
}

/// Returns true for a filter of ECDS of whose types none ends a chain.
fn is_passing(filter: &DynamicMessage) -> bool {
    let Some(source) = message_in(filter, "config_discovery") else { return false };
    let mut types = texts_in(source, "type_urls").peekable();
    let is_passing = |url: &str| passes_requests_on(url.rsplit('/').next().unwrap_or(url));
    types.peek().is_some() && types.all(is_passing)
}
