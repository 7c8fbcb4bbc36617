//! The measurements of a run: the only state that the threads share. Clients report to it, and the
//! run waits on it.
//!
//! A client *covers* a change by the first response of the first type that comes after the change.
//! A receipt is measured from the oldest change that the client has not covered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::workload::Readers;
use super::xds::proto;

/// The measurements of a run.
#[derive(Debug)]
pub(crate) struct Measurements {
    start: Instant,
    state: Mutex<ClientStates>,
    changed: Notify,
    counters: TrafficCounters,
}

/// The states of the clients, and the times they have reported.
#[derive(Debug)]
pub(crate) struct ClientStates {
    clients: Vec<ClientState>,
    /// The time at which each change began, in nanoseconds of the run.
    changes: Vec<u64>,
    /// The duration of each receipt since they were last taken.
    receipts: Vec<u64>,
    /// The times at which the first answers of a client were complete.
    first_answers: Vec<u64>,
    /// The number of clients that are waited for and have not covered the last change.
    pub(crate) behind: usize,
    /// The number of clients that have been connected.
    pub(crate) connected: usize,
    /// The number of clients whose first answers are not complete.
    pub(crate) unanswered: usize,
    /// The number of clients that are not lost.
    pub(crate) alive: usize,
    /// The number of clients that have sent a load report.
    pub(crate) reporting: usize,
    failures: BTreeMap<String, FailureCount>,
    /// The recorded versions of each type, by name.
    versions: Vec<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug)]
struct ClientState {
    /// The number of changes the client has covered.
    covered_changes: u32,
    /// The number of its streams whose first answers are not complete.
    incomplete: u16,
    awaited: bool,
    lost: bool,
    /// It has sent a load report.
    has_reported: bool,
}

/// The clients that were lost for one reason.
#[derive(Clone, Debug)]
struct FailureCount {
    clients: usize,
    /// The first of them.
    first: u32,
}

/// The traffic from the server, over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// The number of responses.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) payload: u64,
    pub(crate) resources: u64,
    pub(crate) resource_bytes: u64,
    /// The bytes of HTTP/2.
    pub(crate) wire: u64,
    /// The number of load reports that were sent to it.
    pub(crate) reports: u64,
}

#[derive(Debug, Default)]
struct TrafficCounters {
    messages: AtomicU64,
    payload: AtomicU64,
    resources: AtomicU64,
    resource_bytes: AtomicU64,
    wire: AtomicU64,
    reports: AtomicU64,
}

impl Measurements {
    /// No measurements yet, of clients with so many streams each, which ask for so many types.
    pub(crate) fn new(readers: Readers, streams: usize, types: usize) -> Self {
        let client = |at| ClientState {
            covered_changes: 0,
            // The first answer of a slow client is not waited for: it may take hours.
            incomplete: if readers.is_slow(at) { 0 } else { streams as u16 },
            awaited: readers.is_awaited(at),
            lost: false,
            has_reported: false,
        };
        let state = ClientStates {
            clients: (0..readers.clients).map(client).collect(),
            changes: Vec::new(),
            receipts: Vec::new(),
            first_answers: Vec::new(),
            behind: 0,
            connected: 0,
            unanswered: (0..readers.clients).filter(|at| !readers.is_slow(*at)).count(),
            alive: readers.clients,
            reporting: 0,
            failures: BTreeMap::new(),
            versions: vec![BTreeMap::new(); types],
        };
        let (state, start) = (Mutex::new(state), Instant::now());
        Self { start, state, changed: Notify::new(), counters: TrafficCounters::default() }
    }

    /// The time in nanoseconds since the run began.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The states of the clients. They cannot change while this is held.
    pub(crate) fn state(&self) -> MutexGuard<'_, ClientStates> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the states are as wanted, but not longer than this; returns true if they are.
    pub(crate) async fn until(
        &self,
        timeout: Duration,
        mut reached: impl FnMut(&ClientStates) -> bool,
    ) -> bool {
        let waiting = async {
            while !reached(&self.state()) {
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(timeout, waiting).await.is_ok()
    }

    /// Notes that a change begins now.
    pub(crate) fn start_change(&self) {
        let mut state = self.state();
        state.behind = state.clients.iter().filter(|client| client.awaited && !client.lost).count();
        let now = self.now();
        state.changes.push(now);
    }

    /// Notes that a connection is ready, with so many clients.
    pub(crate) fn clients_connected(&self, clients: usize) {
        self.state().connected += clients;
        self.changed.notify_one();
    }

    /// Notes that a client has received a response.
    ///
    /// `of_first_type` says that it may cover changes, `complete` that with it the first answers of
    /// a stream are complete.
    pub(crate) fn response_received(&self, client: u32, of_first_type: bool, complete: bool) {
        let now = self.now();
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(client) = state.clients.get_mut(client as usize) else { return };
        let mut changed = false;
        if complete && client.incomplete > 0 {
            client.incomplete = client.incomplete.saturating_sub(1);
            if client.incomplete == 0 {
                state.first_answers.push(now);
                state.unanswered -= usize::from(!client.lost);
                changed |= state.unanswered == 0;
            }
        }
        if let Some(oldest) =
            state.changes.get(client.covered_changes as usize).filter(|_| of_first_type)
        {
            client.covered_changes = state.changes.len() as u32;
            if client.awaited {
                state.receipts.push(now.saturating_sub(*oldest));
                state.behind = state.behind.saturating_sub(1);
                changed |= state.behind == 0;
            }
        }
        drop(guard);
        if changed {
            self.changed.notify_one();
        }
    }

    /// Notes that a client has sent a load report.
    pub(crate) fn reported(&self, client: u32) {
        self.counters.reports.fetch_add(1, Relaxed);
        let mut state = self.state();
        let Some(client) = state.clients.get_mut(client as usize) else { return };
        if !std::mem::replace(&mut client.has_reported, true) {
            state.reporting += 1;
            self.changed.notify_one();
        }
    }

    /// Notes that a client is lost, and the reason.
    pub(crate) fn client_lost(&self, number: u32, why: &str) {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(client) = state.clients.get_mut(number as usize) else { return };
        if std::mem::replace(&mut client.lost, true) {
            return;
        }
        state.alive -= 1;
        state.unanswered -= usize::from(client.incomplete > 0);
        if client.awaited && (client.covered_changes as usize) < state.changes.len() {
            state.behind = state.behind.saturating_sub(1);
        }
        let new = FailureCount { clients: 0, first: number };
        if state.failures.len() < REASONS || state.failures.contains_key(why) {
            state.failures.entry(why.to_owned()).or_insert(new).clients += 1;
        } else {
            state.failures.entry(OTHER.to_owned()).or_insert(new).clients += 1;
        }
        drop(guard);
        self.changed.notify_one();
    }

    /// Records the names and versions in a delta response of one type.
    pub(crate) fn record_versions(&self, at: u16, response: &[u8]) {
        let mut state = self.state();
        let Some(known) = state.versions.get_mut(usize::from(at)) else { return };
        for (_, resource) in proto::fields(response).filter(|(number, _)| *number == 2) {
            let text = |wanted| {
                let found = proto::fields(resource).find(|(number, _)| *number == wanted);
                String::from_utf8_lossy(found.map_or(&[][..], |(_, bytes)| bytes)).into_owned()
            };
            known.insert(text(3), text(1));
        }
    }

    /// Adds traffic.
    pub(crate) fn add_traffic(&self, traffic: &Traffic) {
        let TrafficCounters { messages, payload, resources, resource_bytes, wire, .. } =
            &self.counters;
        wire.fetch_add(traffic.wire, Relaxed);
        if traffic.messages > 0 {
            messages.fetch_add(traffic.messages, Relaxed);
            payload.fetch_add(traffic.payload, Relaxed);
            resources.fetch_add(traffic.resources, Relaxed);
            resource_bytes.fetch_add(traffic.resource_bytes, Relaxed);
        }
    }

    /// The traffic since the run began.
    pub(crate) fn traffic(&self) -> Traffic {
        let TrafficCounters { messages, payload, resources, resource_bytes, wire, reports } =
            &self.counters;
        Traffic {
            messages: messages.load(Relaxed),
            payload: payload.load(Relaxed),
            resources: resources.load(Relaxed),
            resource_bytes: resource_bytes.load(Relaxed),
            wire: wire.load(Relaxed),
            reports: reports.load(Relaxed),
        }
    }
}

impl ClientStates {
    /// Takes the durations of the receipts since the last call.
    pub(crate) fn take_receipts(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.receipts)
    }

    /// Takes the times at which the first answers were complete.
    pub(crate) fn take_first_answers(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.first_answers)
    }

    /// Takes the recorded versions of each type, by name.
    pub(crate) fn take_versions(&mut self) -> Vec<BTreeMap<String, String>> {
        std::mem::take(&mut self.versions)
    }

    /// The clients that are not lost and have not covered the last change.
    pub(crate) fn clients_behind(&self) -> Vec<u32> {
        let last = self.changes.len();
        let clients_behind = |client: &ClientState| {
            client.awaited && !client.lost && (client.covered_changes as usize) < last
        };
        numbers(&self.clients, clients_behind)
    }

    /// The clients that are not lost and whose first answers are not complete.
    pub(crate) fn unanswered_clients(&self) -> Vec<u32> {
        numbers(&self.clients, |client| !client.lost && client.incomplete > 0)
    }

    /// The reasons for which clients were lost, as sentences.
    pub(crate) fn failures(&self) -> Vec<String> {
        let sentence = |(why, failure): (&String, &FailureCount)| match failure.clients {
            1 => format!("stream {}: {why}", failure.first),
            many => format!("{many} streams, the first is {}: {why}", failure.first),
        };
        self.failures.iter().map(sentence).collect()
    }
}

impl Traffic {
    /// The traffic after an earlier moment.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            payload: self.payload - before.payload,
            resources: self.resources - before.resources,
            resource_bytes: self.resource_bytes - before.resource_bytes,
            wire: self.wire - before.wire,
            reports: self.reports - before.reports,
        }
    }
}

/// The numbers of the clients that are wanted.
fn numbers(clients: &[ClientState], wanted: impl Fn(&ClientState) -> bool) -> Vec<u32> {
    (0..).zip(clients).filter(|(_, client)| wanted(client)).map(|(at, _)| at).collect()
}

/// The most reasons that are kept apart; the others are counted together, because a server may put
/// a number into each of them.
const REASONS: usize = 20;

const OTHER: &str = "other reasons";

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients that are all waited for.
    fn all(clients: usize) -> Readers {
        Readers { clients, ..Readers::default() }
    }

    #[test]
    fn a_receipt_is_measured_from_the_oldest_change_it_covers() {
        let measurements = Measurements::new(all(2), 1, 1);
        measurements.start_change();
        let between = measurements.now();
        measurements.start_change();
        assert_eq!(measurements.state().clients_behind(), [0, 1]);
        measurements.response_received(0, true, false);
        measurements.response_received(0, true, false);
        let (now, mut state) = (measurements.now(), measurements.state());
        let receipts = state.take_receipts();
        assert_eq!((receipts.len(), state.behind, state.clients_behind()), (1, 1, vec![1]));
        assert!(receipts[0] <= now && receipts[0] >= state.changes[1] - between);
    }

    #[test]
    fn a_lost_client_is_not_waited_for_and_reported_once() {
        let measurements = Measurements::new(all(3), 2, 1);
        measurements.start_change();
        measurements.client_lost(1, "gone");
        measurements.client_lost(1, "gone again");
        measurements.client_lost(2, "gone");
        let state = measurements.state();
        assert_eq!((state.alive, state.behind, state.unanswered), (1, 1, 1));
        assert_eq!(state.failures(), ["2 streams, the first is 1: gone"]);
    }

    #[test]
    fn a_client_has_its_first_answers_when_all_its_streams_have() {
        let measurements = Measurements::new(Readers { clients: 4, stalled: 1, slow: 1 }, 2, 1);
        assert_eq!(measurements.state().unanswered, 3, "the slow one is not waited for");
        for client in [0, 0, 1, 1, 2, 3, 3] {
            measurements.response_received(client, false, true);
        }
        let state = measurements.state();
        assert_eq!(
            (state.unanswered, state.unanswered_clients(), state.first_answers.len()),
            (1, vec![2], 2)
        );
    }

    #[test]
    fn reasons_are_bounded() {
        let measurements = Measurements::new(all(100), 1, 1);
        (0..100).for_each(|client| measurements.client_lost(client, &format!("request {client}")));
        let failures = measurements.state().failures();
        assert_eq!(failures.len(), REASONS + 1);
        assert!(
            failures.iter().any(|reason| reason.contains("80 streams") && reason.ends_with(OTHER))
        );
    }
}
