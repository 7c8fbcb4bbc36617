//! The responses of a server, as values that are not yet encoded.

use std::sync::Arc;

use super::Share;
use crate::{NameError, Resource, ResourceName, TypeUrl, Variant};

/// A `DiscoveryResponse` or `DeltaDiscoveryResponse`, not yet encoded.
///
/// Every entry is of type [`Response::type_url`] (S-008) and no name is in it twice (S-060).
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Which of the two messages this is.
    pub variant: Variant,
    /// The type of every entry.
    pub type_url: TypeUrl,
    /// SotW `version_info`, delta `system_version_info`.
    pub version: Arc<str>,
    /// Not empty, and never used before on this stream (S-028).
    pub nonce: Arc<str>,
    /// The resources.
    pub entries: Arc<[ResponseEntry]>,
    /// Names the client should forget. Delta only.
    pub removed: Vec<Arc<str>>,
    /// Why names cannot be given (S-068).
    pub errors: Vec<NameError>,
    /// Whether SotW entries are wrapped in `Resource` (S-085). Delta entries always are (S-084).
    pub wrapped: bool,
    /// Whether other streams send the same entries.
    pub share: Option<Share>,
}

/// One resource in a response.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseEntry {
    /// The name in the wrapper, in the spelling that was asked for (S-062, S-114).
    pub name: Arc<str>,
    /// Further names in the wrapper (S-091).
    pub aliases: Vec<Arc<str>>,
    /// What it is; `None` says that an alias cannot be resolved (S-093).
    pub resource: Option<Arc<Resource>>,
    /// Whether the wrapper carries the resource's TTL.
    pub ttl: bool,
    /// Whether the body stays out, which refreshes the TTL and changes nothing (S-087).
    pub heartbeat: bool,
}

impl ResponseEntry {
    /// A resource under its own name, without its TTL.
    pub(crate) fn of(resource: &Arc<Resource>) -> Self {
        Self {
            name: resource.name().shared(),
            aliases: resource.aliases().iter().map(ResourceName::shared).collect(),
            resource: Some(Arc::clone(resource)),
            ttl: false,
            heartbeat: false,
        }
    }
}
