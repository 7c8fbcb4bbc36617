//! The status of one type on one stream: the resources the client wants, the version it has, and
//! what the stream waits for.
//!
//! All of it is read from the state that the stream works with. Only the client's words of a
//! rejection are kept for the status alone.

use std::sync::Arc;

use super::subscription::{Interest, Spelling, Subscription};
use super::{ResourcePage, ResourceQuery, UnsettledCounts};
use crate::{ErrorDetail, Time, TypeUrl};

/// The status of one type on one stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TypeStatus<'a> {
    /// The type.
    pub type_url: &'a TypeUrl,
    /// The names and wildcards that the client asked for.
    pub wanted: Wanted<'a>,
    /// The version of the last response that was sent.
    pub sent: Option<Arc<str>>,
    /// The version of the last response that the client accepted.
    pub acknowledged: Option<Arc<str>>,
    /// The time at which the client accepted it.
    pub acknowledged_at: Option<Time>,
    /// The last rejection, as long as rejected content is waiting for a change.
    pub rejection: Option<&'a Rejection>,
    /// The waits before the stream sends more of the type, or counts as landed.
    pub waits: Vec<Wait>,
    /// The numbers of resources that are not settled.
    pub unsettled: UnsettledCounts,
    /// True if the client is owed something, or there is a newer state that was not looked at yet.
    pub is_behind: bool,
    /// True if the client has acknowledged all it is owed, and nothing waits.
    pub has_landed: bool,
    pub(super) subscription: &'a Subscription,
}

impl<'a> TypeStatus<'a> {
    /// The state of each resource that the client wants or holds, as far as `query` asks.
    pub fn resources(&self, query: &ResourceQuery) -> ResourcePage {
        self.subscription.resources(query)
    }

    /// The names in rejected responses that wait for a change: what changed in them since the client
    /// accepted it last. One of them is at fault, or several are.
    pub fn suspects(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.subscription.refused_keys().map(|key| &**key)
    }
}

/// The names and wildcards that a client asked for, of one type.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a>(pub(super) &'a Interest);

/// A response that the client rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// The version of the response.
    pub version: Arc<str>,
    /// The client's reason in its own words, of which at most [`Rejection::MAX_MESSAGE`] bytes are
    /// kept. It may quote the resource with its secrets, so it is not for logs or dumps (S-138).
    pub error: ErrorDetail,
}

/// A wait of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The reason.
    pub reason: WaitReason,
    /// The end of the wait at the latest, if there is one.
    pub until: Option<Time>,
}

/// A reason to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitReason {
    /// There is no snapshot for the client yet.
    Snapshot,
    /// The client has not answered the last response (S-042).
    Answer,
    /// Routes wait until the client can use new clusters that they may point to (S-097).
    Clusters,
    /// So many removals wait until nothing uses the resources (S-098).
    Removals(usize),
    /// The source does not know yet whether so many names exist. The number is 0 if a wildcard or
    /// glob waits for its members.
    Source(usize),
}

impl<'a> Wanted<'a> {
    /// Returns true if the client asked for the wildcard.
    pub fn everything(&self) -> bool {
        self.0.wildcard()
    }

    /// The number of names that the client asked for.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the client asked for no name.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// The names that the client asked for, in its own spelling.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.0.all_names().map(|name: &Spelling| &**name)
    }
}

impl Rejection {
    /// The number of bytes that are kept of the client's words.
    pub const MAX_MESSAGE: usize = 1024;

    /// A rejection with as much of the client's words as is kept.
    pub(super) fn new(version: Arc<str>, error: &ErrorDetail) -> Self {
        let text = &error.message;
        let end = text.floor_char_boundary(Self::MAX_MESSAGE);
        Self { version, error: ErrorDetail { code: error.code, message: text[..end].to_owned() } }
    }
}
