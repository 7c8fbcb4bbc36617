//! The answers to those who ask what clients want and hold, and whether a load has landed.
//!
//! ```text
//!   stream --> [StreamCard] <-- all cards at one moment: [Fleet] --> nodes, [Landing]
//!     ^             |
//!     +---- look ---+           a question that the stream answers itself: [StreamDetails]
//! ```
//!
//! A stream keeps a small card up to date at what happens to it anyway. Who wants to know more asks the
//! stream, which reads the answer from its machine; nothing is kept for that when nobody asks. The
//! definitions are in `docs/status.md`.

mod book;
mod bounds;
mod card;
mod clock;
mod events;
mod fleet;
mod gone;
mod landing;
mod loads;
mod look;
mod node_counts;
mod poller;
mod polls;
mod rejected_resources;
mod stream_status;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

pub(crate) use self::book::Book;
use self::book::lock;
pub use self::bounds::StatusBounds;
use self::card::NotAsked;
pub use self::card::RejectionNote;
pub(crate) use self::card::{AwayFor, MachineState, StreamCard};
pub use self::events::{EventPage, EventStream, StatusEvent, StatusEventKind};
pub use self::fleet::{Candidate, Fleet, NodeStatus};
pub use self::gone::GoneStream;
pub use self::landing::{Landing, Outcome};
pub use self::loads::LoadStatus;
pub(crate) use self::look::Look;
pub use self::look::{LookQuery, Looks, StreamDetails, TypeDetails, WaitDetails};
pub(crate) use self::node_counts::{NodeCounter, NodeKey};
pub(crate) use self::polls::DecidedPoll;
pub(crate) use self::rejected_resources::RejectedResources;
pub use self::stream_status::{PollVersions, StreamState, StreamStatus};

/// The book of what the clients of a store want and hold. Clones are the same.
///
/// ```
/// use chancery_server::{Config, OneAudience, Outcome, Server, Snapshot, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = Store::new();
/// let server = Server::new(store.clone(), OneAudience("edge".into()), Config::default());
/// let status = server.status();
/// store.publish("edge", Snapshot::new());
/// // Waits until all clients of the audience have acknowledged it, or cannot.
/// let landing = status.landed(status.load(), |client| client.audience.as_str() == "edge").await;
/// match landing.outcome() {
///     Outcome::Landed => println!("{} streams have it", landing.landed()),
///     _ => {
///         for stream in landing.never() {
///             let why = status.rejections(stream.id);
///             println!("stream {} is {}: {why:?}", stream.id, stream.state.name());
///         }
///     }
/// }
/// assert_eq!(landing.counted(), 0, "nobody is there");
/// # }
/// ```
#[derive(Clone, Default)]
pub struct StatusBook(pub(crate) Arc<Book>);

impl StatusBook {
    /// Sets the bounds of what is kept. [`Server::serve`](crate::Server::serve) sets those of its
    /// configuration.
    pub fn set_bounds(&self, bounds: StatusBounds) {
        self.0.set_bounds(bounds);
    }

    /// All streams, as they are now or were a few milliseconds ago. It wakes no stream that sleeps, but those
    /// that have not looked at what is shown to them.
    pub fn fleet(&self) -> Arc<Fleet> {
        self.0.fleet_since(None).0
    }

    /// The streams of the node with this id, as they are now. It costs little beside a look at all of them.
    pub fn fleet_of(&self, node: &str) -> Fleet {
        self.0.fleet_of(node)
    }

    /// The rejections of a stream that are not repaired: they wait for a change, or for the answer to one.
    pub fn rejections(&self, stream: u64) -> Vec<RejectionNote> {
        let card = self.0.card(stream);
        card.map(|card| card.rejections(Instant::now())).unwrap_or_default()
    }

    /// The number of the last load that was shown; 0 if there was none.
    pub fn load(&self) -> u64 {
        self.0.load()
    }

    /// The last loads, the newest first.
    pub fn loads(&self) -> Vec<LoadStatus> {
        lock(&self.0.loads).list(Instant::now())
    }

    /// The time since the oldest load was shown that has not landed, nor any after it; `None` if the last one
    /// has. It is looked at once a second while a server serves.
    pub fn oldest_load(&self) -> Option<Duration> {
        self.0.oldest_load()
    }

    /// The landing of a load as of now, on those that `counts` returns true for.
    pub fn landing(&self, load: u64, counts: impl Fn(Candidate<'_>) -> bool) -> Landing {
        self.0.fleet_since(Some(Instant::now())).0.landing(load, counts)
    }

    /// Waits until the [`Outcome`] of a landing is no longer [`Waiting`](Outcome::Waiting). Cancel-safe.
    pub async fn landed(&self, load: u64, counts: impl Fn(Candidate<'_>) -> bool) -> Landing {
        loop {
            let landing = self.landing(load, &counts);
            if landing.outcome() != Outcome::Waiting {
                return landing;
            }
            self.changed_since(landing.fleet().mark()).await;
        }
    }

    /// Waits until there may be something else to see than at that [mark](Fleet::mark). It takes some
    /// milliseconds at least, so that whoever looks again and again costs little, and a second at most,
    /// because some states follow from the time. Cancel-safe.
    pub async fn changed_since(&self, mark: u64) {
        let waiter = self.0.waiter();
        let changed = async {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if self.0.changes() == mark {
                changed.await;
            }
            tokio::time::sleep(waiter.pace()).await;
        };
        // The time is over, or it came.
        _ = timeout(LONGEST, changed).await;
    }

    /// Asks streams about what they want and hold, and waits for their answers, no longer than `bound`.
    /// Streams that do not answer in time are told. Cancel-safe.
    pub async fn look(
        &self,
        streams: impl IntoIterator<Item = u64>,
        query: LookQuery,
        bound: Duration,
    ) -> Looks {
        let until = Instant::now() + bound;
        let (mut looks, mut asked) = (Looks::default(), Vec::new());
        let streams: Vec<u64> = streams.into_iter().collect();
        let permit = match streams.len() {
            0..=FEW => None,
            _ => match timeout_at(until, self.0.askers.acquire()).await {
                Ok(permit) => permit.ok(),
                Err(_) => return Looks { unanswered: streams, ..looks },
            },
        };
        let query = Arc::new(query);
        for id in streams {
            let Some(card) = self.0.card(id) else {
                looks.gone.push(id);
                continue;
            };
            match card.ask(&query) {
                Ok(answer) => asked.push((id, answer)),
                Err(NotAsked::Gone) => looks.gone.push(id),
                Err(NotAsked::TooMany) => looks.unanswered.push(id),
            }
        }
        for (id, mut answer) in asked {
            match timeout_at(until, answer.wait_for(Option::is_some)).await {
                Ok(Ok(answer)) => looks.answers.extend(answer.clone().map(|it| (id, it))),
                // The stream dropped the question: it is gone.
                Ok(Err(_)) => looks.gone.push(id),
                Err(_) => looks.unanswered.push(id),
            }
        }
        drop(permit);
        looks.polls = self.0.polls_of(&mut looks.gone);
        looks
    }

    /// The events after one of this number, so many at most; from the first that is remembered on after 0.
    pub fn events_after(&self, id: u64, limit: usize) -> EventPage {
        self.0.events.after(id, limit)
    }

    /// The number of the last event; 0 if there was none.
    pub fn last_event(&self) -> u64 {
        self.0.events.last()
    }

    /// Waits until there is an event after one of this number. Cancel-safe.
    pub async fn event_after(&self, id: u64) {
        self.0.events.come(id).await;
    }
}

impl std::fmt::Debug for StatusBook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusBook").field("load", &self.load()).finish_non_exhaustive()
    }
}

/// The number of streams that anybody may ask at once.
const FEW: usize = 64;
/// The time after which one who waits looks again.
const LONGEST: Duration = Duration::from_secs(1);
