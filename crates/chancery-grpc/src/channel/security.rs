//! The settings of the connections of a channel: what the program chose, and what the control plane says of each
//! cluster if the program leaves it to that (C-121, C-125, C-126).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::credentials::{Credentials, Ordinary};
use crate::certificates::{Certificates, Provider};
use crate::connect::{ConnectionSettings, Keepalive, PeerNames, Security, Tls};
use crate::read::transport::{Roots, Transport, UpstreamTls};

/// The part of the settings that is the same for all clusters of a channel.
#[derive(Clone, Debug)]
pub(super) struct ChannelSecurity {
    ordinary: Arc<ConnectionSettings>,
    is_xds: bool,
    certificates: Certificates,
}

/// The settings of connections to the endpoints of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointSettings {
    common: Arc<ConnectionSettings>,
    /// Those for endpoints that are asked for by a name of their own.
    named: BTreeMap<SocketAddr, Arc<ConnectionSettings>>,
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
        let ordinary = Arc::new(ConnectionSettings { security, keepalive });
        Self { ordinary, is_xds: credentials.is_xds, certificates }
    }

    /// Returns the settings without a say of the control plane.
    pub(super) fn ordinary(&self) -> EndpointSettings {
        EndpointSettings { common: Arc::clone(&self.ordinary), named: BTreeMap::new() }
    }

    /// Returns the settings for a cluster, some endpoints of which have names.
    pub(super) fn of_cluster<'a>(
        &self,
        transport: &Transport,
        host: Option<&str>,
        hostnames: impl IntoIterator<Item = (SocketAddr, &'a str)>,
    ) -> EndpointSettings {
        let Some(tls) = transport.tls.as_ref().filter(|_| self.is_xds) else {
            return self.ordinary();
        };
        let settings = |hostname: Option<&str>| {
            let security = Security::Tls(Arc::new(self.tls(tls, hostname)));
            Arc::new(ConnectionSettings { security, keepalive: self.ordinary.keepalive })
        };
        let named = hostnames.into_iter().filter(|(_, name)| !name.is_empty());
        let named = named.filter(|_| tls.server_name.is_hostname);
        EndpointSettings {
            common: settings(host.filter(|_| tls.server_name.is_hostname)),
            named: named.map(|(address, name)| (address, settings(Some(name)))).collect(),
        }
    }

    /// Returns the TLS of a cluster, for an endpoint of this name.
    fn tls(&self, tls: &UpstreamTls, hostname: Option<&str>) -> Tls {
        let fixed = || tls.server_name.fixed.as_deref().map(Arc::from);
        let server_name = hostname.map(|name| Arc::from(host_of(name))).or_else(fixed);
        let names = match &server_name {
            Some(name) if tls.server_name.is_checked => PeerNames::Asked(Arc::clone(name)),
            _ => PeerNames::Listed(Arc::clone(&tls.names)),
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
        self.named.get(&address).unwrap_or(&self.common)
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

    use crate::read::transport::ServerName;

    use super::*;

    #[test]
    fn every_connection_of_a_channel_has_its_keepalive() {
        let keepalive = Some(Keepalive::after(Duration::from_secs(60)));
        let tls = UpstreamTls {
            roots: Roots::System,
            identity: None,
            names: Arc::default(),
            server_name: ServerName { is_hostname: true, ..ServerName::default() },
        };
        let transport = Transport { tls: Some(tls), is_proxied: false };
        for credentials in [Credentials::insecure(), Credentials::xds(Credentials::insecure())] {
            let certificates = Certificates::default();
            let security = ChannelSecurity::new(&credentials, certificates, "a:80", keepalive);
            let (named, other) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap());
            let settings = security.of_cluster(&transport, None, [(named, "b.example")]);
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
