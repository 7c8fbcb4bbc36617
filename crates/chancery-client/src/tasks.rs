//! Tasks and threads that another task waits for. Their panics become panics of that task, so that
//! the keeper learns of each (C-074).

use std::panic::resume_unwind;

use tokio::task::{JoinError, spawn_blocking};

/// The work is not done, because the runtime shuts down.
#[derive(Debug, thiserror::Error)]
#[error("the runtime shuts down")]
pub(crate) struct ShutDown;

/// Continues the panic of a task. A task that was aborted is no error.
pub(crate) fn pass_panic_on(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// Runs work that blocks or takes long on a thread for such work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ShutDown> {
    match spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        Err(_) => Err(ShutDown),
    }
}
