//! The text of `/metrics`, which serves for a short time once it is made.
//!
//! It is made on the thread of the interface, so who asks without end would keep that from everybody
//! else. A text serves for ten times as long as it took to make, so the thread has at least ten
//! elevenths of its time for other things. Who asks now and then has a new one each time. Not here:
//! what is counted (`serve::metrics`, and `Metrics` of the server).

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hyper::body::Bytes;
use prometheus_client::registry::Registry;

/// The metrics, and their last text.
pub(crate) struct MetricsPage {
    registry: Registry,
    last: Mutex<Option<Made>>,
}

struct Made {
    text: Bytes,
    serves_until: Instant,
}

/// The number of times of its making for which a text serves.
const TIMES: u32 = 10;

impl MetricsPage {
    pub(crate) fn new(registry: Registry) -> Self {
        Self { registry, last: Mutex::default() }
    }

    /// The text as it is now, or was a moment ago.
    pub(super) fn text(&self) -> Result<Bytes, fmt::Error> {
        self.text_by(Instant::now)
    }

    fn text_by(&self, clock: impl Fn() -> Instant) -> Result<Bytes, fmt::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = clock();
        if let Some(made) = last.as_ref().filter(|made| begun < made.serves_until) {
            return Ok(made.text.clone());
        }
        let mut encoded = String::new();
        prometheus_client::encoding::text::encode(&mut encoded, &self.registry)?;
        let (text, done) = (Bytes::from(encoded), clock());
        let serves_until = done + done.saturating_duration_since(begun) * TIMES;
        *last = Some(Made { text: text.clone(), serves_until });
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn a_text_serves_for_a_time_that_follows_from_how_long_it_took() {
        let (mut registry, counter) = (Registry::default(), Counter::<u64>::default());
        registry.register("things", "Things", counter.clone());
        let (page, now) = (MetricsPage::new(registry), Cell::new(Instant::now()));
        let step = Duration::from_millis(1);
        // Each look at the clock takes a millisecond, and so does each text.
        let clock = || {
            now.set(now.get() + step);
            now.get()
        };
        let shown = || {
            counter.inc();
            let text = page.text_by(clock).unwrap();
            let text = str::from_utf8(&text).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("things_total "));
            line.unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(shown(), 1);
        assert!((2..=10).all(|_| shown() == 1));
        assert_eq!(shown(), 11, "it took a millisecond, and ten are over");
        now.set(now.get() + step * TIMES);
        assert_eq!(shown(), 12);
    }
}
