//! Readings of the directory that somebody waits for, to be sure that a file is loaded as it is now.
//!
//! A reading that goes on may have passed the file already, so one who comes meanwhile waits for the next one.
//! Not here: the reading (`chancery_sources`).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio::sync::watch;

use crate::admin::api::ApiError;

/// The readings that were asked for.
pub(crate) struct Rereads {
    directory: OnceLock<PathBuf>,
    read: OnceLock<Box<dyn Fn() + Send + Sync>>,
    asked: Mutex<Asked>,
    done: watch::Sender<u64>,
}

/// The readings that are not over.
#[derive(Default)]
struct Asked {
    /// True if one goes on, or is about to.
    going_on: bool,
    /// True if another one has to follow it.
    again: bool,
}

impl Default for Rereads {
    fn default() -> Self {
        let (directory, read, asked) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        Self { directory, read, asked, done: watch::Sender::new(0) }
    }
}

impl Rereads {
    /// Says which directory is served, and how it is read again.
    pub(crate) fn read_by(&self, directory: &Path, read: impl Fn() + Send + Sync + 'static) {
        self.directory.set(directory.to_owned()).ok();
        self.read.set(Box::new(read)).ok();
    }

    /// Waits until a reading is over that began after this was called.
    pub(super) async fn reread(&self) -> Result<(), ApiError> {
        let mut done = self.done.subscribe();
        let expected = self.ask().ok_or_else(ApiError::too_early)?;
        // The sender lives as long as this.
        done.wait_for(|done| *done >= expected).await.map_err(|_| ApiError::failed())?;
        Ok(())
    }

    /// Asks for a reading that begins from now on. Returns the number of readings after which it is over.
    pub(crate) fn ask(&self) -> Option<u64> {
        let read = self.read.get()?;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let done = *self.done.borrow();
        if asked.going_on {
            asked.again = true;
            return Some(done + 2);
        }
        asked.going_on = true;
        read();
        Some(done + 1)
    }

    /// Takes note that a reading is over that was asked for.
    pub(crate) fn is_over(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked.going_on {
            return;
        }
        asked.going_on = std::mem::take(&mut asked.again);
        self.done.send_modify(|done| *done += 1);
        if asked.going_on
            && let Some(read) = self.read.get()
        {
            read();
        }
    }

    /// The path of a file as the server knows it, if it is in the directory.
    pub(super) async fn check(&self, file: PathBuf) -> Result<PathBuf, ApiError> {
        let directory = self.directory.get().ok_or_else(ApiError::too_early)?.clone();
        let checking = tokio::task::spawn_blocking(move || {
            let real =
                |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            let (inside, absolute) = (real(&directory), std::path::absolute(&directory));
            let is_below = absolute.is_ok_and(|below| file.starts_with(below));
            (is_below || real(&file).starts_with(&inside)).then_some(file)
        });
        let file = checking.await.map_err(|_| ApiError::failed())?;
        file.ok_or_else(|| {
            ApiError::parameter(
                "`file` is no absolute path of a file in the directory of the server",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    const TIME: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn who_comes_during_a_reading_waits_for_the_next_one() {
        let (rereads, begun) = (Arc::new(Rereads::default()), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&begun);
        rereads.read_by(Path::new("/"), move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let wait = || {
            let rereads = Arc::clone(&rereads);
            tokio::spawn(async move { rereads.reread().await.unwrap() })
        };
        // One that nobody has asked for says nothing.
        rereads.is_over();
        let first = wait();
        tokio::task::yield_now().await;
        let (second, third) = (wait(), wait());
        tokio::task::yield_now().await;
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        rereads.is_over();
        tokio::time::timeout(TIME, first).await.unwrap().unwrap();
        tokio::task::yield_now().await;
        assert!(!second.is_finished() && !third.is_finished());
        assert_eq!(begun.load(Ordering::Relaxed), 2);
        rereads.is_over();
        for late in [second, third] {
            tokio::time::timeout(TIME, late).await.unwrap().unwrap();
        }
        assert_eq!(begun.load(Ordering::Relaxed), 2);
    }
}
