//! The state of one resource on one stream, and the questions about it.
//!
//! Nothing is kept for these answers: they are read from what the stream works with when somebody asks,
//! and each has a bound. Not here: the status of a type as a whole (`status`).

use std::sync::Arc;

use crate::Resource;

/// The resources of a type that somebody asks about, on one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceQuery {
    /// Those of all that the client wants or holds.
    pub selection: ResourceSelection,
    /// The answer begins after this name.
    pub after: Option<Arc<str>>,
    /// The most resources of the answer.
    pub limit: usize,
}

/// Some of the resources that a client wants or holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceSelection {
    /// All of them.
    All,
    /// Those that the client has not acknowledged as they should be.
    Unsettled,
    /// The one of this name, in any spelling of it.
    Named(Arc<str>),
}

/// Some resources of a type on one stream, in the order of their keys.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ResourcePage {
    /// The resources.
    pub resources: Vec<ResourceStatus>,
    /// True if there are more after the last one.
    pub is_cut: bool,
}

/// The state of one resource on one stream.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResourceStatus {
    /// The name, as the client spells it.
    pub name: Arc<str>,
    /// The state.
    pub state: ResourceState,
    /// The resource that the client should see; `None` if it should see none.
    pub wanted: Option<Arc<Resource>>,
    /// The resource that it was given last under the name, or says that it holds; `None` if that is
    /// nothing, or unknown.
    pub given: Option<Arc<Resource>>,
}

/// The state of a resource on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ResourceState {
    /// The resource that the client should see is not sent yet; `given` is from before.
    NotSent,
    /// It was sent, and the client has not answered (S-042).
    Unanswered,
    /// The client answered a later response and never the one with this resource, so that its verdict is
    /// unknown (S-037).
    PassedOver,
    /// The client has acknowledged it, or says that it holds it.
    Acknowledged,
    /// It was in a response that the client rejected. It may be one of several: nobody can tell which of
    /// them is at fault (S-035).
    Rejected,
    /// It is gone, and the client keeps it until nothing uses it (S-098).
    RemovalWaits,
    /// There is no such resource.
    Missing,
    /// The source does not know yet whether there is one, or there is no snapshot for the client yet.
    Undecided,
}

/// The numbers of resources of a type on one stream that are not settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnsettledCounts {
    /// Those that are owed to the client.
    pub not_sent: usize,
    /// Those in rejected responses, waiting for a change.
    pub rejected: usize,
    /// Those with an unknown verdict.
    pub passed_over: usize,
    /// Those whose removal waits.
    pub removals: usize,
}
