//! The state that all connections of a server share: the parts that the program gave it, and what
//! follows from them.
//!
//! The parts are not replaced while the server runs. Not here: the state of one connection
//! (`connection`), the snapshots and their watches (`store`), what clients hold (`budget`), and which
//! lines are logged (`log_limiter`).

use std::sync::Arc;

use chancery_core::server::Settings;
use chancery_proto::schema::Schema;
use tokio::time::Instant;

use crate::budget::{Budget, MemoryCharge, MemoryShortage, PeerShare, Permit, ValuesPermit};
use crate::config::Config;
use crate::csds::Csds;
use crate::event::{Observer, StreamEvent};
use crate::load_reports::LoadReports;
use crate::log_limiter::LogLimiter;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::policy::{Peer, Policy, Refusal};
use crate::slice::cores;
use crate::status::Book;
use crate::store::{AudienceName, Store};
use crate::work_threads::WorkThreads;

/// The state that all connections of a server share.
pub(crate) struct ServerState {
    pub(crate) store: Arc<Store>,
    pub(crate) policy: Box<dyn Policy>,
    observers: Vec<Box<dyn Observer>>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) schema: Schema,
    /// The book of load reports, if they are taken.
    pub(crate) load_reports: Option<LoadReports>,
    /// The answers to questions for the status of clients, if there are any.
    pub(crate) csds: Option<Csds>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) work_threads: WorkThreads,
    /// A place for each worker, for connections that have to take turns.
    pub(crate) worker_places: Places,
    pub(crate) log_limiter: LogLimiter,
    trusted: Arc<Settings>,
    untrusted: Arc<Settings>,
}

/// The parts that a program gives a server.
pub(crate) struct ServerParts {
    pub(crate) store: Arc<Store>,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) observers: Vec<Box<dyn Observer>>,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    pub(crate) schema: Schema,
    pub(crate) load_reports: Option<LoadReports>,
    pub(crate) csds: Option<Csds>,
}

/// A permit for one stream, poll or call, given back when it is dropped.
pub(crate) struct StreamPermit {
    shared: Arc<ServerState>,
    permit: Permit,
}

impl ServerState {
    pub(crate) fn new(parts: ServerParts) -> Self {
        let ServerParts { store, policy, observers, config, metrics, schema, load_reports, csds } =
            parts;
        let untrusted = Settings { secrets_allowed: false, ..config.protocol.clone() };
        Self {
            trusted: Arc::new(config.protocol.clone()),
            untrusted: Arc::new(untrusted),
            budget: Budget::new(&config.limits),
            work_threads: WorkThreads::new(),
            worker_places: Places::new(cores()),
            store,
            policy,
            observers,
            config,
            metrics,
            schema,
            load_reports,
            csds,
            log_limiter: LogLimiter::new(Instant::now()),
        }
    }

    /// Charges a peer for `bytes`.
    ///
    /// # Errors
    /// When the peer cannot have them, which is counted.
    pub(crate) fn charge(
        &self,
        share: &Arc<PeerShare>,
        bytes: usize,
    ) -> Result<MemoryCharge, MemoryShortage> {
        self.metrics.counted(MemoryCharge::new(share, bytes))
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

    /// The book of the streams.
    pub(crate) fn book(&self) -> &Book {
        &self.store.status.0
    }

    /// A number that no other stream has.
    pub(crate) fn next_stream(&self) -> u64 {
        self.book().next_stream()
    }
}

impl StreamPermit {
    /// A permit, if one is left for this peer.
    pub(crate) fn take(shared: &Arc<ServerState>, share: &Arc<PeerShare>) -> Option<Self> {
        let permit = share.stream().inspect_err(|_| {
            shared.metrics.streams_refused.inc();
        });
        Some(Self { shared: Arc::clone(shared), permit: permit.ok()? })
    }

    pub(crate) fn shared(&self) -> &Arc<ServerState> {
        &self.shared
    }

    /// The share of the peer that has it.
    pub(crate) fn share(&self) -> &Arc<PeerShare> {
        self.permit.share()
    }
}

/// A permit for the values of an audience, if it has any.
///
/// # Errors
/// If the peer holds too many others.
pub(crate) fn permit_values(
    share: &Arc<PeerShare>,
    audience: &AudienceName,
) -> Result<Option<ValuesPermit>, Refusal> {
    let Some(values) = audience.values() else { return Ok(None) };
    let permit = ValuesPermit::take(share, values.number());
    permit.map(Some).ok_or_else(|| {
        let why = "the nodes of this client state more different sets of values than are left for others: a larger \
                   `limits.max-node-values` would let in more";
        Refusal::Full(why.to_owned())
    })
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
            load_reports: None,
            csds: None,
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
