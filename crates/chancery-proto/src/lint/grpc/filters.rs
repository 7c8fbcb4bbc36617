//! The HTTP filters of connection managers that gRPC rejects (C-093,
//! [gRFC A39](https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md)).
//!
//! None of the four lets a program register a filter; `chancery-grpc` does. Not here: the settings of the filters, but for RBAC (`rbac`).

use std::collections::BTreeSet;

use prost_reflect::{DynamicMessage, Value};

use super::{ALL, CORE, Findings, GO, JAVA, NODE, ROUTER, Side, is_unknown_to, kind_in, type_in};
use crate::walk::{message_in, messages_in, text_in, value_in};

/// A filter, as far as its place among the others goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Router,
    Known,
    /// It is left out, because it is optional.
    Ignored,
    /// It has no place, as the list is rejected for it.
    Rejected,
}

/// Adds what is found in the filters of a connection manager.
pub(super) fn lint(list: &str, manager: &DynamicMessage, side: Side, found: &mut Findings) {
    let mut names = BTreeSet::new();
    let mut places = Vec::new();
    for (index, filter) in messages_in(manager, "http_filters").enumerate() {
        let path = format!("{list}[{index}]");
        let name = text_in(filter, "name");
        if !names.insert(name) {
            found.rejected(ALL, format!("{path}.name"), "another filter has the same name");
        } else if name.is_empty() {
            found.rejected(GO.and(CORE), format!("{path}.name"), "a filter must have a name");
        }
        let place = lint_filter(&path, filter, side, found);
        places.push((path, place));
    }
    if places.is_empty() {
        return found.rejected(GO.and(CORE).and(JAVA), list, "there must be filters");
    }
    lint_places(list, &places, found);
}

fn lint_places(list: &str, places: &[(String, Place)], found: &mut Findings) {
    let known = places.iter().filter(|(_, it)| [Place::Router, Place::Known].contains(it));
    let known: Vec<_> = known.collect();
    let Some(((last, place), before)) = known.split_last() else {
        if places.iter().all(|(_, it)| *it == Place::Ignored) {
            found.rejected(ALL, list, "the last filter must be the router");
        }
        return;
    };
    for (path, _) in before.iter().filter(|(_, it)| *it == Place::Router) {
        found.rejected(ALL, path, "the router must be the last filter");
    }
    if *place != Place::Router {
        found.rejected(ALL, last, "the last filter must be the router");
    } else if places.last().is_some_and(|(_, it)| *it == Place::Ignored) {
        let why = "the router must be the last filter, also before those that are ignored";
        found.rejected(JAVA.and(NODE), last, why);
    }
}

fn lint_filter(path: &str, filter: &DynamicMessage, side: Side, found: &mut Findings) -> Place {
    let is_optional = value_in(filter, "is_optional").and_then(Value::as_bool) == Some(true);
    let unless_optional = if is_optional { Place::Ignored } else { Place::Rejected };
    let config = message_in(filter, "typed_config");
    let kind = config.map(kind_in).unwrap_or_default();
    if kind.is_empty() {
        let why = if message_in(filter, "config_discovery").is_some() {
            "`config_discovery` is not supported"
        } else {
            "must have a `typed_config`"
        };
        found.rejected(if is_optional { CORE.and(NODE) } else { ALL }, path, why);
        return unless_optional;
    }
    if is_unknown_to(side, &kind) {
        if is_optional {
            found.ignored(ALL, path, "the filter is not known");
        } else {
            found.unknown_filter(&kind, path);
        }
        return unless_optional;
    }
    let is_router = kind.starts_with(ROUTER);
    let is_struct = config.is_some_and(|config| type_in(config) != kind);
    if is_struct && (is_router || kind.starts_with(FAULT)) {
        let who = if is_router { GO.and(CORE) } else { ALL };
        found.rejected(who, path, "the filter must have its own message, and no `TypedStruct`");
    }
    if side == Side::Server && kind.starts_with(RBAC) && !is_optional {
        let why = "servers know RBAC only with `GRPC_XDS_EXPERIMENTAL_RBAC`";
        found.rejected(NODE, path, why);
    }
    if is_router { Place::Router } else { Place::Known }
}

const RBAC: &str = "envoy.extensions.filters.http.rbac.";
const FAULT: &str = "envoy.extensions.filters.http.fault.";
