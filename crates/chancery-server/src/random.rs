//! Random numbers, where replicas and clients must not move in step. Nothing secret depends on them.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A random number.
pub(crate) fn u64() -> u64 {
    RandomState::new().hash_one(0)
}

/// A random time, from zero to `most`.
pub(crate) fn duration_up_to(most: Duration) -> Duration {
    most.mul_f64(u64() as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_within_their_bound_and_differ() {
        let most = Duration::from_secs(10);
        let times: std::collections::BTreeSet<_> = (0..64).map(|_| duration_up_to(most)).collect();
        assert!(times.len() > 32);
        assert!(times.iter().all(|time| *time <= most));
    }
}
