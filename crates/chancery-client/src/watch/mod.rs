//! Watches of one resource, of all resources of a type, or of a collection.
//!
//! A watch has no queue: it takes its next event from the machine when the program asks for one,
//! and decodes it then. Not here: what a watcher is told, and when (`chancery_core::client`), and
//! the watch of a listener with all it leads to (`xds_config`).

mod xds_config;

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use chancery_core::TypeUrl;
use chancery_core::client::{CachedResource, WatchEvent, WatchId};
pub use chancery_core::client::{
    ErrorKind, ResourceKey, ResourceResult, WatchError, XdsConfig, XdsConfigResult,
};
use futures_core::Stream;

use crate::engine::NextEvent;
use crate::resource::{self, Received, ResourceType};
use crate::session::Session;
pub use xds_config::XdsConfigWatch;

/// An event of a watch.
///
/// There will be no further kind within one major version, and the enum is exhaustive on purpose: a
/// program that ignores one of them uses resources that it should not.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// The resource has a new value, or none, and then the one before must not be used any more.
    Changed {
        /// The name of the resource.
        name: Arc<str>,
        /// The value, or the reason why there is none.
        value: Result<Received<T>, Arc<WatchError>>,
    },
    /// There is an error, and the value that was there can still be used; `None` says that the
    /// error is over.
    Ambient {
        /// The name of the resource. If the error is one of the servers of a collection or of all
        /// resources of a type, it is the name that is watched.
        name: Arc<str>,
        /// The error.
        error: Option<Arc<WatchError>>,
    },
    /// The watch has got all resources that `*` or the collection had when it was first asked for.
    Complete,
    /// The watch cannot work: its name is malformed, no server is responsible for it, or the client
    /// itself has ended. This is the last event of the watch.
    Failed {
        /// The reason.
        error: Arc<WatchError>,
    },
}

/// A watch of resources as values of `T`, until it is dropped.
///
/// It is a [`Stream`] of events, and [`next`](Self::next) is the same without a trait. It ends after
/// [`Event::Failed`], and when the client is closed.
///
/// There is no queue: a slow program misses intermediate values, and gets the present one. While
/// there is an event that the program has not taken, the server that caused it is not read any
/// further, for at most [`patience`](crate::options::Settings::patience) (C-038). An event counts
/// as applied when it is taken. Drop a watch that is no longer read.
pub struct Watch<T> {
    raw: RawWatch,
    of: PhantomData<fn() -> T>,
}

/// A watch of resources as bytes. Its events are as those of [`Watch`].
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

    /// Waits for the next event; `None` is the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Event<T>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl<T: ResourceType> Stream for Watch<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        let event = ready!(self.raw.poll_taken(cx));
        Poll::Ready(event.map(|event| self.raw.typed_event(event, resource::decoded::<T>)))
    }
}

impl RawWatch {
    pub(crate) fn new(session: Arc<Session>, type_url: TypeUrl, name: &str) -> Self {
        let id = session.engine.watch(&type_url, name);
        Self { session, type_url, id, ended: false }
    }

    /// Returns the type that is watched.
    pub fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    /// Waits for the next event; `None` is the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Event<()>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Takes the next event, which counts as applied from then on.
    fn poll_taken(&mut self, cx: &Context<'_>) -> Poll<Option<WatchEvent>> {
        let event = ready!(self.poll_event(cx));
        match &event {
            Some(WatchEvent::Failed { .. }) | None => self.ended = true,
            Some(_) => self.applied(),
        }
        Poll::Ready(event)
    }

    /// Takes the next event, which counts as applied once [`applied`](Self::applied) is called.
    pub(crate) fn poll_event(&mut self, cx: &Context<'_>) -> Poll<Option<WatchEvent>> {
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

    fn typed_event<T>(
        &self,
        event: WatchEvent,
        value_of: impl Fn(&CachedResource) -> Result<Arc<T>, String>,
    ) -> Event<T> {
        match event {
            WatchEvent::Changed { name, value } => {
                let value = value.and_then(|cached| {
                    let value = value_of(&cached)
                        .map_err(|why| Arc::new(self.unreadable(&cached, &why)))?;
                    Ok(self.received(&cached, value))
                });
                Event::Changed { name, value }
            }
            WatchEvent::Ambient { name, error } => Event::Ambient { name, error },
            WatchEvent::Complete => Event::Complete,
            WatchEvent::Failed { error } => Event::Failed { error },
        }
    }

    /// The error of a resource that was received before it was watched as a value of this type, and
    /// cannot be decoded as one.
    fn unreadable(&self, cached: &CachedResource, why: &str) -> WatchError {
        let (short, name) = (self.type_url.short(), cached.resource.name());
        let text = format!("{short} `{name}` cannot be used: {why}").into();
        let (kind, server) = (ErrorKind::Rejected, Some(cached.server));
        WatchError { kind, text, server, is_nameless: false }
    }

    fn received<T>(&self, cached: &CachedResource, value: Arc<T>) -> Received<T> {
        Received {
            value,
            resource: Arc::clone(&cached.resource),
            version: Arc::clone(&cached.version),
            server: self.session.uri(cached.server),
            server_id: cached.server,
        }
    }
}

impl Stream for RawWatch {
    type Item = Event<()>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<()>>> {
        let event = ready!(self.poll_taken(cx));
        Poll::Ready(event.map(|event| self.typed_event(event, |_| Ok(Arc::new(())))))
    }
}

impl Drop for RawWatch {
    fn drop(&mut self) {
        self.session.engine.unwatch(self.id);
    }
}
