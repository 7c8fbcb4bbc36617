//! Waiting for a peer, up to a bound.
//!
//! The bound is by a clock that no test pauses. Tokio's own would be moved to its end at once by a
//! test that pauses time and waits for a socket.

use std::future::poll_fn;
use std::panic::Location;
use std::pin::pin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits, for a minute at most; says where it was in vain.
#[track_caller]
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let place = Location::caller();
    async move {
        let mut future = pin!(future);
        if let Poll::Ready(ready) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return ready;
        }
        let (rings, alarm) = oneshot::channel();
        let (done, is_done) = channel::<()>();
        thread::spawn(move || {
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ = rings.send(());
            }
        });
        let waited = tokio::select! {
            waited = future => waited,
            _ = alarm => panic!("waited {PATIENCE:?} in vain at {place}"),
        };
        drop(done);
        waited
    }
}
