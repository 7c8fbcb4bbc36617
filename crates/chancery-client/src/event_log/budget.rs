//! The number of lines that a client writes to a log: a token bucket, which fills again with time
//! (C-139).
//!
//! A server that sends nonsense all the time must not fill a disk. Lines that are left out are
//! counted, and the next line says how many there were.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chancery_core::Time;
use chancery_core::client::{RateLimit, TokenBucket};
use tokio::time::Instant;

/// The lines that may be written.
#[derive(Debug)]
pub(crate) struct LogBudget {
    began: Instant,
    state: Mutex<BudgetState>,
}

#[derive(Debug, Default)]
struct BudgetState {
    pace: TokenBucket,
    left_out: u64,
}

/// The number of lines that may come at once, and the time until one more may.
const LIMIT: RateLimit = RateLimit { burst: 100, interval: Duration::from_millis(100) };

impl LogBudget {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), state: Mutex::default() }
    }

    /// Takes a line out of the budget, and returns how many were left out before it. `None` means
    /// that it must not be written.
    pub(crate) fn next(&self) -> Option<u64> {
        let now = Time(self.began.elapsed());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pace.next_token(LIMIT) > now {
            state.left_out += 1;
            return None;
        }
        state.pace.take(now, LIMIT);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-139
    #[tokio::test(start_paused = true)]
    async fn so_many_lines_come_at_once_and_then_one_by_one() {
        let lines = LogBudget::new();
        let written = || (0..1000).filter(|_| lines.next().is_some()).count();
        assert_eq!(written(), 100);
        tokio::time::advance(LIMIT.interval - Duration::from_millis(1)).await;
        assert_eq!(written(), 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(lines.next(), Some(900 + 1000));
        assert_eq!(lines.next(), None);
        tokio::time::advance(LIMIT.interval * 3).await;
        assert_eq!(written(), 3);
        for hours in [1, 1 << 20] {
            tokio::time::advance(Duration::from_secs(3600 * hours)).await;
            assert_eq!(written(), 100, "no more than at once, however long it was quiet");
        }
    }
}
