//! The filter chains of gRPC servers
//! (C-142, C-143, C-144, [gRFC A36](https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md)).
//!
//! A server leaves a chain out that matches by what it does not know: a destination port, the name of a server, a
//! protocol. Not here: TLS (`server_tls`) and RBAC (`rbac`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use prost_reflect::{DynamicMessage, Value};

use super::{
    ALL, CORE, Findings, GO, JAVA, NOBODY, NODE, Side, listeners, rbac, routes, server_tls, type_in,
};
use crate::any;
use crate::walk::{list_in, message_in, messages_in, number_in, text_in, value_in};

/// Adds what is found in the chains of a server.
pub(super) fn lint(listener: &DynamicMessage, found: &mut Findings) {
    let (mut used, mut names) = (0_usize, BTreeSet::new());
    let mut matches = Matches::default();
    for (at, chain) in messages_in(listener, "filter_chains").enumerate() {
        let path = format!("filter_chains[{at}]");
        let conditions = message_in(chain, "filter_chain_match");
        let unknown = conditions.and_then(unknown_condition);
        // gRPC Go leaves a chain out before it looks at it.
        let spared = if unknown.is_some() { GO } else { NOBODY };
        found.sparing(spared, |found| lint_chain(&path, chain, found));
        let name = text_in(chain, "name");
        if !name.is_empty() && !names.insert(name) {
            found.rejected(JAVA, format!("{path}.name"), "another filter chain has the same name");
        }
        match unknown {
            Some(field) => {
                let path = format!("{path}.filter_chain_match.{field}");
                found.ignored(ALL, path, "servers do not match by this, so the filter chain");
            }
            None => {
                used += 1;
                matches.lint(&format!("{path}.filter_chain_match"), conditions, found);
            }
        }
    }
    let last = message_in(listener, "default_filter_chain");
    if let Some(chain) = last {
        lint_chain("default_filter_chain", chain, found);
        let why = "servers cannot use a default filter chain";
        found.rejected(NODE, "default_filter_chain", why);
    }
    if used == 0 && last.is_none() {
        let is_empty = list_in(listener, "filter_chains").is_empty();
        let who = if is_empty { GO.and(CORE).and(NODE) } else { GO };
        found.rejected(who, "filter_chains", "a server needs at least one");
    }
}

/// The field of a match that servers do not know.
fn unknown_condition(conditions: &DynamicMessage) -> Option<&'static str> {
    let is_set = |field: &&str| match *field {
        "destination_port" => message_in(conditions, field).is_some(),
        "transport_protocol" => !["", "raw_buffer"].contains(&text_in(conditions, field)),
        _ => !list_in(conditions, field).is_empty(),
    };
    let fields =
        ["destination_port", "server_names", "transport_protocol", "application_protocols"];
    fields.into_iter().find(is_set)
}

/// The conditions of the chains so far, each with its chain.
#[derive(Default)]
struct Matches {
    /// With the addresses as they are written, and as what is left of them by their masks.
    seen: [BTreeSet<Conditions>; 2],
    compared: usize,
}

/// True for `transport_protocol: raw_buffer`, the source type and port, and the ranges of the destination and of the
/// source.
type Conditions = (bool, i32, u32, Option<Range>, Option<Range>);

/// An address and the length of its prefix.
type Range = (IpAddr, u32);

/// The number of combinations that are compared.
const MOST_COMPARED: usize = 10_000;

impl Matches {
    fn lint(&mut self, path: &str, conditions: Option<&DynamicMessage>, found: &mut Findings) {
        let mut ranges = |field| match conditions {
            Some(it) => ranges(path, it, field, found),
            None => vec![None],
        };
        let (to, from) = (ranges("prefix_ranges"), ranges("source_prefix_ranges"));
        let kind = conditions.and_then(|it| value_in(it, "source_type")?.as_enum_number());
        let ports = conditions.map(|it| list_in(it, "source_ports")).unwrap_or_default();
        let mut ports: Vec<_> = ports.iter().filter_map(Value::as_u32).collect();
        if ports.is_empty() {
            ports.push(0);
        }
        let is_raw = conditions.is_some_and(|it| !text_in(it, "transport_protocol").is_empty());
        let (mut again, mut twice) = ([false; 2], [false; 2]);
        let mut own = [BTreeSet::new(), BTreeSet::new()];
        for (to, from) in to.iter().flat_map(|to| from.iter().map(move |from| (*to, *from))) {
            for port in &ports {
                self.compared += 1;
                if self.compared > MOST_COMPARED {
                    return;
                }
                let kind = kind.unwrap_or_default();
                let written = (is_raw, kind, *port, to, from);
                let masked = (is_raw, kind, *port, to.map(masked), from.map(masked));
                for (at, key) in [written, masked].into_iter().enumerate() {
                    again[at] |= self.seen[at].contains(&key);
                    twice[at] |= !own[at].insert(key);
                }
            }
        }
        for (seen, own) in self.seen.iter_mut().zip(own) {
            seen.extend(own);
        }
        match twice {
            [true, _] => found.rejected(ALL, path, TWICE),
            [false, true] => found.rejected(GO.and(CORE).and(NODE), path, TWICE),
            [false, false] => {}
        }
        // grpc-js compares nothing of a chain that matches everything.
        let who = match again {
            [true, _] if conditions.is_none() => GO.and(CORE).and(JAVA),
            [true, _] => ALL,
            [false, true] => GO.and(CORE).and(NODE),
            [false, false] => return,
        };
        found.rejected(who, path, "another filter chain matches the same connections");
    }
}

/// The ranges in a field; one that is `None`, if there are none.
fn ranges(
    path: &str,
    conditions: &DynamicMessage,
    field: &str,
    found: &mut Findings,
) -> Vec<Option<Range>> {
    let mut ranges = Vec::new();
    for (at, range) in messages_in(conditions, field).enumerate() {
        let path = format!("{path}.{field}[{at}]");
        let length = message_in(range, "prefix_len").map_or(0, |it| number_in(it, "value"));
        let Ok(address) = text_in(range, "address_prefix").parse::<IpAddr>() else {
            found.rejected(ALL, path, "`address_prefix` must be an address");
            continue;
        };
        if length > if address.is_ipv4() { 32 } else { 128 } {
            found.rejected(GO, path, "`prefix_len` is longer than the address");
            continue;
        }
        if matches!(address, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
            found.rejected(GO.and(NODE), &path, "an IPv4 address must not be mapped into IPv6");
        }
        ranges.push(Some((address, length)));
    }
    if ranges.is_empty() {
        ranges.push(None);
    }
    ranges
}

/// The part of an address that its mask leaves.
fn masked((address, length): Range) -> Range {
    let masked = match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length.min(32)).unwrap_or_default();
            IpAddr::V4((ip.to_bits() & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or_default();
            IpAddr::V6((ip.to_bits() & mask).into())
        }
    };
    (masked, length)
}

fn lint_chain(path: &str, chain: &DynamicMessage, found: &mut Findings) {
    let list = format!("{path}.filters");
    let mut managers = Vec::new();
    let (mut names, mut others) = (BTreeMap::new(), false);
    for (at, filter) in messages_in(chain, "filters").enumerate() {
        let path = format!("{list}[{at}]");
        let name = text_in(filter, "name");
        if name.is_empty() {
            found.rejected(GO, format!("{path}.name"), "a filter must have a name");
        } else if names.insert(name, at).is_some() {
            found.rejected(GO, format!("{path}.name"), "another filter has the same name");
        }
        let config = message_in(filter, "typed_config");
        match config.filter(|config| type_in(config).ends_with(MANAGER)) {
            Some(config) => managers.push((format!("{path}.typed_config"), config)),
            None => others = true,
        }
    }
    if others || managers.is_empty() {
        let why = "a server accepts one HTTP connection manager, and no other filter";
        found.rejected(ALL, &list, why);
    } else if managers.len() > 1 {
        found.rejected(
            CORE.and(JAVA).and(NODE),
            &list,
            "a server accepts one HTTP connection manager",
        );
    }
    for (path, config) in managers {
        if let Some(manager) = any::open(config) {
            lint_manager(&path, &manager, found);
        }
    }
    if let Some(socket) = message_in(chain, "transport_socket") {
        server_tls::lint(&format!("{path}.transport_socket"), socket, found);
    }
}

fn lint_manager(path: &str, manager: &DynamicMessage, found: &mut Findings) {
    listeners::lint_manager(path, manager, Side::Server, found);
    rbac::lint(path, manager, found);
    if let Some(config) = message_in(manager, "route_config") {
        routes::lint_of_server(&format!("{path}.route_config."), config, found);
    }
}

const TWICE: &str = "the same connections are matched twice";
const MANAGER: &str = ".v3.HttpConnectionManager";
