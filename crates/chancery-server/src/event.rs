//! What happened on a stream, for users of the library.

use std::time::Duration;

use chancery_core::{ErrorDetail, Node, TypeUrl, Variant};

use crate::{AudienceName, Peer};

/// Something that happened on one stream.
#[derive(Clone, Debug)]
pub struct StreamEvent<'a> {
    /// The stream; no two streams of a server have the same number.
    pub stream: u64,
    /// The other end of its connection.
    pub peer: &'a Peer,
    /// Who the client says it is, if it has said so.
    pub node: Option<&'a Node>,
    /// The audience it is in, if that is decided.
    pub audience: Option<&'a AudienceName>,
    /// What happened.
    pub what: Happened<'a>,
}

/// What can happen on a stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Happened<'a> {
    /// It was opened.
    Connected {
        /// The form of the protocol it speaks.
        variant: Variant,
        /// The one type it is for; `None` for an aggregated stream.
        type_url: Option<&'a TypeUrl>,
    },
    /// The policy put the client into the audience of the event, or into another one than before.
    Assigned,
    /// The client asks for something else of a type than before.
    Subscribed {
        /// Which type.
        type_url: &'a TypeUrl,
        /// Whether it asks for everything.
        wildcard: bool,
        /// How many names it asks for.
        names: usize,
    },
    /// The client was sent a response.
    Sent {
        /// Of which type.
        type_url: &'a TypeUrl,
        /// In which version.
        version: &'a str,
        /// How many resources were in it.
        resources: usize,
        /// How many bytes it had.
        bytes: usize,
    },
    /// The client accepted a response.
    Acknowledged {
        /// Of which type.
        type_url: &'a TypeUrl,
        /// In which version.
        version: &'a str,
        /// How long after it was sent.
        after: Duration,
    },
    /// The client has acknowledged all it was owed: once for each snapshot that it was to see, and
    /// once after each change of what it asks for.
    Landed,
    /// The client rejected a response.
    Rejected {
        /// Of which type.
        type_url: &'a TypeUrl,
        /// In which version.
        version: &'a str,
        /// Why, in the client's words.
        error: &'a ErrorDetail,
    },
    /// The client answered a later response and not this one: it read it, and whether it accepted
    /// it is not known.
    Skipped {
        /// Of which type.
        type_url: &'a TypeUrl,
    },
    /// The client sent the nonce of a response that is not under way, and not the one it answered
    /// last.
    Stale {
        /// Of which type.
        type_url: &'a TypeUrl,
    },
    /// The stream ended; nothing of it is kept.
    Gone {
        /// The gRPC status the server ended it with; `None` if the client went.
        code: Option<i32>,
        /// How long it lasted.
        after: Duration,
    },
}
