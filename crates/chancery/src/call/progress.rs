//! The progress of many calls, as one line on the terminal. Nothing is written if stderr is no terminal.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::{Instant, Interval, interval};

/// The line of the progress. It goes when this is dropped.
pub(super) struct Progress {
    ticks: Option<Interval>,
    began: Instant,
}

impl Progress {
    pub(super) fn new(is_wanted: bool) -> Self {
        let is_shown = is_wanted && io::stderr().is_terminal();
        Self { ticks: is_shown.then(|| interval(TICK)), began: Instant::now() }
    }

    /// Waits until the line is to be written again, which may never be.
    pub(super) async fn is_due(&mut self) {
        match &mut self.ticks {
            Some(ticks) => drop(ticks.tick().await),
            None => std::future::pending().await,
        }
    }

    /// Writes the line.
    pub(super) fn show(&self, calls: u32) {
        let time = self.began.elapsed().as_secs();
        // An error means that the terminal is gone, and nothing can be done about it.
        write!(io::stderr(), "\r\x1b[K{calls} calls in {time}s").ok();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.ticks.is_some() {
            write!(io::stderr(), "\r\x1b[K").ok();
        }
    }
}

/// The time between two lines.
const TICK: Duration = Duration::from_millis(200);
