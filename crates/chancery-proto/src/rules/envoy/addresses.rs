//! Addresses that must be those of IP: Envoy looks no name up for them.

use std::net::{Ipv4Addr, Ipv6Addr};

use prost_reflect::DynamicMessage;

use super::Below::{Field, Index};
use super::{Below, Checks, Found};
use crate::rules::name::RuleName;
use crate::walk::{message_in, messages_in, text_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.core.v3.BindConfig", bind_config),
    ("envoy.config.core.v3.CidrRange", cidr_range),
    ("envoy.config.endpoint.v3.ClusterLoadAssignment", load_assignment),
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
            let Some(endpoint) = message_in(endpoint, "endpoint") else { continue };
            let path = [
                Field("endpoints"),
                Index(locality),
                Field("lb_endpoints"),
                Index(at),
                Field("endpoint"),
            ];
            endpoint_addresses(&[below, path.as_slice()].concat(), endpoint, found);
        }
    }
}

fn endpoint_addresses(below: &[Below], endpoint: &DynamicMessage, found: &mut Found<'_>) {
    let mut look = |more: &[Below], address: Option<&DynamicMessage>| {
        if let Some(address) = address {
            self::address(&[below, more].concat(), address, NOT_RESOLVED, found);
        }
    };
    look(&[Field("address")], message_in(endpoint, "address"));
    let health = message_in(endpoint, "health_check_config");
    let health = health.and_then(|config| message_in(config, "address"));
    look(&[Field("health_check_config"), Field("address")], health);
    for (at, more) in messages_in(endpoint, "additional_addresses").enumerate() {
        let path = [Field("additional_addresses"), Index(at), Field("address")];
        look(&path, message_in(more, "address"));
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
fn is_ip(text: &str) -> bool {
    let without_zone = text.split_once('%').map_or(text, |(address, _)| address);
    text.parse::<Ipv4Addr>().is_ok() || without_zone.parse::<Ipv6Addr>().is_ok()
}

pub(super) const NOT_IP: &str = "must be an address of IP, as in `10.0.0.1` or `::1`";
const NOT_RESOLVED: &str = "must be an address of IP: names are looked up in clusters of the types \
                            `STRICT_DNS` and `LOGICAL_DNS` alone";
