//! The events of one stream of a server, for logs, metrics and users of the library.

use std::sync::Arc;
use std::time::Duration;

use super::DemandEdit;
use crate::{ErrorDetail, Node, TypeUrl};

/// What happened on a stream, for logs, metrics and library users. The core never logs.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The first message said who the client is (S-023). Until a snapshot is given, nothing is sent.
    Identified(Arc<Node>),
    /// The first message did not say it usably (S-024): the driver must decide.
    Anonymous,
    /// The same client stated other dynamic parameters (S-025): choose its snapshot again.
    ParametersChanged(Arc<Node>),
    /// A later message stated another identity, which was ignored (S-025).
    IdentityIgnored {
        /// What the message claimed.
        claimed: String,
    },
    /// The subscription to a type changed.
    Subscribed {
        /// The change of what is wanted.
        demand: DemandEdit,
        /// The number of names that are subscribed to now.
        names: usize,
    },
    /// The first request of a type named nothing, which does not mean everything for this type, and
    /// there is something of it (S-053). Told once.
    Unnamed {
        /// Which type.
        type_url: TypeUrl,
        /// The number of resources there are for the client.
        resources: usize,
    },
    /// The client accepted a response.
    Acked {
        /// Of which type.
        type_url: TypeUrl,
        /// Which version.
        version: Arc<str>,
        /// Which response.
        nonce: Arc<str>,
        /// How long it took.
        after: Duration,
    },
    /// The client has acknowledged all it was owed of every type it asked for, and nothing waits to
    /// be removed. The last part of a response that was split counts, and its first does not.
    Landed,
    /// The client rejected a response (S-032, S-034).
    Nacked {
        /// Of which type.
        type_url: TypeUrl,
        /// Which version.
        version: Arc<str>,
        /// Which response.
        nonce: Arc<str>,
        /// Why, in the client's words.
        error: ErrorDetail,
    },
    /// The client answered a later response and never this one: it has read it, and whether it
    /// accepted it is not known (S-037).
    Skipped {
        /// Of which type.
        type_url: TypeUrl,
        /// Which response.
        nonce: Arc<str>,
    },
    /// A request carried the nonce of no response that is under way, nor of the one answered last:
    /// it is neither ACK nor NACK (S-037).
    Stale {
        /// Of which type.
        type_url: TypeUrl,
        /// Which response.
        nonce: Arc<str>,
    },
}
