//! Calls, so many at a time and so many in a second. Not here: what is shown of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::data::Input;
use super::one::{CallReport, Caller, Sink};
use super::options::LoadArgs;

/// The calls to make.
pub(super) struct Plan {
    pub(super) caller: Caller,
    pub(super) path: PathAndQuery,
    pub(super) input: Mutex<Input>,
    pub(super) load: LoadArgs,
    /// True if messages of answers are shown.
    pub(super) shows_messages: bool,
}

/// An event of a call, which has a number from 1 on.
pub(super) enum Event {
    Message(u32, Bytes),
    Ended(u32, Box<CallReport>),
}

/// Calls that are being made. They end when this is dropped.
pub(super) struct Calls {
    events: mpsc::Receiver<Event>,
    _workers: JoinSet<()>,
}

/// The calls that were begun.
#[derive(Default)]
struct Begun(AtomicU32);

/// Passes the messages of a call on.
struct ToEvents<'a> {
    call: u32,
    events: &'a mpsc::Sender<Event>,
    is_wanted: bool,
}

impl Calls {
    /// Begins.
    pub(super) fn start(plan: Plan) -> Self {
        // Whoever is slow to print what comes holds up the calls, and nothing is kept.
        let (sender, events) = mpsc::channel(KEPT);
        let (plan, begun, start) = (Arc::new(plan), Arc::<Begun>::default(), Instant::now());
        let mut workers = JoinSet::new();
        for _ in 0..u32::from(plan.load.concurrency).min(plan.load.count) {
            let (plan, begun, sender) = (Arc::clone(&plan), Arc::clone(&begun), sender.clone());
            workers.spawn(async move { work(&plan, &begun, start, &sender).await });
        }
        Self { events, _workers: workers }
    }

    /// Returns the next event; `None` when all calls have ended.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

async fn work(plan: &Plan, begun: &Begun, start: Instant, events: &mpsc::Sender<Event>) {
    loop {
        let call = begun.0.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if call > plan.load.count {
            return;
        }
        if let Some(at) = plan.load.rate.and_then(|rate| start.checked_add(due(call, rate))) {
            sleep_until(at).await;
        }
        let mut sink = ToEvents { call, events, is_wanted: plan.shows_messages };
        let input = plan.input.lock().unwrap_or_else(PoisonError::into_inner).take();
        let report = plan.caller.call(&plan.path, input, &mut sink).await;
        if events.send(Event::Ended(call, Box::new(report))).await.is_err() {
            return;
        }
    }
}

/// Returns the time at which a call may begin, the first of them at once.
fn due(call: u32, rate: u32) -> Duration {
    let nanos = u64::from(call - 1).saturating_mul(1_000_000_000) / u64::from(rate.max(1));
    Duration::from_nanos(nanos)
}

impl Sink for ToEvents<'_> {
    async fn take(&mut self, message: Bytes) -> bool {
        !self.is_wanted || self.events.send(Event::Message(self.call, message)).await.is_ok()
    }
}

/// The events that wait to be shown.
const KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_begin_at_their_rate() {
        let times = [1, 2, 3, 1_000_000].map(|call| due(call, 4));
        let millis = [0, 250, 500, 249_999_750].map(Duration::from_millis);
        assert_eq!(times, millis);
        assert_eq!(due(2, 100_000), Duration::from_micros(10));
    }
}
