//! A watch of a listener and of all that it leads to, which belong together (C-057 to C-060, gRFC
//! A74).
//!
//! Each resource is a watch of its own. The references in a new resource are watched before it
//! counts as applied (C-038). Not here: which resources are needed, and when a config is complete,
//! which the core's `DependencyManager` decides.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use chancery_core::client::{
    DependencyManager, ResourceKey, WatchChange, WatchEvent, XdsConfigResult,
};
use chancery_core::{ResourceName, TypeUrl};
use chancery_proto::resource::links;
use chancery_proto::schema::Schema;
use futures_core::Stream;

use super::RawWatch;
use crate::session::Session;

/// A watch of one listener with its routes, clusters and endpoints, until it is dropped.
///
/// It is a [`Stream`] of configs. Each config is complete: it has all resources that the listener
/// leads to, or the reason why one of them fails. A config stays in use until the next one.
pub struct XdsConfigWatch {
    session: Arc<Session>,
    schema: Schema,
    dependencies: DependencyManager,
    watches: BTreeMap<ResourceKey, RawWatch>,
    ready: Arc<Ready>,
    ended: bool,
}

/// The watches that have events, and the waker of the task that waits.
#[derive(Default)]
struct Ready(Mutex<ReadyState>);

#[derive(Default)]
struct ReadyState {
    keys: BTreeSet<ResourceKey>,
    task: Option<Waker>,
}

/// Wakes the task, and notes the watch that has an event.
struct KeyWaker {
    ready: Arc<Ready>,
    key: ResourceKey,
}

impl XdsConfigWatch {
    pub(crate) fn new(session: Arc<Session>, schema: Schema, listener: ResourceName) -> Self {
        let mut follow = Self {
            session,
            schema,
            dependencies: DependencyManager::new(listener),
            watches: BTreeMap::new(),
            ready: Arc::default(),
            ended: false,
        };
        follow.watch_what_is_needed();
        follow
    }

    /// Waits for the next config; `None` once the client has ended. An error is one of the listener
    /// or its routes; then no earlier config may be used any more.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<XdsConfigResult> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Keeps a cluster that a call still uses although no route leads to it any more. It is kept
    /// until it is released as many times as it was held.
    pub fn hold(&mut self, cluster: ResourceName) {
        self.dependencies.hold_cluster(cluster);
        self.watch_what_is_needed();
    }

    /// Releases a cluster that was held. If nothing else leads to it, it is watched until the next
    /// [`next`](Self::next).
    pub fn release(&mut self, cluster: &ResourceName) {
        self.dependencies.release_cluster(cluster);
    }

    /// Takes the events of one watch, and watches what the new resource refers to before the server
    /// is read any further (C-038).
    fn take_events(&mut self, key: &ResourceKey) {
        let waker = KeyWaker { ready: Arc::clone(&self.ready), key: key.clone() };
        let waker = Waker::from(Arc::new(waker));
        let cx = Context::from_waker(&waker);
        let mut latest = None;
        while let Some(watch) = self.watches.get_mut(key) {
            match watch.poll_event(&cx) {
                Poll::Ready(Some(WatchEvent::Changed { value, .. })) => latest = Some(value),
                Poll::Ready(Some(WatchEvent::Failed { error })) => latest = Some(Err(error)),
                Poll::Ready(Some(WatchEvent::Ambient { .. } | WatchEvent::Complete)) => {}
                Poll::Ready(None) => {
                    self.ended = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if let Some(part) = latest {
            // There may be thousands of endpoints to read for nothing.
            let leads_on = key.0.api().leads_on();
            let body = part.as_ref().ok().filter(|_| leads_on).map(|cached| cached.resource.body());
            let links = body.map(|body| links(&self.schema, &key.0, body)).unwrap_or_default();
            self.dependencies.update(key.clone(), part, &links);
            self.watch_what_is_needed();
        }
        if let Some(watch) = self.watches.get(key) {
            watch.applied();
        }
    }

    fn watch_what_is_needed(&mut self) {
        while let Some(need) = self.dependencies.next_watch_change() {
            match need {
                WatchChange::Start(key) => {
                    let session = Arc::clone(&self.session);
                    let watch = RawWatch::new(session, key.0.clone(), key.1.as_str());
                    self.watches.insert(key.clone(), watch);
                    self.ready.add(key);
                }
                WatchChange::Stop(key) => {
                    self.watches.remove(&key);
                }
            }
        }
    }

    /// Returns the types and names that are watched.
    pub fn watched(&self) -> impl Iterator<Item = (&TypeUrl, &ResourceName)> {
        self.watches.keys().map(|(type_url, name)| (type_url, name))
    }
}

impl Stream for XdsConfigWatch {
    type Item = XdsConfigResult;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<XdsConfigResult>> {
        if self.ended {
            return Poll::Ready(None);
        }
        loop {
            self.ready.register(cx);
            let Some(key) = self.ready.next() else { break };
            self.take_events(&key);
        }
        let config = self.dependencies.next_config();
        self.watch_what_is_needed();
        config.map_or(Poll::Pending, |published| Poll::Ready(Some(published)))
    }
}

impl Ready {
    fn add(&self, key: ResourceKey) {
        let mut state = self.lock();
        state.keys.insert(key);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Keeps the waker of the task that waits. The one before is dropped after the lock is
    /// released, because it may own that task.
    fn register(&self, cx: &Context<'_>) {
        let replaced = self.lock().task.replace(cx.waker().clone());
        drop(replaced);
    }

    fn next(&self) -> Option<ResourceKey> {
        self.lock().keys.pop_first()
    }

    /// No code that panics runs under the lock.
    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for KeyWaker {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.key.clone());
    }
}
