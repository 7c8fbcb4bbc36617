//! One watcher: the names it has news of, and the next event that they make.
//!
//! A change comes before an error that goes with it, and takes back the error before (C-047,
//! C-048). The watcher of a collection hears of each member by its name, and of trouble with the
//! servers under the name of the collection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::event::WatchEvent;
use super::subject::WatchSubject;
use crate::ResourceName;
use crate::client::error::{ErrorKind, WatchError};
use crate::client::ids::StreamId;
use crate::client::resource::CachedResource;

/// The news of one name. The greater of two is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangeKind {
    /// The error that goes with the value is another, or is gone.
    Ambient,
    /// The value is another, or there is none any more.
    Value,
}

/// The truth about a name that is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResourceView<'a> {
    /// A resource.
    Resource { cached: Option<&'a CachedResource>, error: Option<&'a Arc<WatchError>> },
    /// The watched collection itself.
    Collection { error: Option<&'a Arc<WatchError>> },
    /// A resource that the collection has no more.
    Gone,
}

/// The part of a watcher in the flow control of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatcherProgress {
    /// It has applied all that it heard.
    Idle,
    /// It heard something that it has not applied yet.
    Applying,
}

/// One watcher.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) subject: WatchSubject,
    pending: BTreeMap<ResourceName, ChangeKind>,
    /// True if it has to hear that all members of its collection have been told.
    pub(super) is_complete_due: bool,
    /// The names that it knows an error of.
    with_errors: BTreeSet<ResourceName>,
    /// The members of its collection that it knows of.
    pub(super) known: BTreeSet<ResourceName>,
    pub(super) progress: WatcherProgress,
    /// The streams that wait for it.
    pub(super) delays: Vec<StreamId>,
}

impl Watcher {
    pub(super) fn new(subject: WatchSubject) -> Self {
        Self {
            subject,
            pending: BTreeMap::new(),
            is_complete_due: false,
            with_errors: BTreeSet::new(),
            known: BTreeSet::new(),
            progress: WatcherProgress::Idle,
            delays: Vec::new(),
        }
    }

    pub(super) fn note_change(&mut self, name: &ResourceName, change: ChangeKind) {
        let pending = self.pending.entry(name.clone()).or_insert(change);
        *pending = change.max(*pending);
    }

    pub(super) fn has_news(&self) -> bool {
        !self.pending.is_empty() || self.is_complete_due
    }

    pub(super) fn next_event<'v>(
        &mut self,
        view: impl Fn(&ResourceName) -> ResourceView<'v>,
    ) -> Option<WatchEvent> {
        while let Some((name, change)) = self.pending.pop_first() {
            let event = match view(&name) {
                ResourceView::Resource { cached, error } => {
                    self.resource_event(&name, change, cached, error)
                }
                ResourceView::Collection { error } => self.ambient(&name, error),
                ResourceView::Gone => self.gone(&name),
            };
            if event.is_some() {
                return event;
            }
        }
        std::mem::take(&mut self.is_complete_due).then_some(WatchEvent::Complete)
    }

    fn resource_event(
        &mut self,
        name: &ResourceName,
        change: ChangeKind,
        cached: Option<&CachedResource>,
        error: Option<&Arc<WatchError>>,
    ) -> Option<WatchEvent> {
        match (change, cached, error) {
            (ChangeKind::Value, Some(cached), error) => {
                if error.is_some() {
                    self.pending.insert(name.clone(), ChangeKind::Ambient);
                }
                Some(self.changed(name, Ok(cached.clone())))
            }
            (ChangeKind::Value, None, Some(error)) => {
                Some(self.changed(name, Err(Arc::clone(error))))
            }
            (ChangeKind::Ambient, Some(_), error) => self.ambient(name, error),
            (ChangeKind::Ambient, None, _) | (ChangeKind::Value, None, None) => None,
        }
    }

    fn changed(
        &mut self,
        name: &ResourceName,
        value: Result<CachedResource, Arc<WatchError>>,
    ) -> WatchEvent {
        self.with_errors.remove(name);
        if self.subject.is_collection() {
            match &value {
                Ok(_) => self.known.insert(name.clone()),
                Err(_) => self.known.remove(name),
            };
        }
        WatchEvent::Changed { name: name.shared(), value }
    }

    fn ambient(
        &mut self,
        name: &ResourceName,
        error: Option<&Arc<WatchError>>,
    ) -> Option<WatchEvent> {
        let is_news = match error {
            Some(_) => {
                self.with_errors.insert(name.clone());
                true
            }
            None => self.with_errors.remove(name),
        };
        is_news.then(|| WatchEvent::Ambient { name: name.shared(), error: error.cloned() })
    }

    /// The collection lost a member. A watcher that never heard of it hears nothing.
    fn gone(&mut self, name: &ResourceName) -> Option<WatchEvent> {
        self.with_errors.remove(name);
        if !self.known.remove(name) {
            return None;
        }
        let text = format!("{} `{name}` was removed", self.subject.type_url.short()).into();
        let (kind, server) = (ErrorKind::Missing, None);
        let error = WatchError { kind, text, server, is_nameless: false };
        Some(WatchEvent::Changed { name: name.shared(), value: Err(Arc::new(error)) })
    }
}
