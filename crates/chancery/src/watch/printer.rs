//! The thread that prints. It may wait for the reader of stdout; no other thread waits for it.
//!
//! Not here: the look of an event ([`super::output`]).

use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use chancery_client::watch::ErrorKind;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::event::{EventKind, ResourceEvent};
use super::output::{Output, Wrote};
use crate::ask::plain;
use crate::exit::Failure;

/// The thread that prints.
pub(super) struct Printer {
    /// The outcome, until it was taken.
    ended: Option<oneshot::Receiver<Result<(), Failure>>>,
    stops: Arc<AtomicBool>,
}

impl Printer {
    /// Prints events until there were enough, or nobody reads them.
    pub(super) fn start(
        events: Receiver<ResourceEvent>,
        output: Output,
        count: Option<u64>,
    ) -> Self {
        let (sender, ended) = oneshot::channel();
        let stops = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stops);
        thread::spawn(move || {
            // Nobody receives it if the program is about to end.
            sender.send(print(events, output, count, &is_stopped)).ok();
        });
        Self { ended: Some(ended), stops }
    }

    /// Waits for the outcome.
    pub(super) async fn wait_for_outcome(&mut self) -> Result<(), Failure> {
        let Some(ended) = &mut self.ended else { return pending().await };
        let outcome = ended.await.context("the thread that prints came to an end");
        self.ended = None;
        outcome.map_err(Failure::from)?
    }

    /// Makes it print no further event.
    pub(super) fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Waits until the last event is written, once there are no more. The wait has a bound, because
    /// the reader may have stopped reading.
    pub(super) async fn finish(self) {
        if let Some(ended) = self.ended {
            timeout(LAST_EVENT, ended).await.ok();
        }
    }
}

fn print(
    mut events: Receiver<ResourceEvent>,
    mut output: Output,
    count: Option<u64>,
    stops: &AtomicBool,
) -> Result<(), Failure> {
    let mut printed = 0;
    while let Some(event) = events.blocking_recv() {
        if stops.load(Ordering::Relaxed) {
            return Ok(());
        }
        refused(&event)?;
        match output.write(&event)? {
            Wrote::Event => printed += 1,
            Wrote::Nothing => {}
            Wrote::ToNobody => return Ok(()),
        }
        if count.is_some_and(|count| printed >= count) || stops.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
    Err(Failure::broken(anyhow!("the client came to an end")))
}

/// Returns a failure for a query that cannot be watched. The program has to end then: it would
/// print nothing more, and would never notice that its reader has gone.
fn refused(event: &ResourceEvent) -> Result<(), Failure> {
    match &event.kind {
        EventKind::Error(error)
            if matches!(error.kind, ErrorKind::Name | ErrorKind::Authority | ErrorKind::Broken) =>
        {
            Err(Failure::broken(anyhow!("{}", plain(&error.text))))
        }
        _ => Ok(()),
    }
}

/// Waits until stdout has no reader any more. If that cannot be known, as of a file, it waits for
/// ever.
pub(super) async fn deserted() {
    let Ok(stdout) = io::stdout().as_fd().try_clone_to_owned() else { return pending().await };
    // Nothing is written through this handle, so it need not be a pipe, and stdout stays blocking.
    let Ok(stdout) = Sender::from_owned_fd_unchecked(stdout) else { return pending().await };
    if stdout.ready(Interest::ERROR).await.is_err() {
        pending().await
    }
}

/// The time that the last event may take to be written.
const LAST_EVENT: Duration = Duration::from_millis(500);
