//! The status of one stream, as its card tells it.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::{Node, TypeUrl, Variant};

use crate::policy::Peer;
use crate::store::AudienceName;

/// The status of an open stream, or of a client that polls one type over REST. `docs/status.md` says exactly what
/// each state means.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StreamStatus {
    /// The number of the stream. No two streams of a store have the same one.
    pub id: u64,
    /// The node, as the client describes itself; `None` until it does, or if it does not. Nobody has verified
    /// it (S-137).
    pub node: Option<Arc<Node>>,
    /// The other end of the connection; without its certificates for a client that polls.
    pub peer: Arc<Peer>,
    /// The audience, without the values that its nodes state; `None` until the policy has chosen one.
    pub audience: Option<AudienceName>,
    /// The variant of the protocol.
    pub variant: Variant,
    /// The only type of the stream; `None` if it is aggregated.
    pub type_url: Option<TypeUrl>,
    /// The versions of a client that polls over REST; `None` for a stream. What it holds is known from its next
    /// poll (S-022).
    pub poll: Option<PollVersions>,
    /// The time since it was opened.
    pub age: Duration,
    /// The state.
    pub state: StreamState,
    /// The time since the client is in step, or is not.
    pub since: Duration,
    /// The last load whose state for the audience the stream has looked at.
    pub seen: u64,
    /// The last load that has landed on the stream in the audience where it is now; 0 if none has.
    pub landed: u64,
    /// True if the stream has to ask for its audience again, so that nobody knows what it should have.
    pub(crate) is_asking: bool,
    /// False for a client that has polled once over REST, longer ago than the grace: nobody knows whether it
    /// comes again, and no load waits for it.
    pub counts: bool,
    /// The number of types of which the client rejected something that was not changed since.
    pub rejected_types: u32,
    /// The time since the oldest response was sent that is not answered; `None` if all are.
    pub unanswered: Option<Duration>,
    /// The time since the client last accepted a response.
    pub acknowledged: Option<Duration>,
    /// The time since the client last said anything.
    pub heard: Option<Duration>,
    /// The time since the acknowledgement with which the last load landed for which the client had to
    /// acknowledge something.
    pub(crate) landed_ago: Option<Duration>,
}

/// The state of a stream, and of a node with streams. The worst one is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum StreamState {
    /// The client has acknowledged all of the present state of its audience that it wants.
    InStep,
    /// Something is owed, waits, or is not answered yet, and no bound has passed.
    Pending,
    /// An answer of the client is owed for longer than a bound, or it takes nothing for that long.
    Silent,
    /// The client rejected something that was not changed since.
    Rejected,
}

impl StreamState {
    /// All states, the best one first.
    pub const ALL: [Self; 4] = [Self::InStep, Self::Pending, Self::Silent, Self::Rejected];

    /// The name: `in-step`, `pending`, `silent` or `rejected`.
    pub fn name(self) -> &'static str {
        match self {
            Self::InStep => "in-step",
            Self::Pending => "pending",
            Self::Silent => "silent",
            Self::Rejected => "rejected",
        }
    }
}

/// The versions of a client that polls over REST.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollVersions {
    /// The version that it stated last.
    pub stated: Arc<str>,
    /// The version that it was given then; `None` if it was current.
    pub given: Option<Arc<str>>,
}
