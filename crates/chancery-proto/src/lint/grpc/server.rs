//! Listeners that xDS-enabled gRPC servers refuse
//! ([S-127](https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md)).
//!
//! A gRPC server asks for a listener by a name that contains its listening address, as in
//! `grpc/server?xds.resource.listening_address=0.0.0.0:8080`. So a listener with an address in its
//! name is taken for one of a server. Not here: its filter chains (`chains`).

use std::net::{IpAddr, SocketAddr};

use chancery_core::percent;
use prost_reflect::{DynamicMessage, Value};

use super::{ALL, CORE, Findings, GO, JAVA, NODE, chains};
use crate::walk::{list_in, message_in, text_in, value_in};

/// Returns true if this listener is for a gRPC server.
pub(in crate::lint) fn is_server(listener: &DynamicMessage) -> bool {
    address_in_name(listener).is_some()
}

/// Adds what is found in the listener of a server.
pub(super) fn lint(listener: &DynamicMessage, found: &mut Findings) {
    lint_address(listener, found);
    if message_in(listener, "api_listener").is_some() {
        // A server takes it, and does not serve.
        let why = "a server does not use a listener of clients, which has this";
        found.rejected(GO.and(CORE), "api_listener", why);
    }
    if !list_in(listener, "listener_filters").is_empty() {
        found.rejected(
            GO.and(JAVA).and(NODE),
            "listener_filters",
            "servers have no listener filters",
        );
    }
    if let Some(flag) = message_in(listener, "use_original_dst") {
        let is_set = value_in(flag, "value").and_then(Value::as_bool) == Some(true);
        let who = if is_set { ALL } else { JAVA };
        found.rejected(who, "use_original_dst", "servers do not have this");
    }
    chains::lint(listener, found);
}

/// A server that listens elsewhere takes the listener and does not serve, or rejects it.
fn lint_address(listener: &DynamicMessage, found: &mut Findings) {
    let Some(expected) = address_in_name(listener) else { return };
    let own = own_address(listener);
    // gRPC Go and Java take any port for 0 (C-142).
    let is_any_port = own.is_some_and(|own| own.ip() == expected.ip() && own.port() == 0);
    if own != Some(expected) {
        let why = format!("a server accepts only the address of the name, `{expected}`");
        let who = if is_any_port { CORE.and(NODE) } else { ALL };
        found.rejected(who, "address", &why);
    }
    let socket = message_in(listener, "address").and_then(|it| message_in(it, "socket_address"));
    let protocol = socket.and_then(|it| value_in(it, "protocol")).and_then(Value::as_enum_number);
    if protocol.unwrap_or_default() != 0 {
        let why = "a server listens with TCP";
        found.rejected(CORE.and(JAVA), "address.socket_address.protocol", why);
    }
}

/// The address in the name of a listener. In an `xdstp:` name it is percent-encoded.
fn address_in_name(listener: &DynamicMessage) -> Option<SocketAddr> {
    let mut parts = text_in(listener, "name").split(['/', '?', '&', '=']);
    // A name that is not encoded may contain a `%` too, before the zone of an IPv6 address.
    parts.find_map(|part| percent::decode(part).as_deref().unwrap_or(part).parse().ok())
}

fn own_address(listener: &DynamicMessage) -> Option<SocketAddr> {
    let socket = message_in(message_in(listener, "address")?, "socket_address")?;
    let ip: IpAddr = text_in(socket, "address").parse().ok()?;
    let port = value_in(socket, "port_value").and_then(Value::as_u32).unwrap_or_default();
    Some(SocketAddr::new(ip, port.try_into().ok()?))
}
