//! Addresses and ranges of addresses, which several resources have.

use std::net::{IpAddr, SocketAddr};

use chancery_calls::matching::AddressRange;
use core::socket_address::{PortSpecifier, Protocol};
use envoy_types::pb::envoy::config::core::v3 as core;

use super::fault::{At, Fault};
use super::quoted;

/// Reads a range of addresses.
pub(super) fn address_range(range: &core::CidrRange) -> Result<AddressRange, Fault> {
    let prefix = ip(&range.address_prefix).at("address_prefix")?;
    Ok(AddressRange::new(prefix, range.prefix_len.as_ref().map_or(0, |bits| bits.value)))
}

/// Reads the address that a server listens at.
pub(super) fn listening(address: &core::Address) -> Result<SocketAddr, Fault> {
    let Some(core::address::Address::SocketAddress(socket)) = &address.address else {
        return Err("it must be set, because a server listens at no other kind")
            .at("socket_address");
    };
    socket_address(socket).at("socket_address")
}

fn socket_address(socket: &core::SocketAddress) -> Result<SocketAddr, Fault> {
    if socket.protocol != i32::from(Protocol::Tcp) {
        return Err("it must be `TCP`").at("protocol");
    }
    let ip = ip(&socket.address).at("address")?;
    let Some(PortSpecifier::PortValue(port)) = socket.port_specifier else {
        return Err("it must be set").at("port_value");
    };
    Ok(SocketAddr::new(ip, self::port(port).at("port_value")?))
}

/// Reads a port.
pub(super) fn port(port: u32) -> Result<u16, Fault> {
    u16::try_from(port).map_err(|_| format!("`{port}` is no port").into())
}

fn ip(text: &str) -> Result<IpAddr, Fault> {
    text.parse().map_err(|_| format!("`{}` is no IP address", quoted(text)).into())
}
