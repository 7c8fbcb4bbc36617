//! Percentiles of times.

use serde::Serialize;

/// The percentiles and the maximum of some times, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Percentiles {
    /// The percentiles of times in nanoseconds, in any order; nothing if there are no times.
    pub(crate) fn of(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        Self::sorted(&times)
    }

    /// The percentiles of times that are in order.
    pub(crate) fn sorted(times: &[u64]) -> Option<Self> {
        let max = milliseconds(*times.last()?);
        let at = |percent| milliseconds(percentile(times, percent));
        Some(Self { p50: at(50), p90: at(90), p99: at(99), max })
    }
}

/// The smallest of some ordered times that so many percent do not exceed.
pub(crate) fn percentile(times: &[u64], percent: usize) -> u64 {
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or(0)
}

pub(crate) fn milliseconds(nanoseconds: u64) -> f64 {
    (nanoseconds as f64 / 1e6 * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<u64> = (1..=100).map(|at| at * 1_000_000).collect();
        let percentiles = Percentiles::of(times.into_iter().rev().collect()).unwrap();
        assert_eq!(percentiles, Percentiles { p50: 50.0, p90: 90.0, p99: 99.0, max: 100.0 });
        assert_eq!(percentile(&[7], 50), 7);
        assert_eq!(percentile(&[1, 2], 50), 1);
        assert_eq!(Percentiles::of(Vec::new()), None);
    }
}
