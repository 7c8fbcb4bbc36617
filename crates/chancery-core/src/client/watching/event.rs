//! The events of a watch.

use std::sync::Arc;

use crate::client::error::WatchError;
use crate::client::resource::CachedResource;

/// An event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// There is a new value; or there is none, and what was there must not be used any more.
    Changed {
        /// The name of the resource.
        name: Arc<str>,
        /// The value, or why there is none.
        value: Result<CachedResource, Arc<WatchError>>,
    },
    /// Something is wrong although the value can be used; or nothing is any more.
    Ambient {
        /// The name of the resource or of the collection.
        name: Arc<str>,
        /// The error, if there is one.
        error: Option<Arc<WatchError>>,
    },
    /// All that a collection had when it was first asked for has been told.
    Complete,
    /// Nothing can be watched: the name is none or nobody is responsible for it, or the client
    /// itself has come to an end. This is the last event of the watch.
    Failed {
        /// The reason.
        error: Arc<WatchError>,
    },
}
