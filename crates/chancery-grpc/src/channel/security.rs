//! The settings of the connections of a channel: what the program chose, and what the control plane says of each
//! cluster (C-121, C-125, C-126, C-128).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::warn;

use super::credentials::{Credentials, Ordinary};
use crate::certificates::{Certificates, Provider};
use crate::connect::{ConnectionSettings, Keepalive, PeerNames, Security, Tls, Via};
use crate::read::transport::{Roots, Transport, UpstreamTls};

/// The part of the settings that is the same for all clusters of a channel.
#[derive(Debug)]
pub(super) struct ChannelSecurity {
    ordinary: Arc<ConnectionSettings>,
    is_xds: bool,
    certificates: Certificates,
    has_warned: AtomicBool,
}

/// The settings of connections to the endpoints of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointSettings {
    common: Arc<ConnectionSettings>,
    /// Those for endpoints that are asked for by a name of their own, or by way of a proxy.
    own: BTreeMap<SocketAddr, Arc<ConnectionSettings>>,
}

/// An address of an endpoint, as far as its connection depends on the endpoint.
pub(super) struct OneEndpoint<'a> {
    pub(super) address: SocketAddr,
    /// Its name, or nothing.
    pub(super) hostname: &'a str,
    pub(super) proxy: Option<SocketAddr>,
}

impl ChannelSecurity {
    /// With the authority of the channel, which says the host that ordinary TLS checks.
    pub(super) fn new(
        credentials: &Credentials,
        certificates: Certificates,
        authority: &str,
        keepalive: Option<Keepalive>,
    ) -> Self {
        let security = match &credentials.ordinary {
            Ordinary::Insecure => Security::Plain,
            Ordinary::Tls(files) => {
                let host: Arc<str> = host_of(authority).into();
                let provider = Provider::of_client(files);
                Security::Tls(Arc::new(Tls {
                    identity: files.identity.is_some().then(|| provider.clone()),
                    trust: provider,
                    names: PeerNames::Host(Arc::clone(&host)),
                    server_name: Some(host),
                }))
            }
        };
        let ordinary = Arc::new(ConnectionSettings { security, via: Via::Tcp, keepalive });
        let has_warned = AtomicBool::new(false);
        Self { ordinary, is_xds: credentials.is_xds, certificates, has_warned }
    }

    /// Returns the settings without a say of the control plane, by the ways of all endpoints and of some addresses.
    pub(super) fn ordinary(&self, common: Via, own: BTreeMap<SocketAddr, Via>) -> EndpointSettings {
        let by = |via| Arc::new(ConnectionSettings { via, ..(*self.ordinary).clone() });
        let own = own.into_iter().map(|(address, via)| (address, by(via))).collect();
        EndpointSettings { common: by(common), own }
    }

    /// Returns the settings for a cluster. Its host is that of all its endpoints; some may have settings of their
    /// own.
    pub(super) fn of_cluster<'a>(
        &self,
        transport: &Transport,
        host: Option<&str>,
        endpoints: impl IntoIterator<Item = OneEndpoint<'a>>,
    ) -> EndpointSettings {
        let tls = transport.tls.as_ref().filter(|_| self.is_xds);
        if tls.is_none() && transport.tls.is_some() {
            self.warn_once();
        }
        let has_names = tls.is_some_and(|tls| tls.server_name.is_hostname);
        let settings = |hostname: Option<&str>, proxy: Option<SocketAddr>| {
            let security = match tls {
                Some(tls) => Security::Tls(Arc::new(self.tls(tls, hostname))),
                None => self.ordinary.security.clone(),
            };
            let keepalive = self.ordinary.keepalive;
            let via = proxy.map_or(Via::Tcp, Via::Proxy);
            Arc::new(ConnectionSettings { security, keepalive, via })
        };
        let common = settings(host.filter(|_| has_names), None);
        // Most clusters have the same for all, and then nobody looks at each.
        let most = if has_names || transport.is_proxied { usize::MAX } else { 0 };
        let own = endpoints.into_iter().take(most).filter_map(|endpoint| {
            let hostname = Some(endpoint.hostname).filter(|name| has_names && !name.is_empty());
            // A program that did not choose xDS has the proxies of the control plane too (gRFC A86).
            let proxy = endpoint.proxy.filter(|_| transport.is_proxied);
            let has_own = hostname.is_some() || proxy.is_some();
            has_own.then(|| (endpoint.address, settings(hostname, proxy)))
        });
        EndpointSettings { own: own.collect(), common }
    }

    /// Says that calls go in the clear although a cluster asks for TLS: the program chose so, and may not know
    /// it any more.
    fn warn_once(&self) {
        let is_plain = self.ordinary.security == Security::Plain;
        if is_plain && !self.has_warned.swap(true, Ordering::Relaxed) {
            warn!(
                "the control plane asks for TLS to a cluster, and the channel goes in the clear, because its \
                 credentials are `insecure`"
            );
        }
    }

    /// Returns the TLS of a cluster, for an endpoint of this name.
    fn tls(&self, tls: &UpstreamTls, hostname: Option<&str>) -> Tls {
        let fixed = || tls.server_name.fixed.as_deref().map(Arc::from);
        let server_name = hostname.map(|name| Arc::from(host_of(name))).or_else(fixed);
        let names = match &server_name {
            Some(name) if tls.server_name.is_checked => PeerNames::Asked(Arc::clone(name)),
            _ => PeerNames::Listed(tls.names.clone()),
        };
        let trust = match &tls.roots {
            Roots::System => Provider::of_system(),
            Roots::Provider(provider) => self.certificates.provider(&provider.instance),
        };
        let identity = tls.identity.as_ref();
        let identity = identity.map(|it| self.certificates.provider(&it.instance));
        Tls { trust, identity, names, server_name }
    }
}

impl EndpointSettings {
    /// Returns the settings of a connection to this address.
    pub(super) fn of(&self, address: SocketAddr) -> &Arc<ConnectionSettings> {
        self.own.get(&address).unwrap_or(&self.common)
    }
}

/// Returns an authority without its port, and an IPv6 address without its brackets.
fn host_of(authority: &str) -> &str {
    if let Some((address, _)) = authority.strip_prefix('[').and_then(|it| it.split_once(']')) {
        return address;
    }
    match authority.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::read::listed_names::ListedNames;
    use crate::read::transport::ServerName;

    use super::*;

    #[test]
    fn every_connection_of_a_channel_has_its_keepalive() {
        let keepalive = Some(Keepalive::after(Duration::from_secs(60)));
        let tls = UpstreamTls {
            roots: Roots::System,
            identity: None,
            names: ListedNames::default(),
            server_name: ServerName { is_hostname: true, ..ServerName::default() },
        };
        let transport = Transport { tls: Some(tls), is_proxied: false };
        for credentials in [Credentials::insecure(), Credentials::xds(Credentials::insecure())] {
            let certificates = Certificates::default();
            let security = ChannelSecurity::new(&credentials, certificates, "a:80", keepalive);
            let (named, other) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap());
            let endpoint = OneEndpoint { address: named, hostname: "b.example", proxy: None };
            let settings = security.of_cluster(&transport, None, [endpoint]);
            for settings in [settings.of(named), settings.of(other), &security.ordinary] {
                assert_eq!(settings.keepalive, keepalive);
            }
            let is_plain = settings.of(named).security == Security::Plain;
            assert_eq!(is_plain, !credentials.is_xds);
        }
    }

    #[test]
    fn a_host_has_no_port() {
        for (authority, host) in [
            ("a.example", "a.example"),
            ("a.example:80", "a.example"),
            ("10.0.0.1:80", "10.0.0.1"),
            ("[::1]:80", "::1"),
            ("[::1]", "::1"),
            ("::1", "::1"),
        ] {
            assert_eq!(host_of(authority), host);
        }
    }
}
