//! The time for which a connection may be open, whether its client reads or not.
//!
//! A stream of events has no end, so each piece of it that its client takes gives the connection its time
//! anew. One whose client takes nothing ends as any other.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The time of a connection.
#[derive(Debug)]
pub(crate) struct Lifetime(Mutex<Instant>);

impl Default for Lifetime {
    fn default() -> Self {
        Self(Mutex::new(Instant::now() + CONNECTION_TIME))
    }
}

impl Lifetime {
    /// Gives the connection its whole time again.
    pub(super) fn renew(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + CONNECTION_TIME;
    }

    /// Waits until the time is over.
    pub(super) async fn is_over(&self) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// The time a connection may be open.
const CONNECTION_TIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn a_connection_whose_client_reads_events_stays_open() {
        let lifetime = Lifetime(Mutex::new(Instant::now()));
        tokio::time::timeout(CONNECTION_TIME, lifetime.is_over()).await.unwrap();
        lifetime.renew();
        let mut over = std::pin::pin!(lifetime.is_over());
        let is_over = std::future::poll_fn(|cx| Poll::Ready(over.as_mut().poll(cx).is_ready()));
        assert!(!is_over.await);
    }
}
