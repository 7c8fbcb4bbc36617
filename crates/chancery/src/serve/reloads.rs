//! Work that is done again whenever it is asked for: one run at a time, and at most one that waits.
//!
//! A run that begins after the asking is as good as one for each asking, so many of them cost no more
//! than two runs. Not here: the reading of the directory, whose follower does the same for itself.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A task that does some work when it is asked to. It ends with this value.
pub(super) struct Reloads {
    asked: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Reloads {
    /// Starts the task. The work may block.
    pub(super) fn start(work: impl Fn() + Send + Sync + 'static) -> Self {
        let (asked, work) = (Arc::new(Notify::new()), Arc::new(work));
        let asking = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                asking.notified().await;
                let work = Arc::clone(&work);
                // A panic has been logged, and the next run is tried all the same.
                tokio::task::spawn_blocking(move || work()).await.ok();
            }
        });
        Self { asked, task }
    }

    /// Asks for a run that begins from now on.
    pub(super) fn ask(&self) {
        self.asked.notify_one();
    }
}

impl Drop for Reloads {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn many_askings_during_a_run_are_one_more_run() {
        let (begin, mut begun) = unbounded_channel();
        let (go, gone) = mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        let reloads = Reloads::start(move || {
            begin.send(()).unwrap();
            gone.lock().unwrap().recv_timeout(TIME).unwrap();
        });
        let mut begins = async || tokio::time::timeout(TIME, begun.recv()).await.unwrap().unwrap();
        reloads.ask();
        begins().await;
        (0..1000).for_each(|_| reloads.ask());
        go.send(()).unwrap();
        begins().await;
        reloads.ask();
        go.send(()).unwrap();
        begins().await;
        drop(reloads);
        go.send(()).unwrap();
        let more = tokio::time::timeout(TIME, begun.recv()).await.unwrap();
        assert!(more.is_none(), "a fourth run");
    }
}
