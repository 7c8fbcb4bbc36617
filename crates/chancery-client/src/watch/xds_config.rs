//! A listener and all that it leads to, kept together while any of it changes (C-057 to C-060).

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use chancery_core::client::{
    DependencyManager, ResourceKey, WatchChange, WatchEvent, XdsConfigResult,
};
use chancery_core::{ResourceName, TypeUrl};
use chancery_proto::references::links;
use chancery_proto::schema::Schema;
use futures_core::Stream;

use super::RawWatch;
use crate::session::Session;

/// Follows one listener through its routes, clusters and endpoints, until it is dropped.
///
/// Each publication is whole: whatever it leads to is in it, or fails for itself. Until a change can
/// be published whole, the publication before is the one to use.
pub struct XdsConfigWatch {
    session: Arc<Session>,
    schema: Schema,
    dependencies: DependencyManager,
    watches: BTreeMap<ResourceKey, RawWatch>,
    ready: Arc<Ready>,
    ended: bool,
}

/// Which watches have news, and who waits for them.
#[derive(Default)]
struct Ready(Mutex<ReadyState>);

#[derive(Default)]
struct ReadyState {
    keys: BTreeSet<ResourceKey>,
    task: Option<Waker>,
}

/// Says that one watch has news.
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

    /// The next publication; `None` once the client has come to an end. An error is one of the
    /// listener or its routes, and nothing published before can be used any more.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<XdsConfigResult> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Keeps a cluster that no route leads to, until it is released as often.
    pub fn hold(&mut self, cluster: ResourceName) {
        self.dependencies.hold_cluster(cluster);
        self.watch_what_is_needed();
    }

    /// Lets go of a cluster that was held.
    pub fn release(&mut self, cluster: &ResourceName) {
        self.dependencies.release_cluster(cluster);
        self.watch_what_is_needed();
    }

    /// Takes the news of one watch, and watches what follows from them before the server is read any
    /// further (C-038).
    fn hear(&mut self, key: &ResourceKey) {
        let bell = KeyWaker { ready: Arc::clone(&self.ready), key: key.clone() };
        let waker = Waker::from(Arc::new(bell));
        let cx = Context::from_waker(&waker);
        let mut news = None;
        while let Some(watch) = self.watches.get_mut(key) {
            match watch.poll_event(&cx) {
                Poll::Ready(Some(WatchEvent::Changed { value, .. })) => news = Some(value),
                Poll::Ready(Some(WatchEvent::Failed { error })) => news = Some(Err(error)),
                Poll::Ready(Some(WatchEvent::Ambient { .. } | WatchEvent::Complete)) => {}
                Poll::Ready(None) => {
                    self.ended = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if let Some(part) = news {
            let body = part.as_ref().ok().map(|held| held.resource.body());
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

    /// The types and names that are watched.
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
            self.hear(&key);
        }
        match self.dependencies.next_config() {
            Some(published) => {
                self.watch_what_is_needed();
                Poll::Ready(Some(published))
            }
            None => Poll::Pending,
        }
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

    /// Keeps the waker of the task that waits. The one before is dropped when the lock is given
    /// back, as it may own that task.
    fn register(&self, cx: &Context<'_>) {
        let replaced = self.lock().task.replace(cx.waker().clone());
        drop(replaced);
    }

    fn next(&self) -> Option<ResourceKey> {
        self.lock().keys.pop_first()
    }

    /// Nothing panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, ReadyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for KeyWaker {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.key.clone());
    }
}
