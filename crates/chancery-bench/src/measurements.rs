//! Where the clients of a run report, and the run waits: the only state shared between threads.
//!
//! A change is a *publish*; a client *covers* it by the first response of the first type that
//! comes after it. Receipts are measured from the oldest publish a client has not covered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::workload::Readers;
use super::xds::proto;

/// The state of a run.
#[derive(Debug)]
pub(crate) struct Measurements {
    start: Instant,
    state: Mutex<ClientStates>,
    changed: Notify,
    counters: TrafficCounters,
}

/// What the clients have told.
#[derive(Debug)]
pub(crate) struct ClientStates {
    clients: Vec<ClientState>,
    /// When each change was published.
    changes: Vec<u64>,
    /// How long each receipt took, since they were last taken away.
    receipts: Vec<u64>,
    /// When the first answers of each client were complete.
    first_answers: Vec<u64>,
    /// Clients that are waited for and have not covered the last publish.
    pub(crate) behind: usize,
    pub(crate) connected: usize,
    pub(crate) unanswered: usize,
    pub(crate) alive: usize,
    failures: BTreeMap<String, FailureCount>,
    versions: Vec<BTreeMap<String, String>>,
}

#[derive(Clone, Copy, Debug)]
struct ClientState {
    covered_changes: u32,
    /// Streams whose first answers are not complete.
    incomplete: u16,
    awaited: bool,
    lost: bool,
}

#[derive(Clone, Debug)]
struct FailureCount {
    clients: usize,
    first: u32,
}

/// What came, since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) messages: u64,
    pub(crate) payload: u64,
    pub(crate) resources: u64,
    pub(crate) resource_bytes: u64,
    /// Bytes of HTTP/2.
    pub(crate) wire: u64,
}

#[derive(Debug, Default)]
struct TrafficCounters {
    messages: AtomicU64,
    payload: AtomicU64,
    resources: AtomicU64,
    resource_bytes: AtomicU64,
    wire: AtomicU64,
}

impl Measurements {
    /// Nothing measured yet, of clients with so many streams each, which ask for so many types.
    pub(crate) fn new(readers: Readers, streams: usize, types: usize) -> Self {
        let client = |at| ClientState {
            covered_changes: 0,
            // A slow client may take hours for its first answer; nobody waits for that.
            incomplete: if readers.is_slow(at) { 0 } else { streams as u16 },
            awaited: readers.is_awaited(at),
            lost: false,
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
            failures: BTreeMap::new(),
            versions: vec![BTreeMap::new(); types],
        };
        let (state, start) = (Mutex::new(state), Instant::now());
        Self { start, state, changed: Notify::new(), counters: TrafficCounters::default() }
    }

    /// The time, in nanoseconds of this run.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ClientStates> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something holds, or for so long; says whether it holds.
    pub(crate) async fn until(
        &self,
        timeout: Duration,
        mut holds: impl FnMut(&ClientStates) -> bool,
    ) -> bool {
        let held = async {
            while !holds(&self.state()) {
                self.changed.notified().await;
            }
        };
        tokio::time::timeout(timeout, held).await.is_ok()
    }

    /// A change is about to be published.
    pub(crate) fn start_change(&self) {
        let mut state = self.state();
        state.behind = state.clients.iter().filter(|client| client.awaited && !client.lost).count();
        let now = self.now();
        state.changes.push(now);
    }

    /// A connection is up, so many clients with it.
    pub(crate) fn clients_connected(&self, clients: usize) {
        self.state().connected += clients;
        self.changed.notify_one();
    }

    /// A client got a response: of the first type or not, and with all its first answers or not.
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

    /// A client is gone, and why.
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

    /// Names and versions out of a delta response of one type.
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

    pub(crate) fn add_traffic(&self, traffic: &Traffic) {
        let TrafficCounters { messages, payload, resources, resource_bytes, wire } = &self.counters;
        wire.fetch_add(traffic.wire, Relaxed);
        if traffic.messages > 0 {
            messages.fetch_add(traffic.messages, Relaxed);
            payload.fetch_add(traffic.payload, Relaxed);
            resources.fetch_add(traffic.resources, Relaxed);
            resource_bytes.fetch_add(traffic.resource_bytes, Relaxed);
        }
    }

    /// What came so far.
    pub(crate) fn traffic(&self) -> Traffic {
        let TrafficCounters { messages, payload, resources, resource_bytes, wire } = &self.counters;
        Traffic {
            messages: messages.load(Relaxed),
            payload: payload.load(Relaxed),
            resources: resources.load(Relaxed),
            resource_bytes: resource_bytes.load(Relaxed),
            wire: wire.load(Relaxed),
        }
    }
}

impl ClientStates {
    /// The receipts since this was last asked.
    pub(crate) fn take_receipts(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.receipts)
    }

    /// When the first answers were complete.
    pub(crate) fn take_first_answers(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.first_answers)
    }

    /// Names and versions of each type.
    pub(crate) fn take_versions(&mut self) -> Vec<BTreeMap<String, String>> {
        std::mem::take(&mut self.versions)
    }

    /// Clients that are still there and have not covered the last publish.
    pub(crate) fn clients_behind(&self) -> Vec<u32> {
        let last = self.changes.len();
        let clients_behind = |client: &ClientState| {
            client.awaited && !client.lost && (client.covered_changes as usize) < last
        };
        numbers(&self.clients, clients_behind)
    }

    /// Clients that are still there and whose first answers are not complete.
    pub(crate) fn unanswered_clients(&self) -> Vec<u32> {
        numbers(&self.clients, |client| !client.lost && client.incomplete > 0)
    }

    /// What went wrong, in words.
    pub(crate) fn failures(&self) -> Vec<String> {
        let told = |(why, failure): (&String, &FailureCount)| match failure.clients {
            1 => format!("stream {}: {why}", failure.first),
            many => format!("{many} streams, the first is {}: {why}", failure.first),
        };
        self.failures.iter().map(told).collect()
    }
}

impl Traffic {
    /// What came after an earlier moment.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            messages: self.messages - before.messages,
            payload: self.payload - before.payload,
            resources: self.resources - before.resources,
            resource_bytes: self.resource_bytes - before.resource_bytes,
            wire: self.wire - before.wire,
        }
    }
}

fn numbers(clients: &[ClientState], wanted: impl Fn(&ClientState) -> bool) -> Vec<u32> {
    (0..).zip(clients).filter(|(_, client)| wanted(client)).map(|(at, _)| at).collect()
}

/// So many different reasons are told; a server that puts a number into each has the rest counted.
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
    fn who_is_lost_is_not_waited_for_and_told_once() {
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
        assert!(failures.iter().any(|told| told.contains("80 streams") && told.ends_with(OTHER)));
    }
}
