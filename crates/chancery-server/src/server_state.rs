//! The state that all connections of a server share: the parts that the program gave it, and the
//! numbers of connections and streams.
//!
//! The parts are not replaced while the server runs, and the numbers are atomics. The only lock is
//! that of the log's limiter, for lines that are rare. Not here: the state of one connection (`connection`), and the snapshots and their watches
//! (`store`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use chancery_core::server::Settings;
use chancery_proto::schema::Schema;
use tokio::time::Instant;

use crate::config::Config;
use crate::event::{Observer, StreamEvent};
use crate::log_limiter::LogLimiter;
use crate::metrics::Metrics;
use crate::policy::{Peer, Policy};
use crate::store::Store;

/// The state that all connections of a server share.
pub(crate) struct ServerState {
    pub(crate) store: Arc<Store>,
    pub(crate) policy: Box<dyn Policy>,
    observers: Vec<Box<dyn Observer>>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) schema: Schema,
    pub(crate) connections: AtomicUsize,
    pub(crate) log_limiter: LogLimiter,
    trusted: Arc<Settings>,
    untrusted: Arc<Settings>,
    streams: AtomicUsize,
    last_stream: AtomicU64,
}

/// The parts that a program gives a server.
pub(crate) struct ServerParts {
    pub(crate) store: Arc<Store>,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) observers: Vec<Box<dyn Observer>>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) schema: Schema,
}

/// A permit for one stream, poll or call, given back when it is dropped.
pub(crate) struct StreamPermit(Arc<ServerState>);

impl ServerState {
    pub(crate) fn new(parts: ServerParts) -> Self {
        let ServerParts { store, policy, observers, config, metrics, schema } = parts;
        let untrusted = Settings { secrets_allowed: false, ..config.protocol.clone() };
        Self {
            trusted: Arc::new(config.protocol.clone()),
            untrusted: Arc::new(untrusted),
            store,
            policy,
            observers,
            config,
            metrics,
            schema,
            connections: AtomicUsize::new(0),
            log_limiter: LogLimiter::new(Instant::now()),
            streams: AtomicUsize::new(0),
            last_stream: AtomicU64::new(0),
        }
    }

    /// The settings for streams of `peer`: only peers that are known get secrets (S-137).
    pub(crate) fn settings(&self, peer: &Peer) -> Arc<Settings> {
        let allowed = self.config.secrets_anywhere || peer.is_trusted();
        Arc::clone(if allowed { &self.trusted } else { &self.untrusted })
    }

    /// Tells all observers of an event, in the order in which they were added.
    pub(crate) fn observe(&self, event: &StreamEvent<'_>) {
        self.observers.iter().for_each(|observer| observer.observe(event));
    }

    /// Returns true if somebody hears of events.
    pub(crate) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// A number that no other stream has.
    pub(crate) fn next_stream(&self) -> u64 {
        self.last_stream.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl StreamPermit {
    /// A permit, if one is left.
    pub(crate) fn take(shared: &Arc<ServerState>) -> Option<Self> {
        // The permit is made first, so that it is given back if there are too many.
        let permit = Self(Arc::clone(shared));
        let others = shared.streams.fetch_add(1, Ordering::AcqRel);
        if others < shared.config.limits.max_streams {
            return Some(permit);
        }
        shared.metrics.streams_refused.inc();
        None
    }

    pub(crate) fn shared(&self) -> &Arc<ServerState> {
        &self.0
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::OneAudience;

    fn shared(config: Config) -> ServerState {
        ServerState::new(ServerParts {
            store: Store::new(),
            policy: Box::new(OneAudience("all".into())),
            observers: Vec::new(),
            config,
            metrics: Metrics::default(),
            schema: Schema::bundled(),
        })
    }

    #[test]
    fn secrets_are_for_peers_that_are_known_unless_the_operator_says_otherwise() {
        // S-137
        let address = Some("192.0.2.1:1".parse().unwrap());
        let unknown = Peer { address, tls: true, certificates: Vec::new() };
        let known = Peer { certificates: vec![vec![1]], ..unknown };
        let usual = shared(Config::default());
        assert!(!usual.settings(&unknown).secrets_allowed);
        assert!(usual.settings(&known).secrets_allowed);
        let open = shared(Config { secrets_anywhere: true, ..Config::default() });
        assert!(open.settings(&unknown).secrets_allowed);
    }
}
