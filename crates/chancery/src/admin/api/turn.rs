//! The turn to make an answer that takes long, beside the thread that answers probes.
//!
//! Whoever asks waits for the turn, and the thread that has it works alone: as many as may ask, and as
//! often, they take one thread. The turn belongs to the thread, so that it lasts as long as the work,
//! whether or not somebody still waits for it.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::error::ApiError;

/// The turn. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn(Arc<Mutex<()>>);

impl Turn {
    /// Does work, which may block, when it is its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = Arc::clone(&self.0).lock_owned().await;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        working.await.map_err(|_| ApiError::failed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_for_it_and_the_next_waits_for_its_end() {
        let turn = Turn::default();
        let (go, gone) = mpsc::channel::<()>();
        let (begun, began) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let turn = turn.clone();
            async move {
                let work = move || {
                    begun.send(()).unwrap();
                    gone.recv_timeout(TIME).unwrap();
                };
                turn.run(work).await
            }
        });
        tokio::time::timeout(TIME, began).await.unwrap().unwrap();
        first.abort();
        assert!(tokio::time::timeout(TIME, first).await.unwrap().is_err());
        let next = tokio::spawn({
            let turn = turn.clone();
            async move { turn.run(|| "done").await }
        });
        tokio::task::yield_now().await;
        assert!(!next.is_finished());
        go.send(()).unwrap();
        assert_eq!(tokio::time::timeout(TIME, next).await.unwrap().unwrap(), Ok("done"));
        let panicking = turn.run(|| panic!("on purpose"));
        let failed: Result<(), _> = tokio::time::timeout(TIME, panicking).await.unwrap();
        assert_eq!(failed, Err(ApiError::failed()));
    }
}
