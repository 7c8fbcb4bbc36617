//! The servers that a client may ask, the authorities they answer for, and the client's own waits.
//!
//! All of it is fixed when the client begins. Nothing a server says can add a server or an
//! authority (C-084), because there is no way to say it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::authority_key::AuthorityKey;
use super::ids::ServerId;
use super::token_bucket::RateLimit;
use crate::{Node, Scope, TypeUrl, Variant};

/// The identity of a server. Two servers of a bootstrap with the same are one, with one channel
/// (C-075).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerKey {
    /// Its address.
    pub uri: Arc<str>,
    /// The chosen channel credentials and their configuration, as text.
    pub credentials: Arc<str>,
    /// The known features of the server.
    pub features: ServerFeatures,
}

/// The `server_features` of a bootstrap that are known here (C-005).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerFeatures {
    /// A data error makes the client drop what it holds (C-070).
    pub fail_on_data_errors: bool,
    /// A resource that does not come in time is a transient error, not a missing one (C-066).
    pub resource_timer_is_transient_error: bool,
    /// The server may rewrite the authority of requests (C-105).
    pub trusted: bool,
}

/// The way a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// The server sends responses by itself.
    Stream {
        /// State of the world, or delta.
        variant: Variant,
        /// True if one stream carries all types (ADS); otherwise each has its own (C-042).
        aggregated: bool,
    },
    /// The source is polled (C-044). Each type is a stream of its own, on which each request is a
    /// whole question of state of the world.
    Poll {
        /// The time from a response to the next request.
        refresh: Duration,
    },
}

impl Protocol {
    /// Returns the form of its messages.
    pub fn variant(self) -> Variant {
        match self {
            Self::Stream { variant, .. } => variant,
            Self::Poll { .. } => Variant::Sotw,
        }
    }

    /// Returns true if the source is polled.
    pub fn is_polled(self) -> bool {
        matches!(self, Self::Poll { .. })
    }

    /// Returns the scope of the stream that carries a type.
    pub fn scope_of(self, type_url: &TypeUrl) -> Scope {
        match self {
            Self::Stream { aggregated: true, .. } => Scope::Aggregated,
            Self::Stream { aggregated: false, .. } | Self::Poll { .. } => {
                Scope::Only(type_url.clone())
            }
        }
    }
}

/// One server of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSetup {
    /// Its identity.
    pub key: ServerKey,
    /// The way it is spoken to.
    pub protocol: Protocol,
}

/// The servers of one authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthoritySetup {
    /// The servers, in the order of preference (C-087).
    pub servers: Vec<ServerId>,
    /// The reason to ask the next one.
    pub fallback: Fallback,
}

/// The reason for a client to turn to the next server of an authority (C-087, C-091).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// A server cannot be reached, and something is missing.
    #[default]
    Needed,
    /// A server cannot be reached.
    Reachability,
}

/// All a client knows before it asks anybody.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The node that the client says it is.
    pub node: Arc<Node>,
    servers: Vec<ServerSetup>,
    authorities: BTreeMap<AuthorityKey, AuthoritySetup>,
    /// Waits and limits.
    pub settings: Settings,
}

/// Waits and limits of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The time after which a resource that was asked for counts as missing (C-065). Nothing does
    /// if this is zero.
    pub missing_after: Duration,
    /// The same for servers whose timer is a transient error (C-066).
    pub timeout_after: Duration,
    /// The bound on the requests of a stream (C-045). By default there is none.
    pub rate_limit: Option<RateLimit>,
    /// The longest time that a stream waits for watchers to apply what came on it (C-038).
    pub patience: Duration,
    /// The time for which a stream that nobody needs is kept (C-039).
    pub idle: Duration,
    /// The wait after the first failure of a stream.
    pub backoff: Duration,
    /// The factor between a wait and the next.
    pub backoff_factor: f64,
    /// The longest wait (C-069).
    pub backoff_max: Duration,
    /// The part of a wait that is left to chance, between 0 and 1.
    pub jitter: f64,
    /// The seed of chance: two clients with different seeds do not retry in step.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            missing_after: Duration::from_secs(15),
            timeout_after: Duration::from_secs(30),
            rate_limit: None,
            patience: Duration::from_secs(5),
            idle: Duration::from_secs(5 * 60),
            backoff: Duration::from_secs(1),
            backoff_factor: 1.6,
            backoff_max: Duration::from_secs(120),
            jitter: 0.2,
            seed: 0,
        }
    }
}

impl Settings {
    /// Returns the time after which a resource that was asked for counts as missing, or as late
    /// where the server's timer is a transient error (C-065, C-066).
    pub(super) fn resource_timeout(&self, features: ServerFeatures) -> Duration {
        let timeout = if features.resource_timer_is_transient_error {
            self.timeout_after
        } else {
            self.missing_after
        };
        if timeout.is_zero() { Duration::MAX } else { timeout }
    }
}

impl Setup {
    /// Returns the setup of a client that may ask nobody yet.
    pub fn new(node: Arc<Node>, settings: Settings) -> Self {
        Self { node, servers: Vec::new(), authorities: BTreeMap::new(), settings }
    }

    /// Adds a server, unless it is there already (C-075, C-076).
    pub fn server(&mut self, key: ServerKey, protocol: Protocol) -> ServerId {
        let known =
            self.servers.iter().position(|known| known.key == key && known.protocol == protocol);
        ServerId::new(known.unwrap_or_else(|| {
            self.servers.push(ServerSetup { key, protocol });
            self.servers.len() - 1
        }))
    }

    /// Says who answers for an authority. Servers of another setup are left out, so that the
    /// machine of this one knows every id that it meets.
    pub fn authority(
        &mut self,
        authority: AuthorityKey,
        mut servers: Vec<ServerId>,
        fallback: Fallback,
    ) {
        servers.retain(|server| self.find(*server).is_some());
        self.authorities.insert(authority, AuthoritySetup { servers, fallback });
    }

    /// Returns all servers, in the order they were added.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = (ServerId, &ServerSetup)> {
        self.servers.iter().enumerate().map(|(place, server)| (ServerId::new(place), server))
    }

    /// Returns one server; `None` for an id of another setup.
    pub fn find(&self, server: ServerId) -> Option<&ServerSetup> {
        self.servers.get(server.index())
    }

    /// Returns the features of a server.
    pub(super) fn features(&self, server: ServerId) -> ServerFeatures {
        self.find(server).map(|server| server.key.features).unwrap_or_default()
    }

    /// Returns the URI of a server.
    pub(super) fn uri(&self, server: ServerId) -> &str {
        self.find(server).map_or("", |server| &server.key.uri)
    }

    /// Returns all authorities and their servers.
    pub fn authorities(&self) -> &BTreeMap<AuthorityKey, AuthoritySetup> {
        &self.authorities
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(setup: &mut Setup, uri: &str) -> ServerId {
        let features = ServerFeatures::default();
        let key = ServerKey { uri: uri.into(), credentials: "insecure".into(), features };
        setup.server(key, Protocol::Stream { variant: Variant::Sotw, aggregated: true })
    }

    /// C-084: no id leads to a server that there is not.
    #[test]
    fn an_authority_has_no_servers_of_another_setup() {
        let mut other = Setup::new(Arc::default(), Settings::default());
        let foreign = ["a", "b"].map(|uri| server(&mut other, uri))[1];
        let mut setup = Setup::new(Arc::default(), Settings::default());
        let own = server(&mut setup, "a");
        setup.authority(AuthorityKey::Old, vec![foreign, own], Fallback::Needed);
        assert_eq!(setup.authorities()[&AuthorityKey::Old].servers, [own]);
    }
}
