//! The ways to an ordinary target: a socket of its own, or the proxy that the environment names (gRFC A1).
//!
//! Not here: `xds:`, whose proxies are those of the control plane, and the environment itself (`environment_proxy`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::environment_proxy::ProxyVariables;
use super::ordinary_target;
use crate::connect::{HttpProxy, Via};

/// The endpoints of a channel without a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The addresses of a name of DNS.
    Name { host: String, port: u16 },
    /// These addresses.
    Addresses(Vec<SocketAddr>),
    /// One endpoint, which has this name and no address here.
    Endpoint(Arc<str>),
}

/// The endpoints of a target, with the ways to them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ways {
    pub(super) place: Place,
    pub(super) common: Via,
    /// The ways to addresses that have one of their own.
    pub(super) own: BTreeMap<SocketAddr, Via>,
}

impl Ways {
    /// Returns the ways to the endpoints of a target by the environment, or the reason why its proxy cannot be used.
    pub(super) fn of(
        target: ordinary_target::Place,
        variables: &ProxyVariables,
    ) -> Result<Self, String> {
        let mut own = BTreeMap::new();
        let (place, common) = match target {
            ordinary_target::Place::Socket(path) => Self::named(Via::Unix(path)),
            ordinary_target::Place::Name { host, port } => match variables.proxy_of(&host, port)? {
                // The proxy looks up the name, which may mean nothing here.
                Some(proxy) => {
                    let server = Some(format!("{host}:{port}"));
                    Self::named(Via::Environment(Arc::new(HttpProxy { server, ..proxy })))
                }
                None => (Place::Name { host, port }, Via::Tcp),
            },
            ordinary_target::Place::Addresses(addresses) => {
                for address in &addresses {
                    let proxy = variables.proxy_of(&address.ip().to_string(), address.port())?;
                    own.extend(proxy.map(|it| (*address, Via::Environment(Arc::new(it)))));
                }
                (Place::Addresses(addresses), Via::Tcp)
            }
        };
        Ok(Self { place, common, own })
    }

    fn named(via: Via) -> (Place, Via) {
        (Place::Endpoint(via.name().unwrap_or_default().into()), via)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::ordinary_target::OrdinaryTarget;

    fn ways(target: &str) -> Ways {
        let variables = ProxyVariables::read(|name| match name {
            "https_proxy" => Some("proxy.example:3128".to_owned()),
            "no_proxy" => Some("10.0.0.0/8,inner.example".to_owned()),
            _ => None,
        });
        Ways::of(OrdinaryTarget::read(target).unwrap().place, &variables).unwrap()
    }

    fn proxy(server: Option<&str>) -> Via {
        let (host, server) = ("proxy.example".to_owned(), server.map(str::to_owned));
        Via::Environment(Arc::new(HttpProxy { host, port: 3128, authorization: None, server }))
    }

    #[test]
    fn the_proxy_of_the_environment_looks_up_names() {
        // gRFC A1
        let found = ways("dns:///a.example:80");
        let name = "a.example:80 by way of proxy proxy.example:3128";
        assert_eq!(found.place, Place::Endpoint(name.into()));
        assert_eq!(found.common, proxy(Some("a.example:80")));
        let found = ways("https://b.inner.example");
        assert_eq!(found.place, Place::Name { host: "b.inner.example".to_owned(), port: 443 });
        assert_eq!((found.common, found.own), (Via::Tcp, BTreeMap::new()));
    }

    #[test]
    fn the_proxy_of_the_environment_is_asked_for_addresses() {
        // gRFC A1
        let found = ways("ipv4:192.0.2.1:80,10.0.0.1:80");
        assert_eq!(found.common, Via::Tcp);
        assert_eq!(found.own, [("192.0.2.1:80".parse().unwrap(), proxy(None))].into());
    }

    #[test]
    fn a_socket_of_unix_has_no_proxy() {
        let found = ways("unix:/a");
        assert_eq!(
            (found.place, found.common),
            (Place::Endpoint("unix:/a".into()), Via::Unix("/a".into()))
        );
        assert_eq!(ways("unix-abstract:a").place, Place::Endpoint("unix-abstract:a".into()));
    }
}
