//! Listeners of gRPC clients that these reject (C-092, C-093), and the connection managers of both clients and
//! servers.

use std::collections::BTreeSet;

use prost_reflect::{DynamicMessage, Value};

use super::{
    ALL, CORE, Findings, GO, JAVA, NODE, Side, is_unknown_filter, is_unknown_to_servers, routes,
    type_in,
};
use crate::any;
use crate::walk::{list_in, message_in, messages_in, text_in, value_in};

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
    lint_filters(&at("http_filters"), manager, side, found);
}

fn lint_filters(list: &str, manager: &DynamicMessage, side: Side, found: &mut Findings) {
    let mut names = BTreeSet::new();
    let mut ends = Vec::new();
    for (index, filter) in messages_in(manager, "http_filters").enumerate() {
        let path = format!("{list}[{index}]");
        let is_optional = value_in(filter, "is_optional").and_then(Value::as_bool) == Some(true);
        if !names.insert(text_in(filter, "name")) {
            found.rejected(ALL, format!("{path}.name"), "another filter has the same name");
        }
        let name = message_in(filter, "typed_config").map(type_in).unwrap_or_default();
        let is_unknown = match side {
            Side::Client => is_unknown_filter(&name),
            Side::Server => is_unknown_to_servers(&name),
        };
        if side == Side::Server && name.starts_with(RBAC) && !is_optional {
            let why = "servers know RBAC only with `GRPC_XDS_EXPERIMENTAL_RBAC`";
            found.rejected(NODE, &path, why);
        }
        match (is_unknown, is_optional) {
            (true, true) => found.ignored(ALL, &path, "the filter is not known"),
            (true, false) => {
                found.rejected(ALL, &path, "the filter is not known, and not optional");
            }
            (false, _) => ends.push((path, name.starts_with(ROUTER))),
        }
    }
    match ends.as_slice() {
        [] if names.is_empty() => {
            found.rejected(GO.and(CORE).and(JAVA), list, "there must be filters");
        }
        [before @ .., (last, is_router)] => {
            for (path, _) in before.iter().filter(|(_, is_router)| *is_router) {
                found.rejected(ALL, path, "the router must be the last filter");
            }
            if !is_router {
                found.rejected(ALL, last, "the last filter must be the router");
            }
        }
        [] => {}
    }
}

const RBAC: &str = "envoy.extensions.filters.http.rbac.";
const ROUTER: &str = "envoy.extensions.filters.http.router.";
