//! A resource as the cache holds it, and its state as CSDS reports it.

use std::sync::Arc;

use crate::client::ids::ServerId;
use crate::client::response::DecodedBody;
use crate::{Resource, Time};

/// A resource as the cache holds it.
#[derive(Clone, Debug)]
pub struct CachedResource {
    /// Name and body, as the server sent them.
    pub resource: Arc<Resource>,
    /// The body as a decoder read it.
    pub decoded: Option<DecodedBody>,
    /// The resource's own version where the protocol gives one, else that of its response.
    pub version: Arc<str>,
    /// The time at which it came, or was last confirmed.
    pub last_updated: Time,
    /// The server that gave it.
    pub server: ServerId,
    /// The time from which on it must not be used any more.
    pub expires: Option<Time>,
}

/// The state of a resource with its server, as CSDS reports it (C-054, [`ClientResourceStatus`]).
///
/// [`ClientResourceStatus`]: https://www.envoyproxy.io/docs/envoy/latest/api-v3/admin/v3/config_dump_shared.proto#enum-admin-v3-clientresourcestatus
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceState {
    /// It was asked for and nothing is known.
    Requested,
    /// The newest that was sent is held.
    Acked,
    /// The newest that was sent cannot be used.
    Nacked,
    /// There is no such resource.
    DoesNotExist,
    /// The server said why it does not give it.
    ReceivedError,
    /// The server did not answer in time.
    Timeout,
}

/// The newest version of a resource that was rejected (C-061).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The version.
    pub version: Arc<str>,
    /// The reason.
    pub why: Arc<str>,
    /// The time.
    pub at: Time,
}
