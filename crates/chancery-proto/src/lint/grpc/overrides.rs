//! Configurations of filters that belong to a part of the routes (`typed_per_filter_config`), and that gRPC rejects
//! (C-093, [gRFC A39](https://github.com/grpc/proposal/blob/master/A39-xds-http-filters.md)).
//!
//! gRPC Node does not look at them in a server. Not here: the content of a configuration.

use prost_reflect::{DynamicMessage, Value};

use super::{
    ALL, CORE, Findings, GO, JAVA, NODE, ROUTER, Side, is_unknown_filter, kind_in, type_in,
};
use crate::any;
use crate::walk::{message_in, value_in};

/// Adds what is found in the configurations of a virtual host, of a route or of a weighted cluster.
pub(super) fn lint(at: &str, owner: &DynamicMessage, side: Side, found: &mut Findings) {
    let Some(Value::Map(entries)) = value_in(owner, "typed_per_filter_config") else { return };
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    for (key, config) in entries {
        let Some((key, config)) = key.as_str().zip(config.as_message()) else { continue };
        let path = format!("{at}.typed_per_filter_config[{key}]");
        match side {
            Side::Client => lint_entry(&path, config, found),
            Side::Server => found.sparing(NODE, |found| lint_entry(&path, config, found)),
        }
    }
}

fn lint_entry(path: &str, config: &DynamicMessage, found: &mut Findings) {
    let wrapper = any::open(config).filter(|_| type_in(config) == WRAPPER);
    let says = |field| {
        let flag = wrapper.as_ref().and_then(|it| value_in(it, field)).and_then(Value::as_bool);
        flag == Some(true)
    };
    let is_optional = says("is_optional");
    let inner = wrapper.as_ref().map_or(Some(config), |it| message_in(it, "config"));
    let kind = inner.map(kind_in).unwrap_or_default();
    if kind.is_empty() {
        // With a variable of its environment gRPC Go takes this.
        if says("disabled") {
            return;
        }
        let who = if is_optional { CORE.and(NODE) } else { ALL };
        found.rejected(who, path, "must have a configuration, with its type");
    } else if kind.starts_with(ROUTER) {
        let who = GO.and(JAVA);
        let who = if is_optional { who } else { who.and(CORE) };
        found.rejected(who, path, "the router has no configuration for a part of the routes");
    } else if kind == RBAC_FILTER || is_unknown_filter(&kind) {
        if !is_optional {
            found.unknown_filter(&kind, path);
        }
    } else if kind == RBAC && !is_optional {
        lint_rbac(path, inner, found);
    }
}

fn lint_rbac(path: &str, config: Option<&DynamicMessage>, found: &mut Findings) {
    found.rejected(NODE, path, "RBAC is known with `GRPC_XDS_EXPERIMENTAL_RBAC` alone");
    if config.and_then(any::open).is_some_and(|config| message_in(&config, "rbac").is_none()) {
        found.rejected(GO, path, "`rbac` must be set");
    }
}

const WRAPPER: &str = "envoy.config.route.v3.FilterConfig";
const RBAC_FILTER: &str = "envoy.extensions.filters.http.rbac.v3.RBAC";
const RBAC: &str = "envoy.extensions.filters.http.rbac.v3.RBACPerRoute";
