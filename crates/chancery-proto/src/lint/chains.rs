//! Filter chains of Envoys that get no connection, or do nothing with one, and filters that refuse every request.
//!
//! Envoy 1.40 accepts them all. A chain for names of servers gets nothing where no `tls_inspector` reads the names: it
//! is not added by itself any more. A chain with TLS and without filters closes each connection. Not
//! here: connection managers without filters (`managers`), and what Envoy refuses (`rules/envoy`).

use prost_reflect::{DynamicMessage, Value};

use super::{NO_FILTERS, NO_INSPECTOR, Warning};
use crate::any;
use crate::walk::{list_in, message_in, messages_in, text_in, value_in};

/// Warns of the chains of a listener.
pub(super) fn lint_listener(listener: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let lacks_inspector = lacks_inspector(listener);
    let chains = messages_in(listener, "filter_chains").enumerate();
    let chains = chains.map(|(at, chain)| (format!("filter_chains[{at}]"), chain));
    let default = message_in(listener, DEFAULT);
    let default = default.into_iter().map(|chain| (DEFAULT.to_owned(), chain));
    // The default chain takes what no other one matches, whatever its own match says.
    for (path, chain) in chains.chain(default) {
        if has_tls(chain) && list_in(chain, "filters").is_empty() {
            let text = "has TLS and no `filters`, so that each connection is closed: have the \
                        `filters` stand in the same element of the list";
            warnings.push(Warning::new(NO_FILTERS, path.clone(), text));
        }
        if !lacks_inspector || path == DEFAULT {
            continue;
        }
        if let Some(field) = message_in(chain, "filter_chain_match").and_then(field_of_tls) {
            let text = format!(
                "no connection matches `{field}`: only `envoy.filters.listener.tls_inspector` reads what a \
                 client says of TLS; add it to `listener_filters`"
            );
            warnings.push(Warning::new(
                NO_INSPECTOR,
                format!("{path}.filter_chain_match.{field}"),
                text,
            ));
        }
    }
}

const DEFAULT: &str = "default_filter_chain";

/// Returns true for a chain with TLS; a transport socket of which nobody says the type counts as well.
fn has_tls(chain: &DynamicMessage) -> bool {
    let Some(socket) = message_in(chain, "transport_socket") else { return false };
    let config = message_in(socket, "typed_config").and_then(any::type_url);
    config.is_none_or(|url| {
        let kinds = ["tls", "starttls", "quic"];
        kinds.iter().any(|kind| url.contains(&format!(".transport_sockets.{kind}.")))
    })
}

/// The criterion of a match that only the beginning of TLS tells.
fn field_of_tls(matching: &DynamicMessage) -> Option<&'static str> {
    if !list_in(matching, "server_names").is_empty() {
        return Some("server_names");
    }
    (text_in(matching, "transport_protocol") == "tls").then_some("transport_protocol")
}

/// Returns true for a listener of TCP of which each filter is known not to read TLS.
fn lacks_inspector(listener: &DynamicMessage) -> bool {
    let is_other =
        ["udp_listener_config", "internal_listener", "api_listener", "filter_chain_matcher"]
            .iter()
            .any(|field| message_in(listener, field).is_some());
    let reads_nothing = |filter: &DynamicMessage| {
        let config = message_in(filter, "typed_config").and_then(any::type_url);
        config.is_some_and(|url| READ_NO_TLS.iter().any(|name| url.ends_with(name)))
    };
    !is_other && messages_in(listener, "listener_filters").all(reads_nothing)
}

const READ_NO_TLS: [&str; 5] = [
    "/envoy.extensions.filters.listener.http_inspector.v3.HttpInspector",
    "/envoy.extensions.filters.listener.local_ratelimit.v3.LocalRateLimit",
    "/envoy.extensions.filters.listener.original_dst.v3.OriginalDst",
    "/envoy.extensions.filters.listener.original_src.v3.OriginalSrc",
    "/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
];

/// Warns of routes without a name, for which a connection manager waits for ever.
pub(super) fn lint_routes(path: &str, manager: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let Some(rds) = message_in(manager, "rds") else { return };
    if text_in(rds, "route_config_name").is_empty() {
        let path = format!("{path}.rds.route_config_name");
        let text = "is empty, so that the listener waits for routes that nobody has: say which";
        warnings.push(Warning::new(super::NO_ROUTES, path, text));
    }
}

/// Warns of an authorization that asks nobody, so that each request is refused.
pub(super) fn lint_authorization(path: &str, filter: &DynamicMessage, warnings: &mut Vec<Warning>) {
    let Some(service) = message_in(filter, "http_service") else { return };
    let lets_pass = value_in(filter, "failure_mode_allow").and_then(Value::as_bool) == Some(true);
    if message_in(service, "server_uri").is_none() && !lets_pass {
        let text = "has no `server_uri`, so that each request is refused: say whom to ask";
        warnings.push(Warning::new(super::NO_SERVER, format!("{path}.http_service"), text));
    }
}
