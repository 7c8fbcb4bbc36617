//! RBAC of gRPC servers (C-129, [gRFC
//! A41](https://github.com/grpc/proposal/blob/master/A41-xds-rbac.md)): the rules that they have no meaning for.

use std::net::IpAddr;

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::{ALL, CORE, Findings, GO, JAVA, headers, type_in};
use crate::rules::is_pattern;
use crate::walk::{message_in, messages_in, number_in, text_in, value_in, walk};

const FILTER: &str = "envoy.extensions.filters.http.rbac.v3.RBAC";

/// Adds what is found in the RBAC filters of a connection manager, and in their configurations for routes.
pub(super) fn lint(at: &str, manager: &DynamicMessage, found: &mut Findings) {
    walk(manager, &mut |path, message| {
        if message.descriptor().full_name() == FILTER
            && let Some(rules) = message_in(message, "rules")
        {
            lint_rules(&format!("{at}.{path}.rules"), rules, found);
        }
    });
}

fn lint_rules(at: &str, rules: &DynamicMessage, found: &mut Findings) {
    const LOG: i32 = 2;
    let action = value_in(rules, "action").and_then(Value::as_enum_number);
    if action == Some(LOG) {
        return found.ignored(ALL, format!("{at}.action"), "servers do not log by rules, so they");
    }
    let options = message_in(rules, "audit_logging_options");
    let loggers = options.into_iter().flat_map(|it| messages_in(it, "logger_configs")).enumerate();
    for (index, logger) in loggers {
        let config =
            message_in(logger, "audit_logger").and_then(|it| message_in(it, "typed_config"));
        let is_known = config.is_some_and(|it| type_in(it).contains(".rbac.audit_loggers."));
        let is_optional = value_in(logger, "is_optional").and_then(Value::as_bool) == Some(true);
        if !is_known && !is_optional {
            let path = format!("{at}.audit_logging_options.logger_configs[{index}]");
            found.rejected(GO, path, "the logger is not known, and not optional");
        }
    }
    walk(rules, &mut |path, message| {
        let path = format!("{at}.{path}");
        match message.descriptor().full_name() {
            "envoy.config.rbac.v3.Policy" => {
                for field in ["condition", "checked_condition"] {
                    if message_in(message, field).is_some() {
                        found.rejected(
                            ALL,
                            format!("{path}.{field}"),
                            "servers have no conditions",
                        );
                    }
                }
            }
            "envoy.config.rbac.v3.Permission" => lint_permission(&path, message, found),
            "envoy.config.rbac.v3.Principal" => lint_principal(&path, message, found),
            "envoy.config.route.v3.HeaderMatcher" => lint_header(&path, message, found),
            "envoy.config.core.v3.CidrRange" => lint_range(path, message, found),
            // Metadata are not compared.
            headers::TEXT if !path.contains("metadata") => {
                headers::lint_text(&path, message, found)
            }
            "envoy.type.matcher.v3.PathMatcher" if message_in(message, "path").is_none() => {
                found.rejected(GO.and(CORE).and(JAVA), format!("{path}.path"), "must be set");
            }
            "envoy.type.matcher.v3.RegexMatcher" if !is_pattern(text_in(message, "regex")) => {
                let path = format!("{path}.regex");
                found.rejected(GO.and(CORE).and(JAVA), path, "the pattern cannot be parsed");
            }
            _ => {}
        }
    });
}

/// Adds what is found in a permission, or in one of several that it is made of.
fn lint_permission(path: &str, permission: &DynamicMessage, found: &mut Findings) {
    let strict = GO.and(CORE).and(JAVA);
    if permission.fields().next().is_none() {
        found.rejected(strict, path, "a permission must say something");
    }
    for field in ["matcher", "uri_template", "sourced_metadata"] {
        if message_in(permission, field).is_some() {
            found.rejected(strict, format!("{path}.{field}"), "servers do not have this");
        }
    }
    if message_in(permission, "destination_port_range").is_some() {
        let path = format!("{path}.destination_port_range");
        found.rejected(GO.and(CORE), path, "servers do not have this");
    }
}

fn lint_range(path: String, range: &DynamicMessage, found: &mut Findings) {
    let Ok(address) = text_in(range, "address_prefix").parse::<IpAddr>() else {
        let why = "`address_prefix` must be an address";
        return found.rejected(GO.and(JAVA), path, why);
    };
    let length = message_in(range, "prefix_len").map_or(0, |it| number_in(it, "value"));
    if length > if address.is_ipv4() { 32 } else { 128 } {
        found.rejected(GO, path, "`prefix_len` is longer than the address");
    }
}

fn lint_principal(path: &str, principal: &DynamicMessage, found: &mut Findings) {
    let strict = GO.and(CORE).and(JAVA);
    if principal.fields().next().is_none() {
        found.rejected(strict, path, "a principal must say something");
    }
    for field in ["filter_state", "custom", "sourced_metadata"] {
        if message_in(principal, field).is_some() {
            found.rejected(strict, format!("{path}.{field}"), "servers do not have this");
        }
    }
    if message_in(principal, "authenticated").is_some_and(|it| it.fields().next().is_none()) {
        let path = format!("{path}.authenticated.principal_name");
        found.rejected(JAVA, path, "must be set");
    }
}

fn lint_header(path: &str, header: &DynamicMessage, found: &mut Findings) {
    let strict = GO.and(CORE).and(JAVA);
    let name = text_in(header, "name");
    let is_hidden = |name: &str| name == ":scheme" || name.starts_with("grpc-");
    if is_hidden(name) {
        let why = "servers do not compare `:scheme` and headers that begin with `grpc-`";
        found.rejected(strict, format!("{path}.name"), why);
    } else if is_hidden(&name.to_ascii_lowercase()) {
        let why = "servers do not compare headers that begin with `grpc-`";
        found.rejected(GO, format!("{path}.name"), why);
    }
    headers::lint_presence(path, header, found);
}
