//! What happened inside a client, for logs and metrics (C-137, C-139). The core never logs.

use std::sync::Arc;
use std::time::Duration;

use super::ids::{ServerId, StreamId};
use super::naming::AuthorityKey;
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
        /// Which one.
        stream: StreamId,
        /// Why.
        error: ErrorDetail,
        /// Whether the server had said nothing on it (C-067).
        is_trouble: bool,
        /// The time until the next attempt (C-069).
        wait: Duration,
    },
    /// A response came, and was accepted or, with flaws, rejected.
    Received {
        /// On which stream.
        stream: StreamId,
        /// Of which type.
        type_url: TypeUrl,
        /// Which version.
        version: Arc<str>,
        /// Which response.
        nonce: Arc<str>,
        /// How many of its resources are good.
        accepted: usize,
        /// What is wrong with the others.
        invalid: Vec<InvalidResource>,
    },
    /// A source gave nothing that could be used at all (C-043).
    Unusable {
        /// On which stream.
        stream: StreamId,
        /// What is wrong.
        why: String,
    },
    /// A response was of a type that was never asked for: it is ignored (C-035).
    Unrequested {
        /// On which stream.
        stream: StreamId,
        /// Of which type.
        type_url: TypeUrl,
    },
    /// What is known of a resource is something else now, by what a server said.
    StateChanged {
        /// Who said it.
        server: ServerId,
        /// Its type.
        type_url: TypeUrl,
        /// Its name.
        name: ResourceName,
        /// How it stands.
        state: ResourceState,
        /// The version that is held, if one is.
        version: Option<Arc<str>>,
    },
    /// A resource did not come in time (C-065).
    TimedOut {
        /// Who did not give it.
        server: ServerId,
        /// Its type.
        type_url: TypeUrl,
        /// Its name.
        name: ResourceName,
    },
    /// An authority asks a worse server from now on (C-087).
    FellBack {
        /// Which authority.
        authority: AuthorityKey,
        /// Whom it asks.
        server: ServerId,
    },
    /// An authority is back at a better server (C-089).
    Reverted {
        /// Which authority.
        authority: AuthorityKey,
        /// Whom it believes.
        server: ServerId,
    },
}
