//! The address of an endpoint on the wire, as load reports have it, and its text.
//!
//! Field numbers are those of `address.proto`; a test of load reports compares them with the descriptors. Not
//! here: addresses in resources, which are read by their descriptors.

use std::net::{IpAddr, Ipv6Addr};

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct WireAddress {
    #[prost(oneof = "WireAddressKind", tags = "1, 2, 3")]
    kind: Option<WireAddressKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum WireAddressKind {
    #[prost(message, tag = "1")]
    Socket(WireSocketAddress),
    #[prost(message, tag = "2")]
    Pipe(WirePipe),
    #[prost(message, tag = "3")]
    Internal(WireInternalAddress),
}

#[derive(Clone, PartialEq, Message)]
struct WireSocketAddress {
    #[prost(string, tag = "2")]
    address: String,
    #[prost(uint32, tag = "3")]
    port_value: u32,
}

#[derive(Clone, PartialEq, Message)]
struct WirePipe {
    #[prost(string, tag = "1")]
    path: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireInternalAddress {
    #[prost(string, tag = "1")]
    server_listener_name: String,
    #[prost(string, tag = "2")]
    endpoint_id: String,
}

impl WireAddress {
    /// The text of an address: `192.0.2.1:80`, `[2001:db8::1]:80`, `unix:/run/app.sock` or
    /// `internal:LISTENER/ENDPOINT`. `None` if there is no address in it.
    pub(super) fn text(&self) -> Option<String> {
        Some(match self.kind.as_ref()? {
            WireAddressKind::Socket(WireSocketAddress { address, port_value }) => {
                match address.parse::<Ipv6Addr>() {
                    Ok(ip) => format!("[{ip}]:{port_value}"),
                    Err(_) => format!("{address}:{port_value}"),
                }
            }
            WireAddressKind::Pipe(WirePipe { path }) => format!("{PIPE}{path}"),
            WireAddressKind::Internal(internal) => {
                format!("{INTERNAL}{}/{}", internal.server_listener_name, internal.endpoint_id)
            }
        })
    }

    /// The address that a text says.
    pub(super) fn of(text: &str) -> Self {
        let kind = if let Some(path) = text.strip_prefix(PIPE) {
            WireAddressKind::Pipe(WirePipe { path: path.to_owned() })
        } else if let Some(internal) = text.strip_prefix(INTERNAL) {
            let (name, id) = internal.split_once('/').unwrap_or((internal, ""));
            WireAddressKind::Internal(WireInternalAddress {
                server_listener_name: name.to_owned(),
                endpoint_id: id.to_owned(),
            })
        } else {
            let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let is_six = |host: &&str| matches!(host.parse(), Ok(IpAddr::V6(_)));
            WireAddressKind::Socket(WireSocketAddress {
                address: bare.filter(is_six).unwrap_or(host).to_owned(),
                port_value: port.parse().unwrap_or_default(),
            })
        };
        Self { kind: Some(kind) }
    }
}

/// The beginning of the text of a pipe.
const PIPE: &str = "unix:";
/// The beginning of the text of an internal listener.
const INTERNAL: &str = "internal:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_its_text_says() {
        for text in [
            "192.0.2.1:80",
            "[2001:db8::1]:443",
            "backend.test:1",
            "unix:/run/app.sock",
            "internal:inner/1",
        ] {
            assert_eq!(WireAddress::of(text).text().as_deref(), Some(text));
        }
        assert_eq!(WireAddress::default().text(), None);
    }
}
