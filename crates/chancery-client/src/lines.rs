//! How many lines a client writes to a log: a bucket that fills again with time (C-139).
//!
//! A server that says nonsense all the time must not fill a disk. What is left out is counted, and
//! the next line says how much that was.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What may be written.
#[derive(Debug)]
pub(crate) struct Lines(Mutex<Bucket>);

#[derive(Debug)]
struct Bucket {
    /// What may be written at once.
    left: u32,
    /// Up to when it has been filled.
    filled: Instant,
    left_out: u64,
}

/// How many lines may come at once.
const AT_ONCE: u32 = 100;
/// How long it takes until one more may.
const ONE_MORE: Duration = Duration::from_millis(100);

impl Lines {
    pub(crate) fn new() -> Self {
        let bucket = Bucket { left: AT_ONCE, filled: Instant::now(), left_out: 0 };
        Self(Mutex::new(bucket))
    }

    /// Whether a line may be written, and then how many were left out before it.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut bucket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.fill();
        if bucket.left == 0 {
            bucket.left_out += 1;
            return None;
        }
        bucket.left -= 1;
        Some(std::mem::take(&mut bucket.left_out))
    }
}

impl Bucket {
    fn fill(&mut self) {
        let passed = self.filled.elapsed();
        let more = passed.as_millis() / ONE_MORE.as_millis();
        match u32::try_from(more) {
            Ok(more) if more < AT_ONCE => {
                self.left = AT_ONCE.min(self.left + more);
                self.filled += ONE_MORE * more;
            }
            _ => {
                self.left = AT_ONCE;
                self.filled += passed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-139
    #[tokio::test(start_paused = true)]
    async fn so_many_lines_come_at_once_and_then_one_by_one() {
        let lines = Lines::new();
        let written = || (0..1000).filter(|_| lines.next().is_some()).count();
        assert_eq!(written(), 100);
        tokio::time::advance(ONE_MORE - Duration::from_millis(1)).await;
        assert_eq!(written(), 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(lines.next(), Some(900 + 1000));
        assert_eq!(lines.next(), None);
        tokio::time::advance(ONE_MORE * 3).await;
        assert_eq!(written(), 3);
        for hours in [1, 1 << 20] {
            tokio::time::advance(Duration::from_secs(3600 * hours)).await;
            assert_eq!(written(), 100, "no more than at once, however long it was quiet");
        }
    }
}
