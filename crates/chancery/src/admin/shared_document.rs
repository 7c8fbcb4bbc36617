//! A document that is built for whoever asks, and shared by all who ask for the same.
//!
//! A document may take long to build. So it is built on a thread of its own while others are
//! answered, by one builder at a time, and kept until its content changes: as many as may ask, and as
//! often, it costs one thread and one text. Not here: the content ([`super::LoadStatus`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinError;

use super::api::ApiError;

/// The last text of a document, and the turn to build the next one.
#[derive(Default)]
pub(crate) struct SharedDocument {
    last: Arc<Mutex<Option<Built>>>,
    /// The turn belongs to the thread that builds, so that it lasts as long as the work, whether or
    /// not somebody still waits for it.
    turn: Arc<AsyncMutex<()>>,
}

/// The state of what a document shows; a later state is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The number of the last record of a load.
    pub(crate) record: u64,
    /// The number of the revision of the catalog.
    pub(crate) revision: u64,
}

/// The error for a document that could not be built: the builder panicked, or the process ends.
#[derive(Debug, thiserror::Error)]
#[error("the document was not built")]
pub(crate) struct BuildFailed(#[from] JoinError);

impl From<BuildFailed> for ApiError {
    fn from(_: BuildFailed) -> Self {
        Self::failed()
    }
}

#[derive(Clone)]
struct Built {
    /// The state before the text was built: it shows this state or a later one.
    stamp: Stamp,
    text: Bytes,
}

impl Stamp {
    fn is_at_least(self, other: Self) -> bool {
        self.record >= other.record && self.revision >= other.revision
    }
}

impl SharedDocument {
    /// The document as it is `now` or later. If nobody has built that yet, `build` does, and returns
    /// with it the state that it found when it began.
    pub(crate) async fn get(
        &self,
        now: Stamp,
        build: impl FnOnce() -> (Stamp, String) + Send + 'static,
    ) -> Result<Bytes, BuildFailed> {
        if let Some(text) = self.built_since(now) {
            return Ok(text);
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if let Some(text) = self.built_since(now) {
            return Ok(text);
        }
        let last = Arc::clone(&self.last);
        let building = tokio::task::spawn_blocking(move || {
            let (stamp, text) = build();
            let text = Bytes::from(text);
            *lock(&last) = Some(Built { stamp, text: text.clone() });
            drop(turn);
            text
        });
        Ok(building.await?)
    }

    /// Drops the text: its content has changed, and nobody who asks from now on gets it.
    pub(crate) fn forget(&self) {
        drop(lock(&self.last).take());
    }

    fn built_since(&self, stamp: Stamp) -> Option<Bytes> {
        let last = lock(&self.last);
        last.as_ref().filter(|last| last.stamp.is_at_least(stamp)).map(|last| last.text.clone())
    }
}

/// A poisoned lock is used all the same, because each write replaces the whole value.
fn lock(last: &Mutex<Option<Built>>) -> MutexGuard<'_, Option<Built>> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    use super::*;

    const TIME: std::time::Duration = std::time::Duration::from_secs(60);

    fn at(record: u64) -> Stamp {
        Stamp { record, revision: 0 }
    }

    async fn within<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(TIME, future).await.unwrap()
    }

    #[tokio::test]
    async fn a_document_is_built_once_until_it_changes() {
        let (document, builds) = (SharedDocument::default(), Arc::new(AtomicU64::new(0)));
        let get = async |load| {
            let builds = Arc::clone(&builds);
            let build = move || {
                let number = builds.fetch_add(1, Ordering::Relaxed) + 1;
                (at(load), number.to_string())
            };
            within(document.get(at(load), build)).await.unwrap()
        };
        for _ in 0..100 {
            assert_eq!(get(1).await, "1");
        }
        assert_eq!((get(2).await, get(1).await), ("2".into(), "2".into()));
        document.forget();
        assert_eq!(get(2).await, "3");
        assert_eq!(builds.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn who_asks_during_a_build_waits_for_it_alone_and_others_go_on() {
        let document = Arc::new(SharedDocument::default());
        let (go, gone) = mpsc::channel::<()>();
        let (begun, began) = tokio::sync::oneshot::channel();
        let slow = move || {
            begun.send(()).unwrap();
            gone.recv_timeout(TIME).unwrap();
            (at(1), "slow".to_owned())
        };
        let ask = |build: Box<dyn FnOnce() -> (Stamp, String) + Send>| {
            let document = Arc::clone(&document);
            tokio::spawn(async move { document.get(at(1), build).await.unwrap() })
        };
        let first = ask(Box::new(slow));
        within(began).await.unwrap();
        // Whoever asked first goes away; the build goes on, and no other one begins.
        first.abort();
        assert!(within(first).await.is_err());
        let others: Vec<_> =
            (0..10).map(|_| ask(Box::new(|| panic!("a second builder")))).collect();
        tokio::task::yield_now().await;
        assert!(others.iter().all(|other| !other.is_finished()));
        go.send(()).unwrap();
        for other in others {
            assert_eq!(within(other).await.unwrap(), "slow");
        }
    }

    #[tokio::test]
    async fn a_text_from_before_a_change_is_not_given_to_who_asks_after_it() {
        let document = SharedDocument::default();
        within(document.get(at(1), || (at(1), "old".to_owned()))).await.unwrap();
        let new = within(document.get(at(2), || (at(2), "new".to_owned()))).await.unwrap();
        assert_eq!(new, "new");
    }

    #[tokio::test]
    async fn a_builder_that_panics_keeps_nobody_from_the_next_try() {
        let document = SharedDocument::default();
        assert!(within(document.get(at(1), || panic!("on purpose"))).await.is_err());
        let next = within(document.get(at(1), || (at(1), "next".to_owned()))).await.unwrap();
        assert_eq!(next, "next");
    }
}
