//! Metrics, in the caller's registry (S-140).
//!
//! A type is labelled by its short name, and an unknown one by `other`, so that no client can make
//! new series.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chancery_core::server::load::{LeftOut, LoadCounts};
use chancery_core::{Api, TypeUrl, Variant};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::budget::{Budget, MemoryShortage};
use crate::status::{Book, NodeCounter, NodeKey, RejectedResources};
use crate::store::Store;

/// The reason of a refusal because of a secret.
pub(crate) const SECRET: &str = "secret";

/// The metrics of a server. Clones count into the same series.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
    handshakes_failed: Family<ReasonLabels, Counter>,
    pub(crate) streams: Family<StreamLabels, Gauge>,
    pub(crate) streams_opened: Family<StreamLabels, Counter>,
    pub(crate) streams_refused: Counter,
    /// The counters of each type, out of the families below.
    by_type: Arc<Mutex<HashMap<TypeLabels, Arc<TypeCounters>>>>,
    clients_refused: Family<ReasonLabels, Counter>,
    pub(crate) cut_off: Family<ReasonLabels, Counter>,
    pub(crate) memory_held: Gauge,
    pub(crate) memory_limit: Gauge,
    pub(crate) peers: Gauge,
    pub(crate) responses: Family<TypeLabels, Counter>,
    pub(crate) response_bytes: Family<TypeLabels, Counter>,
    pub(crate) acks: Family<TypeLabels, Counter>,
    pub(crate) nacks: Family<TypeLabels, Counter>,
    pub(crate) skipped: Family<TypeLabels, Counter>,
    pub(crate) stale: Family<TypeLabels, Counter>,
    pub(crate) ack_latency: Family<TypeLabels, Histogram, fn() -> Histogram>,
    pub(crate) first_answer: Family<TypeLabels, Histogram, fn() -> Histogram>,
    pub(crate) commit_to_ack: Family<TypeLabels, Histogram, fn() -> Histogram>,
    pub(crate) polls: Family<PollLabels, Counter>,
    pub(crate) resources: Family<ResourceLabels, Gauge>,
    convergence: Histogram,
    oldest_load: Gauge<f64, AtomicU64>,
    nodes: Family<NodeLabels, Gauge>,
    /// The labels that nodes were last shown with.
    node_keys: Arc<Mutex<BTreeSet<NodeKey>>>,
    rejected_types: Gauge,
    rejected_resources: Family<ResourceLabels, Gauge>,
    pub(crate) load_streams: Gauge,
    pub(crate) load_reports: Counter,
    load_series: Gauge,
    load_calls: Family<OutcomeLabels, Counter>,
    load_left_out: Family<ReasonLabels, Counter>,
}

/// The outcome of calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// The labels of a stream: its variant and its service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StreamLabels {
    variant: &'static str,
    service: &'static str,
}

/// The labels of a type in one variant of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TypeLabels {
    variant: &'static str,
    r#type: &'static str,
}

/// The metrics that move at every response of a type and its acknowledgement, looked up once.
#[derive(Debug)]
pub(crate) struct TypeCounters {
    pub(crate) responses: Counter,
    pub(crate) response_bytes: Counter,
    pub(crate) acks: Counter,
    pub(crate) ack_latency: Histogram,
    pub(crate) commit_to_ack: Histogram,
}

/// The labels of a poll: its type and the HTTP status of the response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PollLabels {
    r#type: &'static str,
    status: u16,
}

/// The reason why something was ended or refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabels {
    reason: &'static str,
}

/// The state and the group of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabels {
    state: &'static str,
    group: String,
}

/// The label of a type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ResourceLabels {
    r#type: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            handshakes_failed: Family::default(),
            streams: Family::default(),
            streams_opened: Family::default(),
            streams_refused: Counter::default(),
            by_type: Arc::default(),
            clients_refused: Family::default(),
            cut_off: Family::default(),
            memory_held: Gauge::default(),
            memory_limit: Gauge::default(),
            peers: Gauge::default(),
            responses: Family::default(),
            response_bytes: Family::default(),
            acks: Family::default(),
            nacks: Family::default(),
            skipped: Family::default(),
            stale: Family::default(),
            ack_latency: Family::new_with_constructor(seconds),
            first_answer: Family::new_with_constructor(seconds),
            commit_to_ack: Family::new_with_constructor(seconds),
            polls: Family::default(),
            resources: Family::default(),
            convergence: seconds(),
            oldest_load: Gauge::default(),
            nodes: Family::default(),
            node_keys: Arc::default(),
            rejected_types: Gauge::default(),
            rejected_resources: Family::default(),
            load_streams: Gauge::default(),
            load_reports: Counter::default(),
            load_series: Gauge::default(),
            load_calls: Family::default(),
            load_left_out: Family::default(),
        }
    }
}

impl Metrics {
    /// Metrics that are read through `registry`, under names that start with `chancery_`.
    pub fn registered(registry: &mut Registry) -> Self {
        let it = Self::default();
        let registry = registry.sub_registry_with_prefix("chancery");
        it.register_streams(registry);
        it.register_budget(registry);
        it.register_exchanges(registry);
        it.register_status(registry);
        it.register_load(registry);
        it
    }

    fn register_streams(&self, to: &mut Registry) {
        to.register("connections", "Connections open", self.connections.clone());
        let refused = self.connections_refused.clone();
        to.register("connections_refused", "Connections closed over the limit", refused);
        let failed = self.handshakes_failed.clone();
        to.register("handshakes_failed", "TLS handshakes that failed or took too long", failed);
        to.register("streams", "Discovery streams open", self.streams.clone());
        to.register("streams_opened", "Discovery streams opened", self.streams_opened.clone());
        let refused = self.streams_refused.clone();
        to.register("streams_refused", "Streams and polls refused over the limit", refused);
        let refused = self.clients_refused.clone();
        to.register("clients_refused", "Refusals of clients, by reason", refused);
        let cut_off = self.cut_off.clone();
        to.register("cut_off", "Streams and connections ended to protect other clients", cut_off);
        to.register("polls", "Polls over REST answered", self.polls.clone());
        let resources = self.resources.clone();
        to.register("resources", "Resources in the snapshots of all groups", resources);
    }

    fn register_budget(&self, to: &mut Registry) {
        let held = self.memory_held.clone();
        to.register("memory_held_bytes", "Memory held for clients", held);
        let limit = self.memory_limit.clone();
        to.register("memory_limit_bytes", "Memory that may be held for clients", limit);
        to.register("peers", "Clients by certificate or address", self.peers.clone());
    }

    fn register_exchanges(&self, to: &mut Registry) {
        to.register("responses", "Responses sent", self.responses.clone());
        to.register("response_bytes", "Bytes of responses sent", self.response_bytes.clone());
        to.register("acks", "Responses accepted by clients", self.acks.clone());
        to.register("nacks", "Responses rejected by clients", self.nacks.clone());
        let skipped = self.skipped.clone();
        to.register("skipped", "Responses passed over by an answer to a later one", skipped);
        let stale = self.stale.clone();
        to.register("stale", "Requests with the nonce of no response under way", stale);
        let latency = self.ack_latency.clone();
        to.register("ack_latency_seconds", "From a response to its ACK", latency);
        let first = self.first_answer.clone();
        to.register(
            "first_answer_seconds",
            "From the first request of a type to a response",
            first,
        );
        let commit = self.commit_to_ack.clone();
        to.register(
            "commit_to_ack_seconds",
            "From a publication to the ACK of what it sent",
            commit,
        );
    }

    fn register_status(&self, to: &mut Registry) {
        let help = "From a load to the last ACK of it";
        to.register("convergence_seconds", help, self.convergence.clone());
        let help = "The age of the oldest load that has not landed";
        to.register("oldest_load_seconds", help, self.oldest_load.clone());
        to.register("nodes", "Nodes by state and group", self.nodes.clone());
        let help = "Types of streams with something rejected that was not changed since";
        to.register("rejected_types", help, self.rejected_types.clone());
        let help = "Resources that clients reject and that were not changed since";
        to.register("rejected_resources", help, self.rejected_resources.clone());
    }

    fn register_load(&self, to: &mut Registry) {
        to.register("load_streams", "Streams of load reports open", self.load_streams.clone());
        to.register("load_reports", "Load reports received", self.load_reports.clone());
        let help = "Clusters and localities with load reports";
        to.register("load_series", help, self.load_series.clone());
        let help = "Calls that clients report, all clusters together";
        to.register("load_calls", help, self.load_calls.clone());
        let help = "Parts of load reports that were not taken";
        to.register("load_left_out", help, self.load_left_out.clone());
    }

    /// Counts calls that a client reported.
    pub(crate) fn count_calls(&self, counts: &LoadCounts) {
        let LoadCounts { issued, succeeded, failed, dropped } = *counts;
        let all = [
            ("issued", issued),
            ("succeeded", succeeded),
            ("failed", failed),
            ("dropped", dropped),
        ];
        for (outcome, count) in all {
            self.load_calls.get_or_create(&OutcomeLabels { outcome }).inc_by(count);
        }
    }

    /// Counts the parts of a load report that were not taken.
    pub(crate) fn count_left_out(&self, left_out: &LeftOut) {
        let LeftOut { names, numbers, rows, memory } = *left_out;
        let all = [("names", names), ("numbers", numbers), ("rows", rows), ("memory", memory)];
        for (reason, count) in all.into_iter().filter(|(_, count)| *count > 0) {
            self.load_left_out.get_or_create(&ReasonLabels { reason }).inc_by(count);
        }
    }

    /// Shows the number of series.
    pub(crate) fn show_load(&self, (_, series): (usize, usize)) {
        self.load_series.set(i64::try_from(series).unwrap_or(i64::MAX));
    }

    /// The counters of a type in one variant of the protocol, which all its streams share.
    pub(crate) fn type_counters(&self, variant: Variant, type_url: &TypeUrl) -> Arc<TypeCounters> {
        let labels = TypeLabels::new(variant, type_url);
        let mut known = self.by_type.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = || {
            Arc::new(TypeCounters {
                responses: self.responses.get_or_create(&labels).clone(),
                response_bytes: self.response_bytes.get_or_create(&labels).clone(),
                acks: self.acks.get_or_create(&labels).clone(),
                ack_latency: self.ack_latency.get_or_create(&labels).clone(),
                commit_to_ack: self.commit_to_ack.get_or_create(&labels).clone(),
            })
        };
        Arc::clone(known.entry(labels.clone()).or_insert_with(counters))
    }

    /// Counts a handshake that failed for this reason.
    pub(crate) fn handshake_failed(&self, reason: &'static str) {
        self.handshakes_failed.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts a stream, poll or request that was refused because of its client.
    pub(crate) fn client_refused(&self, reason: &'static str) {
        self.clients_refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Counts a stream or connection that was ended because its client took nothing.
    pub(crate) fn stalled(&self) {
        self.cut_off.get_or_create(&ReasonLabels { reason: "stalled" }).inc();
    }

    /// Counts a stream or connection that was ended because other clients need its memory.
    pub(crate) fn asked_back(&self) {
        self.cut_off.get_or_create(&ReasonLabels { reason: "asked-back" }).inc();
    }

    /// Counts what was ended or refused because its client may hold no more memory.
    pub(crate) fn counted<T>(&self, held: Result<T, MemoryShortage>) -> Result<T, MemoryShortage> {
        held.inspect_err(|shortage| self.out_of_memory(*shortage))
    }

    /// Counts what was ended or refused for this reason.
    pub(crate) fn out_of_memory(&self, shortage: MemoryShortage) {
        let reason = match shortage {
            MemoryShortage::Share { .. } => "share",
            MemoryShortage::Whole => "memory",
        };
        self.cut_off.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Shows the memory that is held for clients.
    pub(crate) fn show_budget(&self, budget: &Budget) {
        let number = |it| i64::try_from(it).unwrap_or(i64::MAX);
        self.memory_held.set(number(budget.memory_held()));
        self.memory_limit.set(number(budget.memory_limit()));
        self.peers.set(number(budget.peers()));
    }

    /// Looks whether the last load has landed, and counts the times that loads took.
    pub(crate) fn show_landing(&self, book: &Book) {
        for after in book.converged() {
            self.convergence.observe(after.as_secs_f64());
        }
        let oldest = book.oldest_load().unwrap_or_default();
        self.oldest_load.set(oldest.as_secs_f64());
    }

    /// Counts the nodes anew. A group of which there are no nodes any more is not shown.
    pub(crate) fn count_nodes(&self, book: &Book) {
        let mut counter = NodeCounter::default();
        let gone = book.visit(Instant::now(), |stream| counter.see(&stream));
        gone.iter().for_each(|stream| counter.see_gone(stream));
        self.rejected_types.set(counter.rejected_types);
        let counts = counter.counts();
        let labels = |(state, group): &NodeKey| NodeLabels { state, group: group.clone() };
        let mut shown = self.node_keys.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in shown.iter().filter(|key| !counts.contains_key(*key)) {
            self.nodes.remove(&labels(gone));
        }
        for (key, count) in &counts {
            self.nodes.get_or_create(&labels(key)).set(*count);
        }
        *shown = counts.into_keys().collect();
    }

    /// Counts the resources anew that clients reject.
    pub(crate) fn count_rejected(&self, book: &Book) {
        let mut rejected = RejectedResources::default();
        book.visit_rejections(|rejection| rejected.see(label(&rejection.type_url), rejection));
        let counts = rejected.counts();
        for r#type in TypeUrl::known().map(|it| label(&it)).chain(["other"]) {
            let count = counts.get(r#type).copied().unwrap_or_default();
            self.rejected_resources.get_or_create(&ResourceLabels { r#type }).set(count);
        }
    }

    /// Counts a response over REST that has data.
    pub(crate) fn count_poll(&self, type_url: &TypeUrl, bytes: usize) {
        let labels = TypeLabels { variant: "rest", r#type: label(type_url) };
        self.responses.get_or_create(&labels).inc();
        self.response_bytes.get_or_create(&labels).inc_by(bytes as u64);
    }

    /// Counts the resources of all audiences anew.
    pub(crate) fn count_resources(&self, store: &Store) {
        let mut counts = std::collections::BTreeMap::<&'static str, usize>::new();
        for type_url in TypeUrl::known() {
            counts.insert(label(&type_url), 0);
        }
        for (_, snapshot) in store.snapshots() {
            for type_url in snapshot.types() {
                *counts.entry(label(type_url)).or_default() += snapshot.set(type_url).len();
            }
        }
        for (r#type, count) in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.resources.get_or_create(&ResourceLabels { r#type }).set(count);
        }
    }
}

impl StreamLabels {
    pub(crate) fn new(variant: Variant, type_url: Option<&TypeUrl>) -> Self {
        let service = type_url.map_or("ads", label);
        Self { variant: name_of(variant), service }
    }
}

impl TypeLabels {
    pub(crate) fn new(variant: Variant, type_url: &TypeUrl) -> Self {
        Self { variant: name_of(variant), r#type: label(type_url) }
    }
}

impl PollLabels {
    pub(crate) fn new(type_url: &TypeUrl, status: http::StatusCode) -> Self {
        Self { r#type: label(type_url), status: status.as_u16() }
    }
}

/// Adds a time to a histogram.
pub(crate) fn observe<L>(
    family: &Family<L, Histogram, fn() -> Histogram>,
    labels: &L,
    time: Duration,
) where
    L: Clone + std::hash::Hash + Eq,
{
    family.get_or_create(labels).observe(time.as_secs_f64());
}

fn label(type_url: &TypeUrl) -> &'static str {
    if type_url.api() == Api::Other { "other" } else { type_url.rules().short }
}

fn name_of(variant: Variant) -> &'static str {
    match variant {
        Variant::Sotw => "sotw",
        Variant::Delta => "delta",
    }
}

/// Buckets from half a millisecond to a minute.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0005, 2.0, 18))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_registered_once_and_types_are_bounded() {
        // S-140
        let mut registry = Registry::default();
        let metrics = Metrics::registered(&mut registry);
        let private = TypeUrl::new("type.googleapis.com/foo.Bar");
        let labels = TypeLabels::new(Variant::Sotw, &private);
        metrics.acks.get_or_create(&labels).inc();
        observe(&metrics.ack_latency, &labels, Duration::from_millis(3));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("chancery_acks_total{variant=\"sotw\",type=\"other\"} 1"), "{text}");
        let types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        let unique: BTreeSet<_> = types.iter().collect();
        assert_eq!(types.len(), unique.len());
    }
}
