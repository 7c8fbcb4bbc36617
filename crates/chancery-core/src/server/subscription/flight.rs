//! Responses under way: sent and not yet answered.
//!
//! At most one response of a type is under way at a time, so that a client is never more than one
//! answer behind; the rest waits as state (S-042). A request that changes names lets the next one
//! go, and so does time, because some clients forget to answer (T-03).
//!
//! The first request that carries the nonce of a response under way is its answer, also if newer
//! responses are under way: clients ask for more before they have read what they asked for first,
//! and then answer in order, each response once (S-037).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::interest::Spelling;
use crate::step::{Step, StepChange};
use crate::{Resource, Time};

/// Responses under way, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    responses: VecDeque<SentResponse>,
    released: bool,
    /// The nonce of the response that was answered last: requests repeat it until the client reads
    /// the next response.
    answered_nonce: Option<Arc<str>>,
    /// The version of the last response that was sent.
    sent_version: Option<Arc<str>>,
    /// The version of the last response that was accepted.
    accepted_version: Option<Arc<str>>,
}

/// One response under way.
#[derive(Debug)]
pub(crate) struct SentResponse {
    pub(crate) nonce: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) at: Time,
    pub(crate) contents: Contents,
}

/// What a response spoke of because it was due, in order of the keys.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// What this client alone was due.
    Own(OwnContents),
    /// What every client was due that wants everything and was where this one was.
    Shared {
        step: Step,
        /// The client accepted something on an earlier stream, nobody knows what.
        reconnected: bool,
    },
}

/// What one client was due. Mostly these are resources under their own names: for as long as a
/// response is under way, each of thousands is one pointer.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnContents {
    /// Resources under their own names of which the client had nothing.
    new: Box<[Arc<Resource>]>,
    /// Resources under their own names of which the client had something.
    known: Box<[Arc<Resource>]>,
    others: Box<[Mention]>,
}

/// A key a response spoke of.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    pub(crate) key: Spelling,
    /// What it was said to be; `None` if it was said to be gone.
    pub(crate) what: Option<Arc<Resource>>,
    /// Whether the client had nothing under it before, as far as it was ever given something.
    pub(crate) is_new: bool,
}

impl Flight {
    /// Notes that a response is under way. Returns the oldest one if there are too many: its answer
    /// is not waited for any more.
    pub(crate) fn push(&mut self, sent: SentResponse) -> Option<SentResponse> {
        self.released = false;
        self.sent_version = Some(Arc::clone(&sent.version));
        let given_up =
            if self.responses.len() == MOST_UNANSWERED { self.responses.pop_front() } else { None };
        if self.responses.is_empty() {
            self.responses.reserve_exact(1); // There is rarely a second.
        }
        self.responses.push_back(sent);
        given_up
    }

    /// Adds what an older response spoke of to what the oldest one under way did; says whether one
    /// is under way.
    pub(crate) fn merge_into_next(&mut self, contents: &Contents) -> bool {
        let Some(next) = self.responses.front_mut() else { return false };
        // Of a key that both spoke of, the newer says what it is.
        next.contents = Contents::new(next.contents.iter().chain(contents.iter()).collect());
        true
    }

    /// Lets the next response go although the last was not answered.
    pub(crate) fn release(&mut self) {
        self.released = true;
    }

    /// Whether the next response may go.
    pub(crate) fn is_clear(&self, now: Time, wait: Duration) -> bool {
        self.released || self.deadline(wait).is_none_or(|until| now >= until)
    }

    /// When the next response may go, if that takes time.
    pub(crate) fn clear_at(&self, wait: Duration) -> Option<Time> {
        self.deadline(wait).filter(|_| !self.released)
    }

    /// Whether every response was answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// When the next response may go without an answer to the last.
    pub(crate) fn deadline(&self, wait: Duration) -> Option<Time> {
        self.responses.back().map(|sent| sent.at + wait)
    }

    /// Takes out the oldest response if one with that nonce is under way and newer.
    pub(crate) fn take_older_than(&mut self, nonce: &str) -> Option<SentResponse> {
        let is_older = self.responses.iter().skip(1).any(|sent| *sent.nonce == *nonce);
        if is_older { self.responses.pop_front() } else { None }
    }

    /// Takes out the oldest response if it has that nonce: it is answered now.
    pub(crate) fn take(&mut self, nonce: &str, accepted: bool) -> Option<SentResponse> {
        self.responses.front().filter(|sent| *sent.nonce == *nonce)?;
        let answered = self.responses.pop_front()?;
        self.answered_nonce = Some(Arc::clone(&answered.nonce));
        if accepted {
            self.accepted_version = Some(Arc::clone(&answered.version));
        }
        Some(answered)
    }

    /// The version of the last response that was sent.
    pub(crate) fn last_sent(&self) -> Option<&Arc<str>> {
        self.sent_version.as_ref()
    }

    /// The version of the last response that was accepted.
    pub(crate) fn last_accepted(&self) -> Option<&Arc<str>> {
        self.accepted_version.as_ref()
    }

    /// Returns true if this is the nonce of the response that was answered last.
    pub(crate) fn is_answered(&self, nonce: &str) -> bool {
        self.answered_nonce.as_deref() == Some(nonce)
    }

    /// The keys under which responses under way give something.
    pub(crate) fn given(&self) -> impl Iterator<Item = Spelling> {
        let mentions = self.responses.iter().flat_map(|sent| sent.contents.iter());
        mentions.filter(|mention| mention.what.is_some()).map(|mention| mention.key)
    }

    /// Whether a response under way speaks of this key.
    pub(crate) fn mentions(&self, key: &str) -> bool {
        self.responses.iter().any(|sent| sent.contents.mentions(key))
    }
}

impl Contents {
    pub(crate) fn new(mentions: Vec<Mention>) -> Self {
        Self::Own(OwnContents::new(mentions))
    }

    /// Not in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Mention> {
        let (own, common) = match self {
            Self::Own(own) => (Some(own), None),
            Self::Shared { step, reconnected } => (None, Some((step, *reconnected))),
        };
        let common = common.into_iter().flat_map(|(step, reconnected)| {
            step.changes().map(move |change| Mention::of(change, reconnected))
        });
        own.into_iter().flat_map(OwnContents::iter).chain(common)
    }

    /// Whether the response spoke of this key.
    pub(crate) fn mentions(&self, key: &str) -> bool {
        match self {
            Self::Own(own) => own.mentions(key),
            Self::Shared { step, .. } => step.change_of(key).is_some(),
        }
    }
}

impl OwnContents {
    fn new(mut mentions: Vec<Mention>) -> Self {
        if !mentions.is_sorted_by(|one, next| one.key < next.key) {
            mentions.sort_by(|one, other| one.key.cmp(&other.key));
            mentions.dedup_by(|later, first| later.key == first.key);
        }
        let (mut new, mut known, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for mention in mentions {
            match mention.what {
                Some(what) if *what.name().as_str() == *mention.key => {
                    let list = if mention.is_new { &mut new } else { &mut known };
                    list.push(what);
                }
                _ => others.push(mention),
            }
        }
        Self { new: new.into(), known: known.into(), others: others.into() }
    }

    fn iter(&self) -> impl Iterator<Item = Mention> {
        let plain = |is_new| {
            move |what: &Arc<Resource>| Mention {
                key: what.name().shared(),
                what: Some(Arc::clone(what)),
                is_new,
            }
        };
        let new = self.new.iter().map(plain(true));
        new.chain(self.known.iter().map(plain(false))).chain(self.others.iter().cloned())
    }

    fn mentions(&self, key: &str) -> bool {
        let plain = |list: &[Arc<Resource>]| {
            list.binary_search_by(|what| what.name().as_str().cmp(key)).is_ok()
        };
        plain(&self.new)
            || plain(&self.known)
            || self.others.binary_search_by(|one| (*one.key).cmp(key)).is_ok()
    }
}

impl Mention {
    fn of(change: StepChange<'_>, reconnected: bool) -> Self {
        let is_new = change.old.is_none() && !reconnected;
        Self { key: change.name.shared(), what: change.new.cloned(), is_new }
    }
}

/// A client that changes names and never answers could otherwise make the list grow for ever.
const MOST_UNANSWERED: usize = 32;
