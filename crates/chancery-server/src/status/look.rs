//! A look: a question to a stream, which answers on its own thread.
//!
//! A question is left on the card of the stream, which is woken. Its session answers with a bounded value, and
//! whoever asks waits within a bound. Those who ask the same share one answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_core::server::{
    Machine, ResourcePage, ResourceQuery, TypeStatus, UnsettledCounts, WaitReason,
};
use chancery_core::{Time, TypeUrl};
use tokio::sync::watch;

/// A question to streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LookQuery {
    /// The only type of the answer; `None` for all.
    pub type_url: Option<TypeUrl>,
    /// The resources of the answer; `None` for none.
    pub resources: Option<ResourceQuery>,
}

impl LookQuery {
    /// The most resources of one type in an answer, whatever is asked.
    pub const MAX_RESOURCES: usize = 10_000;

    /// A question about all types, without their resources.
    pub fn types() -> Self {
        Self::default()
    }

    /// A question about resources of one type, or of all.
    pub fn resources(type_url: Option<TypeUrl>, mut resources: ResourceQuery) -> Self {
        resources.limit = resources.limit.min(Self::MAX_RESOURCES);
        Self { type_url, resources: Some(resources) }
    }
}

/// The details of one stream, as it told them itself.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StreamDetails {
    /// The types that the client asked for, in sending order.
    pub types: Vec<TypeDetails>,
}

/// The details of one type on one stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TypeDetails {
    /// The type.
    pub type_url: TypeUrl,
    /// True if the client asked for the wildcard.
    pub everything: bool,
    /// The number of names that it asked for.
    pub name_count: usize,
    /// The first of them, in its own spelling.
    pub names: Vec<Arc<str>>,
    /// The version of the last response that was sent.
    pub sent: Option<Arc<str>>,
    /// The version of the last response that the client accepted.
    pub acknowledged: Option<Arc<str>>,
    /// The time of day at which the client accepted it.
    pub acknowledged_at: Option<SystemTime>,
    /// The version of the response that the client rejected, as long as rejected content waits for a change.
    pub rejected: Option<Arc<str>>,
    /// The number of names in rejected responses that wait for a change.
    pub suspect_count: usize,
    /// The first of them. One of all is at fault, or several are (S-034).
    pub suspects: Vec<Arc<str>>,
    /// The waits before the stream sends more of the type, or counts as landed.
    pub waits: Vec<WaitDetails>,
    /// The numbers of resources that are not settled.
    pub unsettled: UnsettledCounts,
    /// True if the client has acknowledged all it is owed of this type, and nothing waits.
    pub has_landed: bool,
    /// The resources that were asked about.
    pub resources: ResourcePage,
}

/// A wait of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitDetails {
    /// The reason.
    pub reason: WaitReason,
    /// The time until it ends at the latest, if there is one.
    pub left: Option<Duration>,
}

/// The answers of streams.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Looks {
    /// The answers, by the number of the stream, in the order in which they were asked.
    pub answers: Vec<(u64, Arc<StreamDetails>)>,
    /// The streams that did not answer in time. Those of clients that take nothing cannot.
    pub unanswered: Vec<u64>,
    /// The streams that are gone.
    pub gone: Vec<u64>,
    /// Those that are polls over REST. They have no stream that could be asked.
    pub polls: Vec<u64>,
}

/// A question that waits on a card.
pub(crate) struct Look {
    pub(super) query: Arc<LookQuery>,
    answer: watch::Sender<Option<Arc<StreamDetails>>>,
}

/// The place where the answer to a question will be.
pub(super) type Answer = watch::Receiver<Option<Arc<StreamDetails>>>;

/// The number of names in an answer.
const MOST_NAMES: usize = 1000;

impl Look {
    /// A question, and the place where its answer will be.
    pub(super) fn new(query: &Arc<LookQuery>) -> (Self, Answer) {
        let (answer, place) = watch::channel(None);
        (Self { query: Arc::clone(query), answer }, place)
    }

    /// The place of the answer, for one more who asks the same.
    pub(super) fn join(&self) -> Answer {
        self.answer.subscribe()
    }

    /// Returns true if somebody waits for the answer.
    pub(super) fn is_wanted(&self) -> bool {
        self.answer.receiver_count() > 0
    }

    /// Answers, if somebody still waits for it.
    pub(crate) fn answer(&self, machine: &Machine, age: Time) {
        if self.is_wanted() {
            let details = Arc::new(details(machine, &self.query, age));
            self.answer.send_replace(Some(details));
        }
    }

    /// Returns true if the answer may be long, on a stream that sees many resources.
    pub(crate) fn may_be_long(&self) -> bool {
        self.query.resources.is_some()
    }
}

fn details(machine: &Machine, query: &LookQuery, age: Time) -> StreamDetails {
    let is_asked = |status: &TypeStatus<'_>| {
        query.type_url.as_ref().is_none_or(|type_url| type_url == status.type_url)
    };
    let types = machine.status().filter(is_asked);
    StreamDetails { types: types.map(|status| type_details(&status, query, age)).collect() }
}

fn type_details(status: &TypeStatus<'_>, query: &LookQuery, age: Time) -> TypeDetails {
    let waits = status.waits.iter().map(|wait| WaitDetails {
        reason: wait.reason,
        left: wait.until.map(|until| until.0.saturating_sub(age.0)),
    });
    let resources = query.resources.as_ref().map(|query| status.resources(query));
    let time_of_day = |at: Time| SystemTime::now().checked_sub(age.0.saturating_sub(at.0));
    TypeDetails {
        type_url: status.type_url.clone(),
        everything: status.wanted.everything(),
        name_count: status.wanted.len(),
        names: status.wanted.names().take(MOST_NAMES).map(Arc::from).collect(),
        sent: status.sent.clone(),
        acknowledged: status.acknowledged.clone(),
        acknowledged_at: status.acknowledged_at.and_then(time_of_day),
        rejected: status.rejection.map(|rejection| Arc::clone(&rejection.version)),
        suspect_count: status.unsettled.rejected,
        suspects: status.suspects().take(MOST_NAMES).map(Arc::from).collect(),
        waits: waits.collect(),
        unsettled: status.unsettled,
        has_landed: status.has_landed,
        resources: resources.unwrap_or_default(),
    }
}
