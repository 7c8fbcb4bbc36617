//! One type of one reference client: its interest, the interest it sent, and the resources it
//! holds.
//!
//! The accepted resources and their version survive a stream, as in real clients. Not here: the
//! requests in the two variants (`sotw`, `delta`), and the types of one stream together (`client`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::server::{Response, ResponseEntry};
use chancery_core::{Resource, Time};

use super::{Fault, Interest};

/// A resource a client holds.
#[derive(Clone, Debug)]
pub struct HeldResource {
    /// The resource itself.
    pub resource: Arc<Resource>,
    /// The time at which it is dropped unless its TTL is refreshed before.
    pub expires: Option<Time>,
}

/// The client's side of one type.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscription {
    pub(super) interest: Interest,
    pub(super) held: BTreeMap<Arc<str>, HeldResource>,
    /// The version accepted last; it survives streams (S-043).
    pub(super) version: Arc<str>,
    /// The interest that was last sent when that version was accepted.
    version_interest: Option<Interest>,
    /// The nonce answered last: a request with a newer one and no error would be an ACK. With
    /// [`super::Quirks::foreign_nonce`] it survives streams too.
    pub(super) nonce: Arc<str>,
    /// Names to subscribe to once more.
    pub(super) resubscribe: BTreeSet<Arc<str>>,
    pub(super) rejects: bool,

    // The fields below belong to the current stream.
    /// The interest that was last sent; `None` before the first request.
    pub(super) sent_interest: Option<Interest>,
    /// True if a request of this stream had names, `*` included (S-050).
    pub(super) named: bool,
    /// Everything that the client subscribed to on this stream.
    pub(super) ever_subscribed: Interest,
    /// All names that the server sent, accepted or not, and those that the client stated to hold.
    received_names: BTreeSet<Arc<str>>,
}

impl Subscription {
    /// Starts a new stream, for which only accepted resources are kept.
    pub(super) fn open(&mut self, blank: bool) {
        if blank {
            self.held.clear();
            self.version = "".into();
        }
        self.forget_version_of_others();
        let interest = &self.interest;
        self.held.retain(|name, _| interest.covers(name));
        self.resubscribe.clear();
        self.sent_interest = None;
        self.named = false;
        self.ever_subscribed = Interest::default();
        self.received_names = self.held.keys().cloned().collect();
    }

    /// Forgets the version if the resources held are not all that are wanted now: a first request that
    /// stated it would claim them (S-043).
    pub(super) fn forget_version_of_others(&mut self) {
        if self.version_interest.as_ref() != Some(&self.interest) {
            self.version = "".into();
        }
    }

    /// Checks the rules about single names that hold even if a request and a response cross.
    pub(super) fn check(&self, response: &Response) -> Result<(), Fault> {
        for entry in response.entries.iter() {
            let names = std::iter::once(&entry.name).chain(&entry.aliases);
            if !names.into_iter().any(|name| self.ever_subscribed.covers(name)) {
                return Err(Fault(format!("`{}` was never asked for (S-045)", entry.name)));
            }
            if entry.heartbeat && !self.received_names.contains(&entry.name) {
                return Err(Fault(format!("heartbeat for `{}`, never given (S-088)", entry.name)));
            }
        }
        let unasked = response.removed.iter().find(|name| !self.ever_subscribed.covers(name));
        unasked.map_or(Ok(()), |name| Err(Fault(format!("removed `{name}` was never asked for"))))
    }

    /// Records a response, whether it is accepted or rejected.
    pub(super) fn record_received(&mut self, response: &Response) {
        self.received_names.extend(response.entries.iter().map(|entry| Arc::clone(&entry.name)));
        self.rejects = true;
    }

    /// Takes in that a response was accepted.
    pub(super) fn accept(&mut self, version: &Arc<str>) {
        self.rejects = false;
        self.version = Arc::clone(version);
        self.version_interest.clone_from(&self.sent_interest);
    }

    /// Forgets the nonce of a type that is of no interest any more, and returns true if it is one
    /// (T-03). Its responses are not answered.
    pub(super) fn forget_nonce(&mut self) -> bool {
        let forgets = self.sent_interest.as_ref().is_some_and(Interest::is_nothing);
        if forgets {
            self.nonce = "".into();
        }
        forgets
    }

    /// Drops all resources of a type without interest if no request was sent on this stream: then no
    /// request is needed to unsubscribe.
    pub(super) fn drop_unasked(&mut self) {
        if self.sent_interest.is_none() && self.interest.is_nothing() {
            self.held.clear();
        }
    }

    /// Records that the interest is being sent, and drops the resources outside of it.
    pub(super) fn send_interest(&mut self) {
        let interest = self.interest.clone();
        self.held.retain(|name, _| interest.covers(name));
        if self.version_interest.as_ref().is_some_and(|of| *of != interest) {
            self.version_interest = None; // Some resources of that version are dropped.
        }
        self.ever_subscribed.all |= interest.all;
        self.ever_subscribed.names.extend(interest.names.iter().cloned());
        self.sent_interest = Some(interest);
    }

    /// Returns true if the interest that was last sent covers `name`.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.sent_interest.as_ref().is_some_and(|told| told.covers(name))
    }

    /// Stores one accepted entry.
    pub(super) fn store(&mut self, now: Time, entry: &ResponseEntry) {
        let Some(resource) = &entry.resource else {
            self.held.remove(&entry.name);
            return;
        };
        let expires = if entry.ttl { resource.ttl().map(|ttl| now + ttl) } else { None };
        if !entry.heartbeat {
            let holding = HeldResource { resource: Arc::clone(resource), expires };
            self.held.insert(Arc::clone(&entry.name), holding);
        } else if let Some(holding) = self.held.get_mut(&entry.name)
            && holding.resource.version() == resource.version()
        {
            holding.expires = expires;
        }
    }
}
