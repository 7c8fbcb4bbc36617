//! One type on one stream: the names that the server was told, and the answers it is owed.
//!
//! Names that were asked for and are unknown run out of time (C-065): the clock starts when the
//! request leaves, and stops with the stream. Not here: the requests themselves (`requests`), which
//! names are wanted (`cache`), and whether a response is good (`machine`).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::timers::ResourceTimers;
use crate::client::watching::{EVERYTHING, is_collection};
use crate::{ErrorDetail, ResourceName, Time, TypeUrl};

/// One type on one stream.
#[derive(Debug)]
pub(crate) struct ClientSubscription {
    pub(super) type_url: TypeUrl,
    /// The names that the server was told; `None` before the first request.
    pub(super) subscribed: Option<BTreeSet<ResourceName>>,
    /// Names that may have become wanted or unwanted since the server was told.
    pub(super) changed: BTreeSet<ResourceName>,
    /// Names that the server was told, and of which it has to say again what it said.
    pub(super) asking_again: BTreeSet<ResourceName>,
    /// Names of which the server said something that did not count, as another one was believed. It
    /// has to say that again once it is believed itself (C-089).
    pub(super) ignored: BTreeSet<ResourceName>,
    /// True if a name was ever sent: if not, an empty list means everything (C-033).
    pub(super) has_named: bool,
    /// The nonce of the newest response.
    pub(super) nonce: Arc<str>,
    /// The answers that are owed, in the order of their responses.
    pub(super) owed: VecDeque<OwedAnswer>,
    pub(super) timers: ResourceTimers,
    /// Resources from before the stream whose versions the server was told in the first request
    /// (C-040): its silence confirms them.
    pub(super) announced: BTreeSet<ResourceName>,
}

/// The answer to a response.
#[derive(Debug)]
pub(super) struct OwedAnswer {
    pub(super) nonce: Arc<str>,
    /// The version that is accepted by then: that of the response, or the one before it.
    pub(super) version: Arc<str>,
    /// The reason to reject the response, if it is rejected.
    pub(super) error: Option<ErrorDetail>,
}

impl ClientSubscription {
    pub(super) fn new(type_url: TypeUrl) -> Self {
        Self {
            type_url,
            subscribed: None,
            changed: BTreeSet::new(),
            asking_again: BTreeSet::new(),
            ignored: BTreeSet::new(),
            has_named: false,
            nonce: "".into(),
            owed: VecDeque::new(),
            timers: ResourceTimers::default(),
            announced: BTreeSet::new(),
        }
    }

    /// Returns true if anything was ever asked for.
    pub(super) fn was_asked(&self) -> bool {
        self.subscribed.is_some()
    }

    /// Returns true if the server was told that this is wanted.
    pub(crate) fn is_subscribed(&self, name: &ResourceName) -> bool {
        self.subscribed.as_ref().is_some_and(|names| names.contains(name))
    }

    /// Returns true if the server was told that everything is wanted.
    pub(super) fn is_subscribed_to_all(&self) -> bool {
        self.subscribed.as_ref().is_some_and(|names| names.contains(EVERYTHING))
    }

    /// Returns true if the server knows that a resource is wanted: by its name, with its collection
    /// or with all others.
    pub(crate) fn covers(&self, name: &ResourceName) -> bool {
        let in_collection = || name.collection().is_some_and(|glob| self.is_subscribed(&glob));
        self.is_subscribed(name) || in_collection() || self.is_subscribed_to_all()
    }

    /// Returns true if the server knows which version the client has of a resource from before.
    pub(crate) fn was_announced(&self, name: &ResourceName) -> bool {
        self.announced.contains(name)
    }

    /// A name may have become wanted or unwanted.
    pub(crate) fn name_changed(&mut self, name: &ResourceName) {
        self.changed.insert(name.clone());
    }

    /// The server has to say again what it said of a name, as that is not known any more.
    pub(crate) fn ask_again(&mut self, name: &ResourceName) {
        if self.is_subscribed(name) {
            self.asking_again.insert(name.clone());
        }
    }

    /// The server said something of a name that does not count.
    pub(crate) fn note_ignored(&mut self, name: &ResourceName) {
        if self.is_subscribed(name) {
            self.ignored.insert(name.clone());
        }
    }

    /// The words of the server on these names count from now on, and it has to repeat those that
    /// did not.
    pub(super) fn ask_again_for_ignored(&mut self, counts: impl Fn(&ResourceName) -> bool) {
        let again = self.ignored.extract_if(.., |name| counts(name));
        self.asking_again.extend(again);
    }

    /// A response has to be answered: with the version that is accepted now, and with what is wrong
    /// with it, if anything is.
    pub(crate) fn owe_answer(
        &mut self,
        nonce: &Arc<str>,
        version: Arc<str>,
        error: Option<ErrorDetail>,
    ) {
        self.nonce = Arc::clone(nonce);
        self.owed.push_back(OwedAnswer { nonce: Arc::clone(nonce), version, error });
    }

    /// Returns the number of responses that are not answered.
    pub(super) fn owed_answers(&self) -> usize {
        self.owed.len()
    }

    /// A name that the server was asked for has until then.
    pub(crate) fn start_timer(&mut self, name: &ResourceName, until: Time) {
        if self.is_subscribed(name) {
            self.timers.start(name, until);
        }
    }

    /// The server spoke of a name. The wait for a resource is over then; the members of a
    /// collection may come in more than one response.
    pub(crate) fn note_received(&mut self, name: &ResourceName) {
        self.ignored.remove(name);
        self.timers.end_suspension(name);
        if !is_collection(name) {
            self.timers.stop(name);
        }
    }

    /// The time of a name stands still.
    pub(crate) fn suspend_timer(&mut self, name: &ResourceName) {
        self.timers.suspend(name);
    }

    /// Names whose time stood still have until then.
    pub(crate) fn resume_timers(&mut self, until: Time) {
        for name in self.timers.take_suspended() {
            self.start_timer(&name, until);
        }
    }

    /// Returns true if the server has spoken of all it was asked for, or need not.
    pub(super) fn awaits_nothing(&self) -> bool {
        self.timers.is_empty()
    }

    /// Returns the next name whose time is over.
    pub(super) fn next_timed_out(&mut self, now: Time) -> Option<ResourceName> {
        self.timers.next_timed_out(now)
    }

    /// Returns the time at which the next wait ends.
    pub(super) fn deadline(&mut self) -> Option<Time> {
        self.timers.next()
    }

    /// Returns true if the next request rejects something.
    pub(super) fn rejects(&self) -> bool {
        self.owed.front().is_some_and(|answer| answer.error.is_some())
    }

    /// Returns true if there may be something to say.
    pub(super) fn may_be_due(&self) -> bool {
        self.may_ask_more() || !self.owed.is_empty()
    }

    /// Returns true if there may be something to ask for that was not asked for before.
    pub(super) fn may_ask_more(&self) -> bool {
        self.subscribed.is_none() || !self.changed.is_empty() || !self.asking_again.is_empty()
    }
}
