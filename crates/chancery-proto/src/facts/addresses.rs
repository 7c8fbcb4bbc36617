//! The addresses that a listener has for itself, and the key of a scope.
//!
//! Envoy 1.40 refuses a listener with an address of another one: the same IP address, port and
//! protocol, or the same path. `0.0.0.0` is another address than `127.0.0.1`, and port 0 stands for
//! any free port, unless the listener binds to none. A scope is refused with the key of another one.
//! Not here: listeners of gRPC, of which each
//! server and channel asks for one, and internal listeners, whose address is their name.

use std::net::IpAddr;

use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, Value};

use super::is_v2;
use crate::lint::is_only_for_grpc;
use crate::walk::{message_in, messages_in, text_in, value_in};

/// The addresses of a listener, or the key of a scope, that others must not have; none for any other resource.
pub(crate) fn of_resource(type_url: &TypeUrl, listener: &DynamicMessage) -> Vec<Box<str>> {
    if type_url.api() == Api::Srds && !is_v2(type_url) {
        return scope_key(listener).into_iter().collect();
    }
    let is_listener = type_url.api() == Api::Lds && !is_v2(type_url);
    if !is_listener || is_only_for_grpc(type_url, listener) {
        return Vec::new();
    }
    let binds = binds(listener);
    let additional = messages_in(listener, "additional_addresses");
    let additional = additional.filter_map(|it| message_in(it, "address"));
    let all = message_in(listener, "address").into_iter().chain(additional);
    let mut found: Vec<Box<str>> = all.filter_map(|address| text_of(address, binds)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The fragments of the key of a scope, each quoted, so that two never look like one.
fn scope_key(scope: &DynamicMessage) -> Option<Box<str>> {
    let fragments = messages_in(message_in(scope, "key")?, "fragments");
    let fragments = fragments.map(|it| format!("{:?}", text_in(it, "string_key")));
    Some(fragments.collect::<Vec<_>>().join(", ").into())
}

/// Returns true if a listener opens a socket.
fn binds(listener: &DynamicMessage) -> bool {
    let flag = |message| {
        let flag = message_in(message, "bind_to_port")?;
        Some(value_in(flag, "value").and_then(Value::as_bool).unwrap_or_default())
    };
    let old = || message_in(listener, "deprecated_v1").and_then(flag);
    flag(listener).or_else(old).unwrap_or(true)
}

/// The address in a form in which equal ones are equal texts.
fn text_of(address: &DynamicMessage, binds: bool) -> Option<Box<str>> {
    if let Some(pipe) = message_in(address, "pipe") {
        return Some(format!("unix:{}", text_in(pipe, "path")).into());
    }
    let socket = message_in(address, "socket_address")?;
    let number = |field| value_in(socket, field);
    let port = number("port_value").and_then(Value::as_u32).unwrap_or_default();
    if port == 0 && binds {
        return None;
    }
    let ip: IpAddr = text_in(socket, "address").parse().ok()?;
    let udp = number("protocol").and_then(Value::as_enum_number).unwrap_or_default();
    let udp = if udp == UDP { " (UDP)" } else { "" };
    let namespace = match text_in(socket, "network_namespace_filepath") {
        "" => String::new(),
        path => format!(" in {path}"),
    };
    Some(
        format!("{}{udp}{namespace}", std::net::SocketAddr::new(ip, u16::try_from(port).ok()?))
            .into(),
    )
}

const UDP: i32 = 1;
