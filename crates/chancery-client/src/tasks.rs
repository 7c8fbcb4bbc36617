//! Tasks and threads that a task waits for: their panics are panics of the one that waits, so that
//! the keeper hears of each (C-074).

use std::panic::resume_unwind;

use tokio::task::{JoinError, spawn_blocking};

/// The runtime shuts down, so the work is not done.
#[derive(Debug, thiserror::Error)]
#[error("the runtime shuts down")]
pub(crate) struct ShutDown;

/// Passes the panic of a task on. A task that was aborted is no fault.
pub(crate) fn pass_panic_on(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// Does work that blocks, or that takes long, on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ShutDown> {
    match spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(ShutDown),
    }
}
