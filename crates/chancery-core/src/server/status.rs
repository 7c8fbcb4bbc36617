//! The status of one type on one stream: what is wanted, what the client has, what is waited for.
//!
//! All of it is read from the state that the stream works with; nothing is kept for it alone but the
//! client's words of a rejection.

use std::sync::Arc;

use super::subscription::{Interest, Spelling};
use crate::{ErrorDetail, Time, TypeUrl};

/// The status of one type on one stream.
#[derive(Clone, Debug)]
pub struct TypeStatus<'a> {
    /// The type.
    pub type_url: &'a TypeUrl,
    /// What the client asked for.
    pub wanted: Wanted<'a>,
    /// The version of the last response that was sent.
    pub sent: Option<Arc<str>>,
    /// The version of the last response that the client accepted.
    pub acknowledged: Option<Arc<str>>,
    /// The last rejection, as long as the client may lack something because of it.
    pub rejection: Option<&'a Rejection>,
    /// What the stream waits for before it says more of the type, or before it counts as landed.
    pub waits: Vec<Wait>,
}

/// What a client asked for, of one type.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a>(pub(super) &'a Interest);

/// A response that the client rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The version of the response.
    pub version: Arc<str>,
    /// Why, in the client's words, of which at most [`Rejection::MAX_MESSAGE`] bytes are kept.
    pub error: ErrorDetail,
}

/// Something that a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The reason.
    pub reason: WaitReason,
    /// The time after which it is waited for no longer, if there is one.
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
    /// The client cannot use new clusters yet that routes may point to (S-097).
    Clusters,
    /// So many removals wait until nothing uses them (S-098).
    Removals(usize),
    /// The source cannot tell yet whether so many names exist; none if it cannot tell all members
    /// of a wildcard or collection.
    Source(usize),
}

impl<'a> Wanted<'a> {
    /// Returns true if the client asked for everything.
    pub fn everything(&self) -> bool {
        self.0.wildcard()
    }

    /// The names it asked for, in its own spelling.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.0.all_names().map(|name: &Spelling| &**name)
    }
}

impl Rejection {
    /// The number of bytes that are kept of a client's words.
    pub const MAX_MESSAGE: usize = 1024;

    /// A rejection with as much of the client's words as is kept.
    pub(super) fn new(version: Arc<str>, error: &ErrorDetail) -> Self {
        let text = &error.message;
        let end = text.floor_char_boundary(Self::MAX_MESSAGE);
        Self { version, error: ErrorDetail { code: error.code, message: text[..end].to_owned() } }
    }
}
