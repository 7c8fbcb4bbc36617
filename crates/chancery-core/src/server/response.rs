//! The responses of a server, as values that are not yet encoded.

use std::sync::Arc;

use super::{Entries, Form};
use crate::{NameError, TypeUrl, Variant};

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
    pub entries: Entries,
    /// Names the client should forget. Delta only.
    pub removed: Vec<Arc<str>>,
    /// Why names cannot be given (S-068).
    pub errors: Vec<NameError>,
    /// Whether SotW entries are wrapped in `Resource` (S-085). Delta entries always are (S-084).
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
