//! Listeners of gRPC clients that these reject (C-092, C-093), and the connection managers of both clients and
//! servers. Not here: their HTTP filters (`filters`).

use prost_reflect::{DynamicMessage, Value};

use super::{ALL, CORE, Findings, GO, JAVA, Side, filters, routes, type_in};
use crate::any;
use crate::walk::{list_in, message_in, text_in, value_in};

const MANAGER: &str = "api_listener.api_listener";

/// Adds what is found in the listener of a client.
pub(super) fn lint(listener: &DynamicMessage, found: &mut Findings) {
    let api = message_in(listener, "api_listener").and_then(|it| message_in(it, "api_listener"));
    let manager = api.filter(|api| type_in(api).ends_with(".v3.HttpConnectionManager"));
    let Some(manager) = manager.and_then(any::open) else {
        let why = "the listener of a client must hold an HTTP connection manager";
        return found.rejected(ALL, MANAGER, why);
    };
    lint_manager(MANAGER, &manager, Side::Client, found);
    if let Some(config) = message_in(&manager, "route_config") {
        routes::lint(&format!("{MANAGER}.route_config."), config, found);
    }
}

/// Adds what is found in a connection manager, but for its routes.
pub(super) fn lint_manager(path: &str, manager: &DynamicMessage, side: Side, found: &mut Findings) {
    let at = |field: &str| format!("{path}.{field}");
    let strict = GO.and(CORE).and(JAVA);
    if value_in(manager, "xff_num_trusted_hops").and_then(Value::as_u32).unwrap_or_default() != 0 {
        found.rejected(strict, at("xff_num_trusted_hops"), "must be zero");
    }
    if !list_in(manager, "original_ip_detection_extensions").is_empty() {
        found.rejected(strict, at("original_ip_detection_extensions"), "must be empty");
    }
    let has_routes = ["rds", "route_config"].iter().any(|it| message_in(manager, it).is_some());
    if !has_routes {
        found.rejected(ALL, at("route_specifier"), "must be `rds` or `route_config`");
    }
    if message_in(manager, "rds").is_some_and(|rds| text_in(rds, "route_config_name").is_empty()) {
        found.rejected(GO, at("rds.route_config_name"), "must be set");
    }
    filters::lint(&at("http_filters"), manager, side, found);
}
