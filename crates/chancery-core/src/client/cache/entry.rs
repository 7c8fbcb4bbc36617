//! One resource in the cache: the value that is held, and the error that goes with it.
//!
//! ```text
//!              given, good                 given, good
//!   Requested ------------> Acked <----------------------------+
//!       |                     |                                |
//!       |  in the error       |  the same, value kept unless   |
//!       +---------------------+--> Nacked, DoesNotExist, ReceivedError, Timeout
//! ```
//!
//! Every change says what its watchers have to hear. Not here: who they are (`watching`), and what
//! follows for the stream (`machine`).

use std::sync::Arc;

use crate::Time;
use crate::client::error::{ErrorKind, WatchError};
use crate::client::ids::ServerId;
use crate::client::resource::{CachedResource, Rejection, ResourceState};
use crate::client::setup::ServerFeatures;
use crate::client::watching::ChangeKind;

/// A resource that somebody watches.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheEntry {
    cached: Option<CachedResource>,
    error: Option<Arc<WatchError>>,
    rejection: Option<Rejection>,
    confirmation: Confirmation,
    /// True if its time to live ran out, which says nothing of whether there is one.
    expired: bool,
    /// True if the servers went away after all of this was said, so that their absence is what its
    /// watchers heard last.
    outage_is_newer: bool,
}

/// The trust in a value: it may be used, and its server may have to say it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Confirmation {
    /// The server said it, and was not given up since.
    #[default]
    Confirmed,
    /// It is from an earlier run.
    Restored,
    /// It is from before its server was given up.
    Unconfirmed,
}

/// The treatment of a value when an error comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnError {
    /// The value is kept (gRFC A88).
    Keep,
    /// The value is dropped (C-070).
    Drop,
}

impl OnError {
    /// Returns the treatment of a value when its server says that data is wrong.
    pub(crate) fn of_data(features: ServerFeatures) -> Self {
        if features.fail_on_data_errors { Self::Drop } else { Self::Keep }
    }
}

impl CacheEntry {
    pub(crate) fn cached(&self) -> Option<&CachedResource> {
        self.cached.as_ref()
    }

    pub(crate) fn error(&self) -> Option<&Arc<WatchError>> {
        self.error.as_ref()
    }

    pub(crate) fn rejection(&self) -> Option<&Rejection> {
        self.rejection.as_ref()
    }

    /// Returns the error that holds now, during an outage of the servers or not: whichever of the
    /// two came last (C-067).
    pub(super) fn error_during<'a>(
        &'a self,
        outage: Option<&'a Arc<WatchError>>,
    ) -> Option<&'a Arc<WatchError>> {
        let error = self.error.as_ref();
        if self.outage_is_newer { outage.or(error) } else { error.or(outage) }
    }

    pub(crate) fn state(&self) -> ResourceState {
        match self.error.as_ref().map(|error| error.kind) {
            None if self.cached.is_some() => ResourceState::Acked,
            None => ResourceState::Requested,
            Some(ErrorKind::Rejected) => ResourceState::Nacked,
            Some(ErrorKind::Missing) => ResourceState::DoesNotExist,
            Some(ErrorKind::Late) => ResourceState::Timeout,
            Some(
                ErrorKind::Refused(_)
                | ErrorKind::Name
                | ErrorKind::Authority
                | ErrorKind::Unreachable
                | ErrorKind::Broken,
            ) => ResourceState::ReceivedError,
        }
    }

    /// Returns true if the value is from this server.
    pub(crate) fn is_from(&self, server: ServerId) -> bool {
        self.cached.as_ref().is_some_and(|cached| cached.server == server)
    }

    /// Returns true if anything that is known is from this server.
    pub(super) fn is_known_from(&self, server: ServerId) -> bool {
        let error = self.error.as_ref().and_then(|error| error.server);
        self.is_from(server) || error == Some(server)
    }

    /// Returns true if all of it is as this server said last, or nothing is known.
    pub(super) fn is_as_said_by(&self, server: ServerId) -> bool {
        let value = self.cached.as_ref().is_none_or(|cached| cached.server == server);
        let error = self.error.as_ref().is_none_or(|error| error.server == Some(server));
        value && error && !self.expired && self.is_confirmed()
    }

    pub(super) fn is_restored(&self) -> bool {
        self.confirmation == Confirmation::Restored
    }

    /// Returns true unless the value is from an earlier run, or from before its server was given
    /// up.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmation == Confirmation::Confirmed
    }

    /// Returns true if this server has to say it again: it is not confirmed, and the server has not
    /// said either that something is wrong with it.
    pub(super) fn is_unconfirmed_by(&self, server: ServerId) -> bool {
        let is_its_word = |error: &Arc<WatchError>| {
            let is_word = matches!(error.kind, ErrorKind::Rejected | ErrorKind::Refused(_));
            is_word && error.server == Some(server)
        };
        !self.is_confirmed() && !self.error.as_ref().is_some_and(is_its_word)
    }

    /// Returns true if it is neither held nor known not to exist (C-087).
    pub(super) fn is_unresolved(&self) -> bool {
        self.cached.is_none() && (self.expired || !self.has_missing_error())
    }

    /// Returns true if there is no such resource, as far as is known.
    pub(super) fn is_known_missing(&self) -> bool {
        self.cached.is_none() && self.has_missing_error()
    }

    /// Returns true if its server said that it is no more.
    pub(super) fn has_missing_error(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.is_missing())
    }

    /// Returns true if nothing at all is known.
    pub(super) fn is_unknown(&self) -> bool {
        self.cached.is_none() && self.error.is_none()
    }

    /// Returns true if something is known, and there is no value.
    pub(super) fn is_without_value(&self) -> bool {
        self.cached.is_none() && self.error.is_some()
    }

    /// Returns true if a resource that nobody can name may be this one: there is no value, and
    /// nobody said of this name why.
    pub(super) fn may_be_nameless(&self) -> bool {
        let is_open = |error: &Arc<WatchError>| {
            error.is_nameless || matches!(error.kind, ErrorKind::Missing | ErrorKind::Late)
        };
        self.cached.is_none() && self.error.as_ref().is_none_or(is_open)
    }

    /// A good body came. The same body again is no news (C-049), unless what it means has changed
    /// with the server (C-082).
    pub(crate) fn accept(&mut self, mut new: CachedResource) -> Option<ChangeKind> {
        self.rejection = None;
        self.expired = false;
        self.outage_is_newer = false;
        self.confirmation = Confirmation::Confirmed;
        let had_error = self.error.take().is_some();
        let follows_server = new.resource.facts().reports_to_server;
        let is_same = self.cached.as_ref().is_some_and(|old| {
            old.resource.body() == new.resource.body()
                && !(follows_server && old.server != new.server)
        });
        let decoded = self.cached.take().and_then(|old| old.decoded);
        if is_same {
            new.decoded = decoded.or(new.decoded);
        }
        self.cached = Some(new);
        match (is_same, had_error) {
            (false, _) => Some(ChangeKind::Value),
            (true, true) => Some(ChangeKind::Ambient),
            (true, false) => None,
        }
    }

    /// The body lives on (a heartbeat).
    pub(crate) fn renew(&mut self, now: Time, expires: Option<Time>) {
        self.confirmation = Confirmation::Confirmed;
        if let Some(cached) = &mut self.cached {
            cached.last_updated = now;
            cached.expires = expires;
        }
    }

    /// A version was rejected.
    pub(crate) fn reject(&mut self, rejection: Rejection) {
        self.rejection = Some(rejection);
    }

    /// Something is wrong.
    pub(crate) fn set_error(&mut self, error: WatchError, on_error: OnError) -> Option<ChangeKind> {
        let drops = on_error == OnError::Drop && self.cached.is_some();
        let outage_was_newer = std::mem::take(&mut self.outage_is_newer);
        if !drops && !outage_was_newer && self.error.as_deref() == Some(&error) {
            return None;
        }
        if self.is_known_missing() && error.is_missing() && !outage_was_newer {
            // Another reason why there is none is no news to who knows that there is none.
            self.error = Some(Arc::new(error));
            return None;
        }
        self.expired = false;
        self.error = Some(Arc::new(error));
        if drops {
            self.cached = None;
        }
        Some(self.change_kind())
    }

    /// The time to live is over: the value is dropped, wherever there may be more (C-045).
    pub(super) fn expire(&mut self, error: WatchError) -> Option<ChangeKind> {
        let change = self.set_error(error, OnError::Drop);
        self.expired = true;
        change
    }

    /// An error is over, if it is this one. Without a value there is another one to be told.
    pub(super) fn clear_error(
        &mut self,
        over: &WatchError,
        missing: impl FnOnce() -> WatchError,
    ) -> Option<ChangeKind> {
        if self.error.as_deref() != Some(over) {
            return None;
        }
        if self.cached.is_none() {
            return self.set_error(missing(), OnError::Keep);
        }
        self.error = None;
        Some(ChangeKind::Ambient)
    }

    /// Takes back a value from an earlier run, if nothing at all is known. Returns true if that was
    /// so.
    pub(super) fn restore(&mut self, cached: CachedResource) -> bool {
        let is_news = self.is_unknown();
        if is_news {
            let confirmation = Confirmation::Restored;
            *self = Self { cached: Some(cached), confirmation, ..Self::default() };
        }
        is_news
    }

    /// The server that gave the value is given up: when it is back, it has to say this again.
    pub(super) fn mark_unconfirmed(&mut self, server: ServerId) {
        if self.is_from(server) && self.is_confirmed() {
            self.confirmation = Confirmation::Unconfirmed;
        }
    }

    /// An outage of the servers began.
    pub(super) fn begin_outage(&mut self) -> Option<ChangeKind> {
        self.outage_is_newer = true;
        Some(self.change_kind())
    }

    /// An outage of the servers is over.
    pub(super) fn end_outage(&mut self) -> Option<ChangeKind> {
        let outage_was_newer = std::mem::take(&mut self.outage_is_newer);
        // An error that came after the outage began is what was heard last.
        let is_news = outage_was_newer || self.error.is_none();
        is_news.then(|| self.change_kind())
    }

    /// The servers could not be reached before, and cannot now. That is news if something else was
    /// heard meanwhile.
    pub(super) fn repeat_outage(&mut self) -> Option<ChangeKind> {
        if self.outage_is_newer || self.error.is_none() { None } else { self.begin_outage() }
    }

    /// Returns what an error changes: with a value it only goes with that.
    fn change_kind(&self) -> ChangeKind {
        if self.cached.is_some() { ChangeKind::Ambient } else { ChangeKind::Value }
    }
}
