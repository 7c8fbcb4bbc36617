//! A watched collection: all resources of a type (`*`), or those of an `xdstp:` glob.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ResourceName;
use crate::client::error::WatchError;
use crate::client::ids::WatchId;
use crate::client::watching::{ChangeKind, EVERYTHING, Notifier};

/// A collection that somebody watches.
#[derive(Debug)]
pub(crate) struct WatchedCollection {
    name: ResourceName,
    pub(super) watchers: Vec<WatchId>,
    pub(super) members: BTreeSet<ResourceName>,
    progress: CollectionProgress,
    /// The reason why the server does not say what there is.
    error: Option<Arc<WatchError>>,
    /// The reason why a resource was rejected that nobody can name, if the newest response had one.
    rejected: Option<Arc<WatchError>>,
}

/// The progress of a server that tells what there is in a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CollectionProgress {
    /// There may be members that it has not told.
    Telling,
    /// It has told some of them, and said that more come.
    InParts,
    /// It has told all of them, or has had the time to.
    Complete,
}

/// Returns true if a resource of this name is in a collection.
pub(super) fn is_member(collection: &ResourceName, name: &ResourceName) -> bool {
    collection.as_str() == EVERYTHING || name.collection().as_ref() == Some(collection)
}

impl WatchedCollection {
    pub(super) fn new(name: ResourceName, members: BTreeSet<ResourceName>) -> Self {
        Self {
            name,
            watchers: Vec::new(),
            members,
            progress: CollectionProgress::Telling,
            error: None,
            rejected: None,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.progress == CollectionProgress::Complete
    }

    /// Returns true if all its members were told, and each had a name.
    pub(super) fn is_known_whole(&self) -> bool {
        self.is_complete() && self.rejected.is_none()
    }

    /// Returns true if the server has said that more members come, and they have not.
    pub(crate) fn is_in_parts(&self) -> bool {
        self.progress == CollectionProgress::InParts
    }

    /// Returns the reason why it may not be what it seems.
    pub(super) fn problem(&self) -> Option<&Arc<WatchError>> {
        self.error.as_ref().or(self.rejected.as_ref())
    }

    /// The server has told some of what there is, and says that more comes.
    pub(crate) fn note_part(&mut self) {
        if !self.is_complete() {
            self.progress = CollectionProgress::InParts;
        }
    }

    /// The server has told all there is, or has had the time to.
    pub(crate) fn mark_complete(&mut self, notifier: &mut Notifier<'_>) {
        if !self.is_complete() {
            self.progress = CollectionProgress::Complete;
            notifier.mark_complete(&self.watchers);
        }
    }

    /// The server says why it does not tell what there is.
    pub(crate) fn set_error(&mut self, error: WatchError, notifier: &mut Notifier<'_>) {
        if self.error.as_deref() != Some(&error) {
            self.error = Some(Arc::new(error));
            self.notify(notifier);
        }
    }

    /// A resource was rejected that nobody can name, and may be a member.
    pub(crate) fn set_rejected(&mut self, error: WatchError, notifier: &mut Notifier<'_>) {
        if self.rejected.as_deref() != Some(&error) {
            self.rejected = Some(Arc::new(error));
            self.notify(notifier);
        }
    }

    /// Every resource of the newest response had a name.
    pub(super) fn clear_rejected(&mut self, notifier: &mut Notifier<'_>) {
        if self.rejected.take().is_some() {
            self.notify(notifier);
        }
    }

    /// The server gave a member, so it does say what there is.
    pub(super) fn clear_error(&mut self, notifier: &mut Notifier<'_>) {
        if self.error.take().is_some() {
            self.notify(notifier);
        }
    }

    /// The error that goes with all its members may be another.
    pub(super) fn notify(&self, notifier: &mut Notifier<'_>) {
        notifier.notify(&self.watchers, &self.name, Some(ChangeKind::Ambient));
    }
}
