//! A watch: what becomes of one resource, or of a group of them.

mod follow;

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use chancery_core::TypeUrl;
use chancery_core::client::{CachedResource, ErrorKind, WatchError, WatchEvent, WatchId};

use crate::engine::NextEvent;
use crate::resource::{self, Received, ResourceType};
use crate::session::Session;
pub use follow::FollowedListener;

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// There is a new value; or there is none, and the one before must not be used any more.
    Changed {
        /// Of which resource.
        name: Arc<str>,
        /// The value, or why there is none.
        value: Result<Received<T>, Arc<WatchError>>,
    },
    /// Something is wrong, and what was told before can be used; `None` says that it is over.
    Ambient {
        /// With which resource; for trouble with the servers of a group, the name of the group.
        name: Arc<str>,
        /// What it is.
        error: Option<Arc<WatchError>>,
    },
    /// All that a group had when it was first asked for has been told.
    Complete,
    /// Nothing can be watched: the name is none or nobody is responsible for it, or the client itself
    /// has come to an end. This is the last event of the watch.
    Failed {
        /// The reason.
        error: Arc<WatchError>,
    },
}

/// A watch of resources as values of `T`, until it is dropped.
///
/// It holds no queue: whoever is slow misses what came between, and hears what is true. While news
/// wait to be taken, the server that sent them is not listened to any further, for a time (C-038,
/// [`Settings::patience`](crate::Settings::patience)): a watch that nobody reads should
/// be dropped.
pub struct Watch<T> {
    raw: RawWatch,
    of: PhantomData<fn() -> T>,
}

/// A watch of resources as bytes.
pub struct RawWatch {
    session: Arc<Session>,
    type_url: TypeUrl,
    id: WatchId,
    ended: bool,
}

impl<T: ResourceType> Watch<T> {
    pub(crate) fn new(raw: RawWatch) -> Self {
        Self { raw, of: PhantomData }
    }

    /// The next event; `None` once the client has come to an end. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<Event<T>> {
        let event = self.raw.heard().await?;
        Some(self.raw.event(event, resource::value::<T>))
    }
}

impl RawWatch {
    pub(crate) fn new(session: Arc<Session>, type_url: TypeUrl, name: &str) -> Self {
        let id = session.engine.watch(&type_url, name);
        Self { session, type_url, id, ended: false }
    }

    /// The type that is watched.
    pub fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    /// The next event; `None` once the client has come to an end. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Option<Event<()>> {
        let event = self.heard().await?;
        Some(self.event(event, |_| Ok(Arc::new(()))))
    }

    async fn heard(&mut self) -> Option<WatchEvent> {
        let event = std::future::poll_fn(|cx| self.poll_heard(cx)).await;
        self.applied();
        event
    }

    /// The next event, which the machine takes as applied when it is told so.
    pub(crate) fn poll_heard(&mut self, cx: &Context<'_>) -> Poll<Option<WatchEvent>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match ready!(self.session.engine.poll_event(self.id, cx)) {
            NextEvent::Event(event) => Poll::Ready(Some(event)),
            NextEvent::Ended => {
                self.ended = true;
                Poll::Ready(None)
            }
            NextEvent::Broken(text) => {
                self.ended = true;
                let error = Arc::new(WatchError::broken(&text));
                Poll::Ready(Some(WatchEvent::Failed { error }))
            }
        }
    }

    pub(crate) fn applied(&self) {
        self.session.engine.applied(self.id);
    }

    fn event<T>(
        &self,
        event: WatchEvent,
        value_of: impl Fn(&CachedResource) -> Result<Arc<T>, String>,
    ) -> Event<T> {
        match event {
            WatchEvent::Changed { name, value } => {
                let value = value.and_then(|held| {
                    let value =
                        value_of(&held).map_err(|why| Arc::new(self.unreadable(&held, &why)))?;
                    Ok(self.received(&held, value))
                });
                Event::Changed { name, value }
            }
            WatchEvent::Ambient { name, error } => Event::Ambient { name, error },
            WatchEvent::Complete => Event::Complete,
            WatchEvent::Failed { error } => Event::Failed { error },
        }
    }

    /// Bytes that came when nobody wanted them as a value, and are none.
    fn unreadable(&self, held: &CachedResource, why: &str) -> WatchError {
        let (short, name) = (self.type_url.short(), held.resource.name());
        let text = format!("{short} `{name}` cannot be used: {why}").into();
        let (kind, server) = (ErrorKind::Rejected, Some(held.server));
        WatchError { kind, text, server, is_nameless: false }
    }

    fn received<T>(&self, held: &CachedResource, value: Arc<T>) -> Received<T> {
        Received {
            value,
            resource: Arc::clone(&held.resource),
            version: Arc::clone(&held.version),
            server: self.session.uri(held.server),
            giver: held.server,
        }
    }
}

impl Drop for RawWatch {
    fn drop(&mut self) {
        self.session.engine.unwatch(self.id);
    }
}
