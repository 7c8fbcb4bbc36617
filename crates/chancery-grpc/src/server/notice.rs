//! A line in the log that may be due for each connection, and is written now and then.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time at which something was said last.
#[derive(Debug, Default)]
pub(super) struct Notice(Mutex<Option<Instant>>);

impl Notice {
    /// Returns true if it is time to say it again; it counts as said then.
    pub(super) fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = said.is_none_or(|said| now.duration_since(said) >= AGAIN);
        if is_due {
            *said = Some(now);
        }
        is_due
    }
}

/// The time after which the log hears it again.
const AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_is_written_once_a_minute() {
        let notice = Notice::default();
        assert!(notice.is_due());
        tokio::time::advance(AGAIN - Duration::from_millis(1)).await;
        assert!(!notice.is_due());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(notice.is_due());
        assert!(!notice.is_due());
    }
}
