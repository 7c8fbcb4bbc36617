//! The responses of a server, as values that are not yet encoded.

use std::sync::Arc;

use super::{Entries, Form};
use crate::{NameError, TypeUrl, Variant};

/// A `DiscoveryResponse` or `DeltaDiscoveryResponse`, not yet encoded.
///
/// Every entry is of type [`Response::type_url`] (S-008), and no name is in it twice (S-060,
/// [duplicate
/// names](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#duplicate-resource-names)).
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The variant, which decides which of the two messages this is.
    pub variant: Variant,
    /// The type of every entry.
    pub type_url: TypeUrl,
    /// The `version_info` in SotW, `system_version_info` in delta.
    pub version: Arc<str>,
    /// The nonce. It is not empty, and no other response of the stream has it (S-028).
    pub nonce: Arc<str>,
    /// The resources.
    pub entries: Entries,
    /// The names of resources that the client should remove. SotW has none.
    pub removed: Vec<Arc<str>>,
    /// The errors of names that are not given (S-068, [xRFC
    /// TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md)).
    pub errors: Vec<NameError>,
    /// True if SotW entries are wrapped in `Resource` (S-085, [SotW
    /// TTL](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#sotw-ttl)). Delta
    /// entries always are (S-084).
    pub wrapped: bool,
}

impl Response {
    /// The form of the entries.
    pub fn form(&self) -> Form {
        match self.variant {
            Variant::Sotw if self.wrapped => Form::Wrapped,
            Variant::Sotw => Form::Bare,
            Variant::Delta => Form::Delta,
        }
    }
}
