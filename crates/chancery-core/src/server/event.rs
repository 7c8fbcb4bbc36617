//! The events of one stream of a server, for logs, metrics and users of the library.

use std::sync::Arc;
use std::time::Duration;

use super::{DemandEdit, RejectedResources};
use crate::{ErrorDetail, Node, TypeUrl};

/// An event on a stream, for logs, metrics and library users. The core itself never logs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The first message has a node with an id (S-023, [basic
    /// protocol](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#basic-protocol-overview)).
    /// The driver chooses a snapshot for it; nothing is sent before.
    Identified(Arc<Node>),
    /// The first message has no node, or one without an id (S-024). The driver chooses a snapshot
    /// or closes the stream.
    Anonymous,
    /// The client stated other dynamic parameters (S-025). The driver chooses its snapshot again.
    ParametersChanged(Arc<Node>),
    /// A later message has a node with another id, which was ignored (S-025).
    IdentityIgnored {
        /// The other id.
        claimed: String,
    },
    /// The subscription to a type changed.
    Subscribed {
        /// The change of the wanted resources.
        demand: DemandEdit,
        /// The number of names in the subscription now.
        names: usize,
    },
    /// The first request of a type named nothing. For this type that is no wildcard (S-053), and
    /// the client gets nothing although there are resources for it. The event comes once.
    Unnamed {
        /// The type.
        type_url: TypeUrl,
        /// The number of resources there are for the client.
        resources: usize,
    },
    /// The client accepted a response.
    Acked {
        /// The type of the response.
        type_url: TypeUrl,
        /// The version of the response.
        version: Arc<str>,
        /// The nonce of the response.
        nonce: Arc<str>,
        /// The time between the response and the answer.
        after: Duration,
    },
    /// The client has acknowledged all it is owed of every type it asked for, and no removal waits.
    /// If a response was split, its last part has to be acknowledged too.
    Landed,
    /// The client rejected a response (S-032,
    /// [NACK](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#nack); S-034).
    Nacked {
        /// The type of the response.
        type_url: TypeUrl,
        /// The version of the response.
        version: Arc<str>,
        /// The nonce of the response.
        nonce: Arc<str>,
        /// The client's reason, in its own words, which may quote the resources.
        error: ErrorDetail,
        /// The resources that the reason may quote. They are boxed, so that other events stay small.
        resources: Box<RejectedResources>,
    },
    /// The client answered a later response and never this one. It has read this one, and its
    /// verdict is unknown (S-037).
    Skipped {
        /// The type of the response.
        type_url: TypeUrl,
        /// The nonce of the response.
        nonce: Arc<str>,
    },
    /// A request has a nonce that is neither that of a response under way nor that of the one
    /// answered last. It is neither ACK nor NACK (S-037).
    Stale {
        /// The type of the request.
        type_url: TypeUrl,
        /// The nonce of the request.
        nonce: Arc<str>,
    },
}
