//! The events of a client, for logs and metrics (C-137, C-139). The core never logs.

use std::sync::Arc;
use std::time::Duration;

use super::authority_key::AuthorityKey;
use super::ids::{ServerId, StreamId};
use super::resource::ResourceState;
use super::response::InvalidResource;
use crate::{ErrorDetail, ResourceName, TypeUrl};

/// Something worth a line in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A stream is there.
    Opened(StreamId),
    /// A stream ended, or could not be opened.
    Ended {
        /// The stream.
        stream: StreamId,
        /// The error it ended with.
        error: ErrorDetail,
        /// True if the server had said nothing on it (C-067).
        is_trouble: bool,
        /// The time until the next attempt (C-069).
        wait: Duration,
    },
    /// A response came, and was accepted or, with invalid resources, rejected.
    Received {
        /// The stream it came on.
        stream: StreamId,
        /// The type it is of.
        type_url: TypeUrl,
        /// Its version.
        version: Arc<str>,
        /// Its nonce.
        nonce: Arc<str>,
        /// The number of its resources that are good.
        accepted: usize,
        /// The others.
        invalid: Vec<InvalidResource>,
    },
    /// A source gave nothing that could be used at all (C-043).
    Unusable {
        /// The stream of the source.
        stream: StreamId,
        /// The reason.
        why: String,
    },
    /// A response was of a type that was never asked for: it is ignored (C-035).
    Unrequested {
        /// The stream it came on.
        stream: StreamId,
        /// The type it is of.
        type_url: TypeUrl,
    },
    /// The state of a resource is another now, by what a server said.
    StateChanged {
        /// The server.
        server: ServerId,
        /// Its type.
        type_url: TypeUrl,
        /// Its name.
        name: ResourceName,
        /// Its new state.
        state: ResourceState,
        /// The version that is held, if one is.
        version: Option<Arc<str>>,
    },
    /// A resource did not come in time (C-065).
    TimedOut {
        /// The server that did not give it.
        server: ServerId,
        /// Its type.
        type_url: TypeUrl,
        /// Its name.
        name: ResourceName,
    },
    /// An authority asks a worse server from now on (C-087).
    FellBack {
        /// The authority.
        authority: AuthorityKey,
        /// The server that it asks.
        server: ServerId,
    },
    /// An authority is back at a better server (C-089).
    Reverted {
        /// The authority.
        authority: AuthorityKey,
        /// The server that it believes.
        server: ServerId,
    },
}
