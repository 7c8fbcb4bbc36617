//! Listeners that xDS-enabled gRPC servers refuse
//! ([S-127](https://github.com/grpc/proposal/blob/master/A36-xds-for-servers.md)).
//!
//! A gRPC server asks for a listener by a name that contains its listening address, as in
//! `grpc/server?xds.resource.listening_address=0.0.0.0:8080`. So a listener with an address in its
//! name is taken for one of a server.

use std::net::{IpAddr, SocketAddr};

use chancery_core::percent;
use prost_reflect::{DynamicMessage, Value};

use super::{ALL, Findings};
use crate::any;
use crate::walk::{list_in, message_in, messages_in, text_in, value_in};

/// Returns true if this listener is for a gRPC server.
pub(in crate::lint) fn is_server(listener: &DynamicMessage) -> bool {
    address_in_name(listener).is_some()
}

/// Adds the warnings about the listener of a server.
pub(super) fn lint(listener: &DynamicMessage, found: &mut Findings) {
    if let Some(expected) = address_in_name(listener)
        && own_address(listener) != Some(expected)
    {
        let why = format!("a server accepts only the address of the name, `{expected}`");
        found.rejected(ALL, "address", &why);
    }
    if !list_in(listener, "listener_filters").is_empty() {
        found.rejected(ALL, "listener_filters", "servers have no listener filters");
    }
    let original_dst = message_in(listener, "use_original_dst");
    if original_dst.is_some_and(|flag| value_in(flag, "value") == Some(&Value::Bool(true))) {
        found.rejected(ALL, "use_original_dst", "servers do not have this");
    }
    lint_chains(listener, found);
}

fn lint_chains(listener: &DynamicMessage, found: &mut Findings) {
    let chains = messages_in(listener, "filter_chains").enumerate();
    let chains = chains.map(|(at, chain)| (format!("filter_chains[{at}]"), chain));
    let last = message_in(listener, "default_filter_chain");
    let last = last.map(|chain| ("default_filter_chain".to_owned(), chain));
    let mut none = true;
    for (path, chain) in chains.chain(last) {
        none = false;
        let managers: Vec<_> = messages_in(chain, "filters").map(is_connection_manager).collect();
        let count = managers.iter().filter(|is| **is).count();
        if count != 1 || managers.last() != Some(&true) {
            let why = "a server accepts one HTTP connection manager, last in the chain";
            found.rejected(ALL, format!("{path}.filters"), why);
        }
    }
    if none {
        found.rejected(ALL, "filter_chains", "a server needs at least one");
    }
}

fn is_connection_manager(filter: &DynamicMessage) -> bool {
    let type_url = message_in(filter, "typed_config").and_then(any::type_url);
    type_url.is_some_and(|type_url| type_url.ends_with(".v3.HttpConnectionManager"))
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
