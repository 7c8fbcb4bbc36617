//! Waiting for something that can be observed, up to a bound.

use std::thread;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; a test that gets here is about to fail.
pub(crate) const BOUND: Duration = Duration::from_secs(40);

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(15);

/// Looks until there is something, and fails by name if nothing comes.
#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    match within(BOUND, look) {
        Some(found) => found,
        None => panic!("waited {BOUND:?} for {what}"),
    }
}

/// Looks until a condition holds, and fails by name if it never does.
#[track_caller]
pub(crate) fn holds(what: &str, mut condition: impl FnMut() -> bool) {
    until(what, || condition().then_some(()));
}

/// Looks until there is something, or the time is up.
pub(crate) fn within<T>(bound: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() > bound {
            return None;
        }
        thread::park_timeout(PAUSE);
    }
}
