//! Addresses that must be those of IP: Envoy looks no name up for them.

use std::net::{Ipv4Addr, Ipv6Addr};

use prost_reflect::{DynamicMessage, Value};

use super::Below::{Field, Index};
use super::{Below, Checks, Found};
use crate::rules::name::RuleName;
use crate::walk::{list_in, message_in, messages_in, text_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.core.v3.BindConfig", bind_config),
    ("envoy.config.core.v3.CidrRange", cidr_range),
    ("envoy.config.endpoint.v3.ClusterLoadAssignment", load_assignment),
    ("envoy.config.endpoint.v3.ClusterLoadAssignment", assignment),
];

fn bind_config(config: &DynamicMessage, found: &mut Found<'_>) {
    if let Some(address) = message_in(config, "source_address") {
        socket_address(&[Field("source_address")], address, found);
    }
}

fn cidr_range(range: &DynamicMessage, found: &mut Found<'_>) {
    let prefix = text_in(range, "address_prefix");
    if !prefix.is_empty() && !is_ip(prefix) {
        found.says(&[Field("address_prefix")], RuleName::IP_ADDRESS, NOT_IP);
    }
}

/// A resource of EDS. The load assignment of a cluster is looked at with the cluster.
fn load_assignment(assignment: &DynamicMessage, found: &mut Found<'_>) {
    if found.is_resource {
        endpoints(&[], assignment, found);
    }
}

/// The endpoints of a load assignment whose addresses are not looked up.
pub(super) fn endpoints(below: &[Below], assignment: &DynamicMessage, found: &mut Found<'_>) {
    for (locality, message) in messages_in(assignment, "endpoints").enumerate() {
        for (at, endpoint) in messages_in(message, "lb_endpoints").enumerate() {
            let path = [Field("endpoints"), Index(locality), Field("lb_endpoints"), Index(at)];
            let Some(endpoint) = message_in(endpoint, "endpoint") else {
                found.says(&[below, &path].concat(), RuleName::ENDPOINT, "must have an `endpoint`");
                continue;
            };
            let path = [path.as_slice(), &[Field("endpoint")]].concat();
            if message_in(endpoint, "address").is_none() {
                let path = [below, path.as_slice(), &[Field("address")]].concat();
                found.says(&path, RuleName::ENDPOINT, "is required");
            }
            host(&[below, path.as_slice()].concat(), endpoint, found);
            endpoint_addresses(&[below, path.as_slice()].concat(), endpoint, found);
        }
    }
}

/// A host has its health checked at another port only if it is one of IP.
fn host(below: &[Below], endpoint: &DynamicMessage, found: &mut Found<'_>) {
    let Some(address) = message_in(endpoint, "address") else { return };
    let socket = message_in(address, "socket_address");
    let health = message_in(endpoint, "health_check_config");
    let port = health.and_then(|health| value_in(health, "port_value")).and_then(Value::as_u32);
    health_address(below, endpoint, found);
    if socket.is_none() && port.unwrap_or(0) > 0 {
        let below = [below, &[Field("health_check_config"), Field("port_value")]].concat();
        found.says(&below, RuleName::ENDPOINT, "must be left out: the address has no port");
    }
    if socket.is_some_and(|socket| !text_in(socket, "network_namespace_filepath").is_empty()) {
        let step = [Field("address"), Field("socket_address"), Field("network_namespace_filepath")];
        let below = [below, &step].concat();
        found.says(&below, RuleName::ENDPOINT, "must be left out: only listeners may have one");
    }
}

/// An address at which the health of a host is checked has a port, if one is set for it.
pub(super) fn health_address(below: &[Below], endpoint: &DynamicMessage, found: &mut Found<'_>) {
    let Some(health) = message_in(endpoint, "health_check_config") else { return };
    let port = value_in(health, "port_value").and_then(Value::as_u32).unwrap_or(0);
    let address = message_in(health, "address");
    if port > 0 && address.is_some_and(|it| message_in(it, "socket_address").is_none()) {
        let below = [below, &[Field("health_check_config"), Field("address")]].concat();
        let sentence =
            "must be a `socket_address` beside a `port_value`: Envoy ends on another one";
        found.says(&below, RuleName::ENDPOINT, sentence);
    }
}

/// Locality sets that come by themselves are for clusters whose endpoints come by EDS.
pub(super) fn no_leds(below: &[Below], assignment: &DynamicMessage, found: &mut Found<'_>) {
    for (at, locality) in messages_in(assignment, "endpoints").enumerate() {
        if message_in(locality, "leds_cluster_locality_config").is_some() {
            let step = [Field("endpoints"), Index(at), Field("leds_cluster_locality_config")];
            let sentence = "must be left out: it is for clusters of the type `EDS`";
            found.says(&[below, &step].concat(), RuleName::ENDPOINT, sentence);
        }
    }
}

/// Envoy refuses this in load assignments of all clusters.
fn assignment(assignment: &DynamicMessage, found: &mut Found<'_>) {
    let drops =
        message_in(assignment, "policy").map_or(0, |it| list_in(it, "drop_overloads").len());
    if drops > 1 {
        let below = [Field("policy"), Field("drop_overloads")];
        found.says(
            &below,
            RuleName::ENDPOINT,
            "must have one item at most: Envoy supports no more",
        );
    }
    for (at, locality) in messages_in(assignment, "endpoints").enumerate() {
        let below = [Field("endpoints"), Index(at), Field("leds_cluster_locality_config")];
        if message_in(locality, "leds_cluster_locality_config").is_none() {
            continue;
        }
        if found.is_resource && !list_in(locality, "lb_endpoints").is_empty() {
            found.says(
                &below,
                RuleName::ENDPOINT,
                "must be left out where there are `lb_endpoints`",
            );
        }
    }
}

fn endpoint_addresses(below: &[Below], endpoint: &DynamicMessage, found: &mut Found<'_>) {
    let look = |more: &[Below], address: Option<&DynamicMessage>, found: &mut Found<'_>| {
        if let Some(address) = address {
            self::address(&[below, more].concat(), address, NOT_RESOLVED, found);
        }
    };
    look(&[Field("address")], message_in(endpoint, "address"), found);
    let health = message_in(endpoint, "health_check_config");
    let health = health.and_then(|config| message_in(config, "address"));
    look(&[Field("health_check_config"), Field("address")], health, found);
    for (at, more) in messages_in(endpoint, "additional_addresses").enumerate() {
        let path = [Field("additional_addresses"), Index(at), Field("address")];
        look(&path, message_in(more, "address"), found);
        if message_in(more, "address").is_none() {
            found.says(&[below, &path].concat(), RuleName::ENDPOINT, "is required");
        }
    }
}

/// An address of this message type: a socket address, a pipe or another kind.
pub(super) fn address(
    below: &[Below],
    address: &DynamicMessage,
    sentence: &'static str,
    found: &mut Found<'_>,
) {
    let Some(socket) = message_in(address, "socket_address") else { return };
    // Envoy's own resolver looks nothing up either. Others may.
    if !["", "envoy.ip"].contains(&text_in(socket, "resolver_name")) {
        return;
    }
    let name = text_in(socket, "address");
    let path = [below, &[Field("socket_address")]].concat();
    if !name.is_empty() && !is_ip(name) {
        let path = [path.as_slice(), &[Field("address")]].concat();
        found.says(&path, RuleName::IP_ADDRESS, sentence);
    } else if value_in(socket, "named_port").is_some() {
        let path = [path.as_slice(), &[Field("named_port")]].concat();
        found.says(&path, RuleName::IP_ADDRESS, "must be a `port_value`: Envoy looks no port up");
    }
}

fn socket_address(below: &[Below], socket: &DynamicMessage, found: &mut Found<'_>) {
    let name = text_in(socket, "address");
    if text_in(socket, "resolver_name").is_empty() && !name.is_empty() && !is_ip(name) {
        found.says(&[below, &[Field("address")]].concat(), RuleName::IP_ADDRESS, NOT_IP);
    }
}

/// Returns true for an address of IPv4, or of IPv6 with a zone or without.
pub(super) fn is_ip(text: &str) -> bool {
    let without_zone = text.split_once('%').map_or(text, |(address, _)| address);
    text.parse::<Ipv4Addr>().is_ok() || without_zone.parse::<Ipv6Addr>().is_ok()
}

pub(super) const NOT_IP: &str = "must be an address of IP, as in `10.0.0.1` or `::1`";
const NOT_RESOLVED: &str = "must be an address of IP: names are looked up in clusters of the types \
                            `STRICT_DNS` and `LOGICAL_DNS` alone";
