//! The subject of a watch: a resource, or a collection of them.

use crate::client::authority_key::AuthorityKey;
use crate::{ResourceName, TypeUrl};

/// The name that stands for all resources of a type.
pub(crate) const EVERYTHING: &str = "*";

/// Returns true if a name stands for many resources: `*`, or the glob of a collection.
pub(crate) fn is_collection(name: &ResourceName) -> bool {
    name.as_str() == EVERYTHING || name.is_glob()
}

/// The resource or the collection of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchSubject {
    pub(crate) authority: AuthorityKey,
    pub(crate) type_url: TypeUrl,
    /// A resource, `*`, or the glob of a collection.
    pub(crate) name: ResourceName,
}

impl WatchSubject {
    pub(crate) fn is_collection(&self) -> bool {
        is_collection(&self.name)
    }
}
