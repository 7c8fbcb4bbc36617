//! The events of streams, as a user of the library sees them.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::{ErrorDetail, Node, TypeUrl, Variant};

use crate::policy::Peer;
use crate::store::AudienceName;

/// Receives the events of the streams of a server.
///
/// It is called on the path of the stream, in the thread that serves it, and must return soon.
pub trait Observer: Send + Sync + 'static {
    /// Called after something happened on a stream. The events of one stream come in their order.
    fn observe(&self, event: &StreamEvent<'_>);
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn observe(&self, event: &StreamEvent<'_>) {
        (**self).observe(event);
    }
}

/// Something that happened on one stream.
#[derive(Clone, Debug)]
pub struct StreamEvent<'a> {
    /// The number of the stream. No two streams of a server have the same one.
    pub stream: u64,
    /// The other end of the connection.
    pub peer: &'a Peer,
    /// The node, as the client describes itself; `None` until it does.
    pub node: Option<&'a Node>,
    /// The audience of the stream; `None` until the policy has chosen one.
    pub audience: Option<&'a AudienceName>,
    /// The event itself.
    pub kind: StreamEventKind<'a>,
}

/// The kinds of events of a stream.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamEventKind<'a> {
    /// The stream was opened.
    Connected {
        /// The variant of the protocol that the stream speaks.
        variant: Variant,
        /// The only type of the stream; `None` for an aggregated stream.
        type_url: Option<&'a TypeUrl>,
    },
    /// The policy put the client into the audience of the event, for the first time or in place of
    /// another one.
    Assigned,
    /// The client changed its subscription to a type.
    Subscribed {
        /// The type.
        type_url: &'a TypeUrl,
        /// True if the client subscribes to all resources of the type.
        wildcard: bool,
        /// The number of names it subscribes to.
        names: usize,
    },
    /// The client was sent a response.
    Sent {
        /// The type of the resources.
        type_url: &'a TypeUrl,
        /// The version of the response.
        version: &'a str,
        /// The number of resources in it.
        resources: usize,
        /// The size of the response in bytes.
        bytes: usize,
    },
    /// The client accepted a response.
    Acknowledged {
        /// The type of the resources.
        type_url: &'a TypeUrl,
        /// The version of the response.
        version: &'a str,
        /// The time since it was sent.
        after: Duration,
    },
    /// The client has acknowledged all it was owed. This comes once for each snapshot that it was
    /// to see, and once after each change of what it asks for.
    Landed,
    /// The client rejected a response.
    Rejected {
        /// The type of the resources.
        type_url: &'a TypeUrl,
        /// The version of the response.
        version: &'a str,
        /// The reason, in the client's words: its first kilobyte, without the values of the response
        /// that must not be seen, as keys and passwords (S-138). A reason that may quote a secret of
        /// SDS is withheld.
        error: &'a ErrorDetail,
    },
    /// The client answered a later response and not this one. It has read this one; whether it
    /// accepted it is unknown.
    Skipped {
        /// The type of the resources.
        type_url: &'a TypeUrl,
    },
    /// The client sent a nonce that belongs neither to a response it still has to answer nor to the
    /// last one it answered.
    Stale {
        /// The type of the request.
        type_url: &'a TypeUrl,
    },
    /// The stream ended. The server keeps nothing of it.
    Gone {
        /// The gRPC status with which the server ended the stream; `None` if the client left.
        code: Option<i32>,
        /// The age of the stream.
        after: Duration,
    },
}
