//! Callers that make one call after the other until they are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Status;

use super::support::within;

/// The number of calls that are under way at a time.
pub(crate) const CALLERS: usize = 8;

/// Callers that make the same call.
pub(crate) struct Load {
    /// The number of calls that have ended.
    ended: Arc<AtomicUsize>,
    progress: watch::Receiver<()>,
    stop: watch::Sender<bool>,
    callers: JoinSet<Vec<Status>>,
}

impl Load {
    /// Begins to make this call.
    pub(crate) fn of<F, T>(call: impl Fn() -> F + Clone + Send + 'static) -> Self
    where
        F: Future<Output = Result<T, Status>> + Send,
        T: Send,
    {
        let (stop, stopped) = watch::channel(false);
        let (progressed, progress) = watch::channel(());
        let (ended, progressed) = (Arc::<AtomicUsize>::default(), Arc::new(progressed));
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (call, stopped) = (call.clone(), stopped.clone());
            let (ended, progressed) = (Arc::clone(&ended), Arc::clone(&progressed));
            callers.spawn(async move {
                let mut failures = Vec::new();
                while !*stopped.borrow() {
                    failures.extend(call().await.err());
                    ended.fetch_add(1, Ordering::Relaxed);
                    progressed.send_replace(());
                    // One that fails at once gives the others their turns.
                    tokio::task::yield_now().await;
                }
                failures
            });
        }
        Self { ended, progress, stop, callers }
    }

    /// Waits until so many more calls have ended.
    pub(crate) async fn goes_on(&mut self, calls: usize) {
        let until = self.ended.load(Ordering::Relaxed) + calls;
        let ended = &self.ended;
        let waiting = self.progress.wait_for(|()| ended.load(Ordering::Relaxed) >= until);
        within(waiting).await.expect("the callers run");
    }

    /// Lets the calls that are under way end, and returns the failures of all.
    pub(crate) async fn end(mut self) -> Vec<Status> {
        self.stop.send_replace(true);
        let mut failures = Vec::new();
        while let Some(caller) = within(self.callers.join_next()).await {
            failures.extend(caller.expect("no panic"));
        }
        failures
    }

    /// Lets the calls that are under way end. None has failed.
    #[track_caller]
    pub(crate) fn ends_well(self) -> impl Future<Output = ()> {
        let place = std::panic::Location::caller();
        async move {
            let failures = self.end().await;
            assert!(
                failures.is_empty(),
                "{place}: {} calls failed: {:?}",
                failures.len(),
                failures[0]
            );
        }
    }
}
