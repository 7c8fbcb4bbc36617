//! One resource in the cache: what is held of it, and what is wrong with it.
//!
//! ```text
//!              given, good                 given, good
//!   Requested ------------> Acked <----------------------------+
//!       |                     |                                |
//!       |  in the error       |  the same, value kept unless   |
//!       +---------------------+--> Nacked, DoesNotExist, ReceivedError, Timeout
//! ```
//!
//! Not here: who is told (`watchers`), and what follows for the stream (`receive`).

use std::sync::Arc;

use crate::client::{DecodedBody, ErrorKind, ServerId, WatchError};
use crate::{Resource, Time};

/// A resource as the cache holds it.
#[derive(Clone, Debug)]
pub struct CachedResource {
    /// Name and body, as the server sent them.
    pub resource: Arc<Resource>,
    /// What a decoder made of the body.
    pub decoded: Option<DecodedBody>,
    /// The resource's own version where the protocol gives one, else that of its response.
    pub version: Arc<str>,
    /// When it came, or was last confirmed.
    pub last_updated: Time,
    /// Who gave it.
    pub server: ServerId,
    /// When it must not be used any more.
    pub expires: Option<Time>,
}

/// How a resource stands with its server, as CSDS tells it (C-054).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceState {
    /// It was asked for and nothing is known.
    Requested,
    /// The newest that was sent is held.
    Acked,
    /// The newest that was sent cannot be used.
    Nacked,
    /// There is no such resource.
    DoesNotExist,
    /// The server said why it does not give it.
    ReceivedError,
    /// The server did not answer in time.
    Timeout,
}

/// The newest version that was rejected (C-061).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Which version.
    pub version: Arc<str>,
    /// Why.
    pub why: Arc<str>,
    /// When.
    pub at: Time,
}

/// What a watcher has to be told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::client) enum Change {
    /// The value is another, or there is none any more.
    Changed,
    /// What is wrong is something else now, or nothing.
    Ambient,
    None,
}

/// A resource that somebody watches.
#[derive(Clone, Debug, Default)]
pub(in crate::client) struct CacheEntry {
    cached: Option<CachedResource>,
    error: Option<Arc<WatchError>>,
    rejection: Option<Rejection>,
    /// Whether its time to live ran out, which says nothing of whether there is one.
    outlived: bool,
    /// Whether what is held is from an earlier run, and nobody has said it again.
    restored: bool,
    /// True if the servers went away after all of this was said, so that their absence is what its
    /// watchers heard last.
    cut_off: bool,
    /// True if it is from before its server was given up, and nobody has said it again.
    doubted: bool,
}

impl CacheEntry {
    pub(in crate::client) fn cached(&self) -> Option<&CachedResource> {
        self.cached.as_ref()
    }

    pub(in crate::client) fn error(&self) -> Option<&Arc<WatchError>> {
        self.error.as_ref()
    }

    /// Returns the error that holds now, if the servers are in this trouble or in none: whichever
    /// of the two came last (C-067).
    pub(in crate::client) fn reason<'a>(
        &'a self,
        trouble: Option<&'a Arc<WatchError>>,
    ) -> Option<&'a Arc<WatchError>> {
        let error = self.error.as_ref();
        if self.cut_off { trouble.or(error) } else { error.or(trouble) }
    }

    /// The servers cannot be reached, or can be again.
    pub(in crate::client) fn cut_off(&mut self, is_away: bool) -> Change {
        let was_cut_off = std::mem::replace(&mut self.cut_off, is_away);
        if !is_away && !was_cut_off && self.error.is_some() {
            return Change::None; // That error is what was heard last.
        }
        if self.cached.is_some() { Change::Ambient } else { Change::Changed }
    }

    /// The servers could not be reached before, and cannot now. That is news if something else was
    /// heard meanwhile.
    pub(in crate::client) fn cut_off_again(&mut self) -> Change {
        if self.cut_off || self.error.is_none() { Change::None } else { self.cut_off(true) }
    }

    /// Whether what is held is from this server.
    pub(in crate::client) fn is_from(&self, server: ServerId) -> bool {
        self.cached.as_ref().is_some_and(|held| held.server == server)
    }

    /// Whether anything that is known of it is from this server.
    pub(in crate::client) fn is_known_from(&self, server: ServerId) -> bool {
        let error = self.error.as_ref().and_then(|error| error.server);
        self.is_from(server) || error == Some(server)
    }

    /// Whether it is as this server said last, or nothing is known of it.
    pub(in crate::client) fn is_as_said_by(&self, server: ServerId) -> bool {
        let value = self.cached.as_ref().is_none_or(|held| held.server == server);
        let error = self.error.as_ref().is_none_or(|error| error.server == Some(server));
        value && error && !self.outlived && !self.is_old()
    }

    pub(in crate::client) fn rejection(&self) -> Option<&Rejection> {
        self.rejection.as_ref()
    }

    /// Takes back a value from an earlier run, if nothing at all is known. Whether that was so.
    pub(in crate::client) fn restore(&mut self, held: CachedResource) -> bool {
        let is_news = self.is_unknown();
        if is_news {
            *self = Self { cached: Some(held), restored: true, ..Self::default() };
        }
        is_news
    }

    /// The server that gave it is given up: when it is back, it has to say this again.
    pub(in crate::client) fn mark_unconfirmed(&mut self, server: ServerId) {
        self.doubted |= self.is_from(server);
    }

    /// Whether what is held is from an earlier run, and nobody has said it again.
    pub(in crate::client) fn is_restored(&self) -> bool {
        self.restored
    }

    /// Returns true if what is held is from an earlier run, or from before its server was given up,
    /// and nobody has said it again.
    pub(in crate::client) fn is_old(&self) -> bool {
        self.restored || self.doubted
    }

    /// The same, and this server has not said either that something is wrong with it.
    pub(in crate::client) fn is_old_to(&self, server: ServerId) -> bool {
        let names = |error: &Arc<WatchError>| {
            let is_word = matches!(error.kind, ErrorKind::Rejected | ErrorKind::Refused(_));
            is_word && error.server == Some(server)
        };
        self.is_old() && !self.error.as_ref().is_some_and(names)
    }

    /// Whether it is neither held nor known not to exist (C-087).
    pub(in crate::client) fn is_unresolved(&self) -> bool {
        let missing = self.error.as_ref().is_some_and(|error| error.is_missing());
        self.cached.is_none() && (self.outlived || !missing)
    }

    /// Whether nothing at all is known of it.
    pub(in crate::client) fn is_unknown(&self) -> bool {
        self.cached.is_none() && self.error.is_none()
    }

    /// Returns true if a resource that nobody can name may be this one: there is no value, and
    /// nobody said of this name why.
    pub(in crate::client) fn may_be_nameless(&self) -> bool {
        let is_open = |error: &Arc<WatchError>| {
            error.is_nameless || matches!(error.kind, ErrorKind::Missing | ErrorKind::Late)
        };
        self.cached.is_none() && self.error.as_ref().is_none_or(is_open)
    }

    /// Returns true if something is known of it, and there is no value.
    pub(in crate::client) fn is_without_value(&self) -> bool {
        self.cached.is_none() && self.error.is_some()
    }

    /// A good body came. The same body again is no news (C-049), unless what it means has changed
    /// with the server (C-082).
    pub(in crate::client) fn accept(&mut self, new: CachedResource) -> Change {
        self.rejection = None;
        self.outlived = false;
        self.restored = false;
        self.cut_off = false;
        self.doubted = false;
        let had_error = self.error.take().is_some();
        let follows = new.resource.facts().reports_to_server;
        let same = self.cached.as_ref().is_some_and(|old| {
            old.resource.body() == new.resource.body() && !(follows && old.server != new.server)
        });
        let reading = self.cached.take().and_then(|old| old.decoded);
        let mut new = new;
        if same {
            new.decoded = reading.or(new.decoded);
        }
        self.cached = Some(new);
        match (same, had_error) {
            (false, _) => Change::Changed,
            (true, true) => Change::Ambient,
            (true, false) => Change::None,
        }
    }

    /// The body lives on (a heartbeat).
    pub(in crate::client) fn renew(&mut self, now: Time, expires: Option<Time>) {
        self.restored = false;
        self.doubted = false;
        if let Some(held) = &mut self.cached {
            held.last_updated = now;
            held.expires = expires;
        }
    }

    /// Something is wrong. What is held is kept, unless it must be dropped (C-070).
    pub(in crate::client) fn set_error(&mut self, error: WatchError, drops: bool) -> Change {
        let drops = drops && self.cached.is_some();
        let was_cut_off = std::mem::take(&mut self.cut_off);
        if !drops && !was_cut_off && self.error.as_deref() == Some(&error) {
            return Change::None;
        }
        let was_missing = self.error.as_ref().is_some_and(|error| error.is_missing());
        if self.cached.is_none() && was_missing && error.is_missing() && !was_cut_off {
            // Another reason why there is none is no news to who knows that there is none.
            self.error = Some(Arc::new(error));
            return Change::None;
        }
        self.outlived = false;
        self.error = Some(Arc::new(error));
        if drops {
            self.cached = None;
        }
        if self.cached.is_some() { Change::Ambient } else { Change::Changed }
    }

    /// Its time to live is over: what is held is dropped, wherever there may be more (C-045).
    pub(in crate::client) fn expire(&mut self, error: WatchError) -> Change {
        let news = self.set_error(error, true);
        self.outlived = true;
        news
    }

    /// An error is over, if it is this one. Without a value there is another one to be told.
    pub(in crate::client) fn recover(&mut self, from: &WatchError, missing: WatchError) -> Change {
        if self.error.as_deref() != Some(from) {
            return Change::None;
        }
        if self.cached.is_none() {
            return self.set_error(missing, false);
        }
        self.error = None;
        Change::Ambient
    }

    pub(in crate::client) fn reject(&mut self, rejection: Rejection) {
        self.rejection = Some(rejection);
    }

    pub(in crate::client) fn state(&self) -> ResourceState {
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
}
