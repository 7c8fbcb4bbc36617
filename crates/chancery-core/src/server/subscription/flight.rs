//! The responses under way: sent, and not yet answered by the client.
//!
//! At most one response of a type is under way at a time, so that a client is never more than one
//! answer behind; later changes wait as state (S-042). A request that changes names lets the next
//! response go without an answer, and so does time, because some clients forget to answer (T-03).
//!
//! The first request with the nonce of a response under way answers that response, even if newer
//! responses are under way (S-037, [resource updates]). Some clients ask for more names before they
//! have read the response to the last request. They answer all responses later, in order and each
//! once.
//!
//! [resource updates]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-updates

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::interest::Spelling;
use crate::server::held_bytes;
use crate::step::{Step, StepChange};
use crate::{Resource, Time};

/// The responses under way, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    responses: VecDeque<SentResponse>,
    /// The bytes that are kept of their contents, about.
    content_bytes: usize,
    /// True if the next response may go although the last was not answered.
    released: bool,
    /// The nonce of the response that was answered last. Requests repeat it until the client has
    /// read the next response.
    answered_nonce: Option<Arc<str>>,
    /// The version of the last response that was sent.
    sent_version: Option<Arc<str>>,
    /// The last response that was accepted.
    accepted: Option<AcceptedResponse>,
}

/// The version of a response that the client accepted, and when it did.
#[derive(Debug)]
struct AcceptedResponse {
    version: Arc<str>,
    at: Time,
}

/// One response under way.
#[derive(Debug)]
pub(crate) struct SentResponse {
    pub(crate) nonce: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) at: Time,
    pub(crate) contents: Contents,
}

/// The keys that a response told the client about, each once. Resources that are in it only because
/// it states the whole state do not count.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// The keys that were due to this client alone.
    Own(OwnContents),
    /// The names that were due to every client with a wildcard and the same set before.
    Shared {
        step: Step,
        /// True if the client says that it accepted a version on an earlier stream.
        reconnected: bool,
    },
}

/// The keys that were due to one client. Most are resources under their own names, so that each of
/// thousands is one pointer as long as the response is under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnContents {
    /// The resources under their own names of which the client had nothing.
    new: Box<[Arc<Resource>]>,
    /// The resources under their own names of which the client had something.
    known: Box<[Arc<Resource>]>,
    /// All other keys.
    others: Box<[Mention]>,
    /// The bytes of the texts of the other keys.
    texts: usize,
}

/// A key that a response told the client about.
#[derive(Clone, Debug)]
pub(crate) struct Mention {
    pub(crate) key: Spelling,
    /// The resource that was given under the key; `None` if the client was told that there is none.
    pub(crate) resource: Option<Arc<Resource>>,
    /// True if this stream had given the client nothing under the key before.
    pub(crate) is_new: bool,
}

impl Flight {
    /// Adds a response. Returns the oldest ones if there are too many, or if they mention too many
    /// keys together: no answer to them is expected any more.
    pub(crate) fn push(&mut self, sent: SentResponse) -> Vec<SentResponse> {
        self.released = false;
        self.sent_version = Some(Arc::clone(&sent.version));
        let given_up = if self.responses.is_empty() { Vec::new() } else { self.give_up() };
        if self.responses.is_empty() {
            self.responses.reserve_exact(1); // There is rarely a second.
        }
        self.content_bytes += sent.contents.held_bytes();
        self.responses.push_back(sent);
        given_up
    }

    /// Takes out the oldest responses until another one may be added.
    fn give_up(&mut self) -> Vec<SentResponse> {
        let mut mentions: usize = self.responses.iter().map(|sent| sent.contents.own_len()).sum();
        let mut given_up = Vec::new();
        while (self.responses.len() >= MOST_UNANSWERED || mentions > MOST_MENTIONS)
            && let Some(oldest) = self.responses.pop_front()
        {
            mentions -= oldest.contents.own_len();
            self.content_bytes -= oldest.contents.held_bytes();
            given_up.push(oldest);
        }
        given_up
    }

    /// Adds the contents of older responses, the oldest first, to those of the oldest one under way.
    /// Returns false if none is under way.
    pub(crate) fn merge_into_next<'a>(
        &mut self,
        older: impl DoubleEndedIterator<Item = &'a Contents>,
    ) -> bool {
        let Some(next) = self.responses.front_mut() else { return false };
        // If several mention a key, what the newest one gives under it counts.
        let older = older.rev().flat_map(Contents::iter);
        self.content_bytes -= next.contents.held_bytes();
        next.contents = Contents::new(next.contents.iter().chain(older).collect());
        self.content_bytes += next.contents.held_bytes();
        true
    }

    /// Lets the next response go although the last one was not answered.
    pub(crate) fn release(&mut self) {
        self.released = true;
    }

    /// Returns true if the next response may be sent.
    pub(crate) fn may_send_next(&self, now: Time, wait: Duration) -> bool {
        self.released || self.deadline(wait).is_none_or(|until| now >= until)
    }

    /// The time from which the next response may be sent, if it has to wait.
    pub(crate) fn may_send_next_at(&self, wait: Duration) -> Option<Time> {
        self.deadline(wait).filter(|_| !self.released)
    }

    /// Returns true if the client has answered every response.
    pub(crate) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// The time from which the next response may be sent although the last one was not answered.
    pub(crate) fn deadline(&self, wait: Duration) -> Option<Time> {
        self.responses.back().map(|sent| sent.at + wait)
    }

    /// Takes out the responses that are older than the one with that nonce, if there is one.
    pub(crate) fn take_older_than(&mut self, nonce: &str) -> Vec<SentResponse> {
        let at = self.responses.iter().skip(1).position(|sent| *sent.nonce == *nonce);
        let Some(at) = at else { return Vec::new() };
        let older: Vec<_> = self.responses.drain(..=at).collect();
        self.content_bytes -= older.iter().map(|sent| sent.contents.held_bytes()).sum::<usize>();
        older
    }

    /// Takes out the oldest response if it has that nonce: the client has answered it, and has accepted it at
    /// that time if there is one.
    pub(crate) fn take(&mut self, nonce: &str, accepted: Option<Time>) -> Option<SentResponse> {
        self.responses.front().filter(|sent| *sent.nonce == *nonce)?;
        let answered = self.responses.pop_front()?;
        if self.responses.is_empty() {
            // An idle stream keeps no room for one, in any of its types.
            self.responses = VecDeque::new();
        }
        self.content_bytes -= answered.contents.held_bytes();
        self.answered_nonce = Some(Arc::clone(&answered.nonce));
        if let Some(at) = accepted {
            self.accepted = Some(AcceptedResponse { version: Arc::clone(&answered.version), at });
        }
        Some(answered)
    }

    /// The version of the last response that was sent.
    pub(crate) fn last_sent(&self) -> Option<&Arc<str>> {
        self.sent_version.as_ref()
    }

    /// The version of the last response that was accepted.
    pub(crate) fn last_accepted(&self) -> Option<&Arc<str>> {
        self.accepted.as_ref().map(|accepted| &accepted.version)
    }

    /// The time at which the client last accepted a response.
    pub(crate) fn last_accepted_at(&self) -> Option<Time> {
        self.accepted.as_ref().map(|accepted| accepted.at)
    }

    /// Returns true if this is the nonce of the response that was answered last.
    pub(crate) fn is_answered(&self, nonce: &str) -> bool {
        self.answered_nonce.as_deref() == Some(nonce)
    }

    /// The time of the oldest response under way.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.responses.front().map(|sent| sent.at)
    }

    /// The contents of the responses under way, the oldest first.
    pub(crate) fn contents(&self) -> impl Iterator<Item = &Contents> {
        self.responses.iter().map(|sent| &sent.contents)
    }

    /// The mentions of what responses under way give.
    pub(crate) fn given(&self) -> impl Iterator<Item = Mention> {
        let mentions = self.responses.iter().flat_map(|sent| sent.contents.iter());
        mentions.filter(|mention| mention.resource.is_some())
    }

    /// Returns true if a response under way mentions this key.
    pub(crate) fn mentions(&self, key: &str) -> bool {
        self.responses.iter().any(|sent| sent.contents.mentions(key))
    }

    /// The keys that responses under way mention, to be looked up.
    pub(crate) fn mentioned(&self) -> MentionedKeys<'_> {
        if self.responses.len() <= 1 {
            return MentionedKeys::Few(self);
        }
        let keys = self.responses.iter().flat_map(|sent| sent.contents.iter());
        let mut keys: Vec<_> = keys.map(|mention| mention.key).collect();
        keys.sort_unstable();
        MentionedKeys::Sorted(keys)
    }

    /// The bytes that are kept of the responses under way, about. A name that was not given counts
    /// again although it may be that of the interest, because it outlives its subscription here.
    pub(crate) fn held_bytes(&self) -> usize {
        self.responses.capacity() * size_of::<SentResponse>() + self.content_bytes
    }
}

/// The keys that responses under way mention. Those of many responses are put in order first, so that
/// a key is not looked for in each of them.
pub(crate) enum MentionedKeys<'a> {
    Few(&'a Flight),
    Sorted(Vec<Spelling>),
}

impl MentionedKeys<'_> {
    /// Returns true if a key is among them.
    pub(crate) fn contains(&self, key: &Spelling) -> bool {
        match self {
            Self::Few(flight) => flight.mentions(key),
            Self::Sorted(keys) => keys.binary_search(key).is_ok(),
        }
    }
}

impl Contents {
    pub(crate) fn new(mentions: Vec<Mention>) -> Self {
        Self::Own(OwnContents::new(mentions))
    }

    /// The bytes that are kept for the client, about.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Own(own) => own.held_bytes(),
            Self::Shared { .. } => 0,
        }
    }

    /// The number of keys that were due to this client alone.
    fn own_len(&self) -> usize {
        match self {
            Self::Own(own) => own.len(),
            Self::Shared { .. } => 0,
        }
    }

    /// All mentions, in no special order.
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

    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Own(own) => own.len(),
            Self::Shared { step, .. } => step.len(),
        }
    }

    /// The mention of a key.
    pub(crate) fn find(&self, key: &str) -> Option<Mention> {
        match self {
            Self::Own(own) => own.find(key),
            Self::Shared { step, reconnected } => {
                step.change_of(key).map(|change| Mention::of(change, *reconnected))
            }
        }
    }

    /// Returns true if the response mentions this key.
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
            let has_own_text = mention.has_own_text();
            match mention.resource {
                Some(resource) if !has_own_text => {
                    let list = if mention.is_new { &mut new } else { &mut known };
                    list.push(resource);
                }
                _ => others.push(mention),
            }
        }
        let texts = others.iter().map(Mention::own_text_bytes).sum();
        Self { new: new.into(), known: known.into(), others: others.into(), texts }
    }

    fn held_bytes(&self) -> usize {
        (self.new.len() + self.known.len()) * size_of::<Arc<Resource>>()
            + self.others.len() * size_of::<Mention>()
            + self.texts
    }

    fn len(&self) -> usize {
        self.new.len() + self.known.len() + self.others.len()
    }

    fn find(&self, key: &str) -> Option<Mention> {
        let plain = |list: &[Arc<Resource>], is_new| {
            let at = list.binary_search_by(|resource| resource.name().as_str().cmp(key)).ok()?;
            let resource = Arc::clone(&list[at]);
            Some(Mention { key: resource.name().shared(), resource: Some(resource), is_new })
        };
        let other = || {
            let at = self.others.binary_search_by(|one| (*one.key).cmp(key)).ok()?;
            Some(self.others[at].clone())
        };
        plain(&self.new, true).or_else(|| plain(&self.known, false)).or_else(other)
    }

    fn iter(&self) -> impl Iterator<Item = Mention> {
        let plain = |is_new| {
            move |resource: &Arc<Resource>| Mention {
                key: resource.name().shared(),
                resource: Some(Arc::clone(resource)),
                is_new,
            }
        };
        let new = self.new.iter().map(plain(true));
        new.chain(self.known.iter().map(plain(false))).chain(self.others.iter().cloned())
    }

    fn mentions(&self, key: &str) -> bool {
        let plain = |list: &[Arc<Resource>]| {
            list.binary_search_by(|resource| resource.name().as_str().cmp(key)).is_ok()
        };
        plain(&self.new)
            || plain(&self.known)
            || self.others.binary_search_by(|one| (*one.key).cmp(key)).is_ok()
    }
}

impl Mention {
    fn of(change: StepChange<'_>, reconnected: bool) -> Self {
        let is_new = change.old.is_none() && !reconnected;
        Self { key: change.name.shared(), resource: change.new.cloned(), is_new }
    }

    /// Returns true if the text of the key is not that of the resource, so that it may be kept for the
    /// client alone.
    pub(crate) fn has_own_text(&self) -> bool {
        self.resource.as_ref().is_none_or(|resource| *resource.name().as_str() != *self.key)
    }

    /// The bytes of the text, if it is not that of the resource.
    pub(crate) fn own_text_bytes(&self) -> usize {
        if self.has_own_text() { held_bytes::text(self.key.len()) } else { 0 }
    }
}

/// The most responses under way. A client that changes names and never answers could otherwise make
/// the list grow for ever.
const MOST_UNANSWERED: usize = 32;
/// The most keys that older responses under way mention together when another one is sent.
const MOST_MENTIONS: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn mention(key: &str) -> Mention {
        Mention { key: key.into(), resource: None, is_new: false }
    }

    fn sent(nonce: usize) -> SentResponse {
        let contents = Contents::new(vec![mention(&"n".repeat(nonce)), mention("other")]);
        let nonce = nonce.to_string().into();
        SentResponse { nonce, version: "".into(), at: Time::default(), contents }
    }

    #[test]
    fn the_bytes_of_responses_are_kept_as_they_come_and_go() {
        let mut flight = Flight::default();
        let check = |flight: &Flight| {
            let contents = flight.responses.iter().map(|sent| sent.contents.held_bytes());
            assert_eq!(flight.content_bytes, contents.sum());
        };
        for nonce in 0..2 * MOST_UNANSWERED {
            flight.push(sent(nonce));
            check(&flight);
        }
        let nonce = |at: usize| (MOST_UNANSWERED + at).to_string();
        assert_eq!(flight.take_older_than(&nonce(3)).len(), 3);
        check(&flight);
        let answered = flight.take(&nonce(3), None).unwrap();
        check(&flight);
        assert!(flight.merge_into_next(std::iter::once(&answered.contents)));
        check(&flight);
        assert!(flight.content_bytes > 0);
        flight.take_older_than(&nonce(MOST_UNANSWERED - 1));
        flight.take(&nonce(MOST_UNANSWERED - 1), Some(Time::default()));
        assert_eq!(flight.content_bytes, 0);
    }
}
