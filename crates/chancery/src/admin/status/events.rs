//! `/api/v1/events`: what happens, as server-sent events.
//!
//! An event has a number, and a reader that comes back says which one it saw last (`Last-Event-ID`). A
//! reader that is too slow misses events and is told how many; whoever makes them never waits. Not here:
//! the memory of events (`chancery_server::StatusBook`).

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use chancery_server::{EventStream, StatusBook, StatusEvent, StatusEventKind};
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::document::{EventKind, EventRow};
use super::rows;
use crate::admin::api::{ApiError, Asked};
use crate::admin::{Lifetime, printed};

/// The rows of events. Their ids have a number of this start of the server, because the numbers of events
/// begin anew with it.
#[derive(Clone, Debug)]
pub(super) struct EventRows {
    start: u64,
    written: Arc<Mutex<Written>>,
}

/// The last events as they are sent, by number: all readers are sent the same.
#[derive(Debug, Default)]
struct Written(BTreeMap<u64, Arc<str>>);

/// The events that a reader wants.
#[derive(Debug)]
pub(super) struct Wanted {
    kinds: BTreeSet<EventKind>,
    node: Option<String>,
    /// The number of the last event that the reader saw.
    after: u64,
}

impl Default for EventRows {
    fn default() -> Self {
        let written = Arc::default();
        Self { start: RandomState::new().hash_one(()) & 0xffff_ffff, written }
    }
}

impl EventRows {
    fn id(&self, number: u64) -> String {
        format!("{:08x}-{number}", self.start)
    }

    /// The number in an id, or 0 in one of an earlier start.
    fn number(&self, id: &str) -> Result<u64, ApiError> {
        let odd = || {
            let why = format!(
                "`{}` is the id of no event; ids are as `{}`, which events have as `id`, and without one the \
                 events begin from now on",
                rows::shown(id),
                self.id(1)
            );
            ApiError::parameter(why)
        };
        let (start, number) = id.split_once('-').ok_or_else(odd)?;
        let start = u64::from_str_radix(start, 16).map_err(|_| odd())?;
        let number = number.parse().map_err(|_| odd())?;
        Ok(if start == self.start { number } else { 0 })
    }

    /// The events that a request asks for: those after `Last-Event-ID` or `after`, or those from now on.
    pub(super) fn wanted(
        &self,
        book: &StatusBook,
        asked: &Asked,
        last_seen: Option<&str>,
    ) -> Result<Wanted, ApiError> {
        let after = match last_seen.or_else(|| asked.text("after")) {
            Some(id) => self.number(id)?,
            None => book.last_event(),
        };
        let kinds = asked.texts("event").iter().filter_map(|word| EventKind::read(word));
        Ok(Wanted { kinds: kinds.collect(), node: asked.text("node").map(str::to_owned), after })
    }

    /// The last events of a node, the newest first.
    pub(super) fn of_node(&self, book: &StatusBook, id: &str, most: usize) -> Vec<EventRow> {
        let page = book.events_after(0, usize::MAX);
        let of_node = page.events.iter().rev().filter(|event| node_of(event) == Some(id));
        of_node.take(most).map(|event| self.row(event)).collect()
    }

    /// Adds events to a text as they are sent.
    fn write<'a>(&self, events: impl Iterator<Item = &'a StatusEvent>, text: &mut String) {
        // Nothing panics with the lock held, and what it guards would be whole even then.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            text.push_str(&written.of(event.id, || sent(&self.row(event))));
        }
    }

    fn row(&self, event: &StatusEvent) -> EventRow {
        let row = EventRow {
            id: self.id(event.id),
            at: rows::seconds(event.at),
            event: kind_of(event),
            ..EventRow::default()
        };
        let with = |stream: &EventStream| with_stream(row.clone(), stream);
        match &event.kind {
            StatusEventKind::Loaded { load } => EventRow { load: Some(*load), ..row },
            StatusEventKind::Landed { load, after } => {
                EventRow { load: Some(*load), after_ms: Some(rows::millis(*after)), ..row }
            }
            StatusEventKind::Appeared { stream, audience } => {
                EventRow { audience: Some(rows::shown(audience)), ..with(stream) }
            }
            StatusEventKind::Moved { stream, from, to } => {
                let (from, to) = (Some(rows::shown(from)), Some(rows::shown(to)));
                EventRow { audience: to, from, ..with(stream) }
            }
            StatusEventKind::Gone { stream, audience, code } => {
                let (audience, code) = (Some(rows::shown(audience)), code.map(i64::from));
                EventRow { audience, code, ..with(stream) }
            }
            StatusEventKind::Rejected { stream, rejection } => {
                EventRow { rejection: Some(rows::rejection(rejection)), ..with(stream) }
            }
            StatusEventKind::Repaired { stream, type_url } => {
                EventRow { r#type: Some(rows::type_name(type_url)), ..with(stream) }
            }
            StatusEventKind::Answered { stream, after } => {
                EventRow { after_ms: Some(rows::millis(*after)), ..with(stream) }
            }
            _ => row,
        }
    }
}

impl Written {
    fn of(&mut self, id: u64, write: impl FnOnce() -> String) -> Arc<str> {
        let text = Arc::clone(self.0.entry(id).or_insert_with(|| write().into()));
        while self.0.len() > MOST_WRITTEN {
            self.0.pop_first();
        }
        text
    }
}

fn with_stream(row: EventRow, stream: &EventStream) -> EventRow {
    let (node, cluster) = stream.node.as_ref().map(|(id, cluster)| (id, cluster)).unzip();
    EventRow {
        stream: Some(stream.id),
        node: node.map(rows::shown),
        cluster: cluster.map(rows::shown),
        peer: Some(stream.peer.to_string()),
        ..row
    }
}

fn kind_of(event: &StatusEvent) -> EventKind {
    match &event.kind {
        StatusEventKind::Loaded { .. } => EventKind::Loaded,
        StatusEventKind::Landed { .. } => EventKind::Landed,
        StatusEventKind::Appeared { .. } => EventKind::Appeared,
        StatusEventKind::Moved { .. } => EventKind::Moved,
        StatusEventKind::Gone { .. } => EventKind::Gone,
        StatusEventKind::Rejected { .. } => EventKind::Rejected,
        StatusEventKind::Repaired { .. } => EventKind::Repaired,
        StatusEventKind::Answered { .. } => EventKind::Answered,
        _ => EventKind::Missed,
    }
}

/// The id of the node that an event is about.
fn node_of(event: &StatusEvent) -> Option<&str> {
    match &event.kind {
        StatusEventKind::Appeared { stream, .. }
        | StatusEventKind::Moved { stream, .. }
        | StatusEventKind::Gone { stream, .. }
        | StatusEventKind::Rejected { stream, .. }
        | StatusEventKind::Repaired { stream, .. }
        | StatusEventKind::Answered { stream, .. } => Some(&*stream.node.as_ref()?.0),
        _ => None,
    }
}

impl Wanted {
    fn has(&self, event: &StatusEvent) -> bool {
        let of_kind = self.kinds.is_empty() || self.kinds.contains(&kind_of(event));
        of_kind && self.node.as_ref().is_none_or(|node| node_of(event) == Some(node))
    }
}

/// Events that are sent as they come.
pub(crate) struct EventBody(Pin<Box<dyn Future<Output = (Reader, Bytes)> + Send>>);

/// One who reads events.
struct Reader {
    book: StatusBook,
    rows: EventRows,
    wanted: Wanted,
    lifetime: Arc<Lifetime>,
    /// The time before which no more events are sent, so that those that come meanwhile go together.
    rests_until: Option<Instant>,
    /// The place of the reader among all of them.
    _place: OwnedSemaphorePermit,
}

impl EventBody {
    pub(super) fn new(
        book: StatusBook,
        rows: EventRows,
        wanted: Wanted,
        lifetime: Arc<Lifetime>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let reader = Reader { book, rows, wanted, lifetime, rests_until: None, _place: place };
        let begin = format!("retry: {RETRY_MS}\nid: {}\n\n", reader.rows.id(reader.wanted.after));
        Self(Box::pin(async move { (reader, begin.into()) }))
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let (reader, text) = std::task::ready!(self.0.as_mut().poll(cx));
        // The connection asks for more when its client has read: one that does not ends with its time.
        reader.lifetime.renew();
        self.0 = Box::pin(reader.next());
        Poll::Ready(Some(Ok(Frame::data(text))))
    }
}

impl Reader {
    /// The next events, or a sign of life.
    async fn next(mut self) -> (Self, Bytes) {
        let sign_of_life = Instant::now() + HEARTBEAT;
        loop {
            let come = self.book.event_after(self.wanted.after);
            let has_come = timeout_at(sign_of_life, come).await.is_ok();
            // Events that the reader does not want are no sign for it, however many come.
            if !has_come || Instant::now() >= sign_of_life {
                let id = self.rows.id(self.wanted.after);
                return (self, format!(": nothing happened\nid: {id}\n\n").into());
            }
            if let Some(until) = self.rests_until {
                sleep_until(until).await;
            }
            let page = self.book.events_after(self.wanted.after, MOST_AT_ONCE);
            let mut text = String::new();
            if page.missed > 0 {
                let (event, missed) = (EventKind::Missed, Some(page.missed));
                // The next event has the number up to which the reader has seen everything by then.
                let id = self.rows.id(self.wanted.after);
                text += &sent(&EventRow { id, event, missed, ..EventRow::default() });
            }
            let wanted = page.events.iter().filter(|event| self.wanted.has(event));
            self.rows.write(wanted.map(|event| &**event), &mut text);
            self.wanted.after = page.next;
            let are_all = page.events.len() < MOST_AT_ONCE;
            self.rests_until = are_all.then(|| Instant::now() + REST);
            // Others on the thread have their turn, however many events there are.
            tokio::task::yield_now().await;
            if !text.is_empty() {
                return (self, text.into());
            }
        }
    }
}

/// An event as it is sent.
fn sent(row: &EventRow) -> String {
    let data = printed(serde_json::to_string(row).unwrap_or_default());
    format!("id: {}\nevent: {}\ndata: {data}\n", row.id, row.event.word())
}

/// The time after which a sign of life is sent.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The number of events that are sent in one piece.
const MOST_AT_ONCE: usize = 256;

/// The time after a piece in which further events gather. Whoever makes very many is a server with much to do:
/// a reader must not be woken for each of them.
const REST: Duration = Duration::from_millis(50);

/// The number of events that are kept as they are sent. Readers are rarely further apart.
const MOST_WRITTEN: usize = 2048;

/// The milliseconds after which a reader whose connection ended comes back.
const RETRY_MS: u64 = 1000;
