//! An order in which endpoints come as often as they have weight, evenly spread, that many callers ask
//! at once: each takes the next number of a sequence, and the number decides.
//!
//! A sequence of rounds goes over all endpoints. An endpoint with three quarters of the greatest weight
//! is passed over in each fourth round, and its neighbour in another one.

/// The greatest weight in a schedule. An endpoint is chosen in `weight` of so many rounds.
const GREATEST: u16 = u16::MAX;

/// A weight counts as no more than this times the mean, as in gRPC for C++ and Java. Otherwise most
/// rounds would pass over nearly all endpoints, and a pick would be slow.
const MOST_OF_MEAN: f64 = 10.0;

/// An order of endpoints.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// All have the same weight.
    Even(usize),
    /// Their weights; the greatest is [`GREATEST`].
    Weighted(Box<[u16]>),
}

impl Schedule {
    /// Returns an order by these weights. 0 means that the weight is not known: it is the mean of the
    /// others. If fewer than two are known, all are the same.
    pub(super) fn new(weights: &[f64]) -> Self {
        let even = Self::Even(weights.len());
        let known = || weights.iter().copied().filter(|weight| *weight > 0.0);
        let count = known().count();
        if count < 2 {
            return even;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts of endpoints are exact in an f64")]
        let mean = known().sum::<f64>() / count as f64;
        let most = mean * MOST_OF_MEAN;
        let greatest = known().fold(0.0, f64::max).min(most);
        let scaled = weights.iter().map(|weight| {
            let weight = if *weight > 0.0 { weight.min(most) } else { mean };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is at most the greatest, and at least 1: each endpoint gets calls"
            )]
            let scaled = (weight / greatest * f64::from(GREATEST)).round().max(1.0) as u16;
            scaled
        });
        let scaled: Box<[u16]> = scaled.collect();
        let is_even = scaled.iter().all(|weight| *weight == scaled[0]);
        if is_even { even } else { Self::Weighted(scaled) }
    }

    /// Returns the place of the next endpoint, by the numbers of a sequence that all callers share.
    pub(super) fn next(&self, mut number: impl FnMut() -> usize) -> usize {
        match self {
            Self::Even(count) => number() % (*count).max(1),
            // In each round at least the one with the greatest weight is chosen.
            Self::Weighted(weights) => loop {
                let number = number();
                let place = number % weights.len();
                if is_chosen(weights[place], place, number / weights.len()) {
                    return place;
                }
            },
        }
    }
}

/// Returns true if the endpoint at a place is chosen in a round. The places begin half a cycle apart,
/// so that neighbours of the same weight are not passed over in the same rounds.
fn is_chosen(weight: u16, place: usize, round: usize) -> bool {
    let (weight, greatest) = (usize::from(weight), usize::from(GREATEST));
    let shift = place.wrapping_mul(greatest / 2);
    weight.wrapping_mul(round).wrapping_add(shift) % greatest >= greatest - weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(weights: &[f64], picks: usize) -> Vec<usize> {
        let schedule = Schedule::new(weights);
        let mut number = 0;
        let mut counts = vec![0; weights.len()];
        for _ in 0..picks {
            let place = schedule.next(|| {
                number += 1;
                number
            });
            counts[place] += 1;
        }
        counts
    }

    /// C-116: calls by weight, and the mean where there is no weight.
    #[test]
    fn endpoints_come_by_weight() {
        let near = |counts: Vec<usize>, expected: &[usize]| {
            let is_near = |(one, other): (&usize, &usize)| one.abs_diff(*other) <= 5;
            assert!(counts.iter().zip(expected).all(is_near), "{counts:?} and not {expected:?}");
        };
        near(counts(&[1.0, 2.0, 3.0], 60_000), &[10_000, 20_000, 30_000]);
        near(counts(&[1.0, 3.0, 0.0], 60_000), &[10_000, 30_000, 20_000]);
        near(counts(&[1e-9, 1.0], 100_000), &[2, 99_998]);
        near(counts(&[0.1, 0.2, 0.3, 0.4], 1_000), &[100, 200, 300, 400]);
        let mut one_giant = vec![1.0; 99];
        one_giant.push(1e9);
        assert!(counts(&one_giant, 1_000)[99] > 700);
    }

    /// C-116: falls back to round robin under two weights.
    #[test]
    fn fewer_than_two_weights_are_none() {
        for weights in [&[0.0, 0.0, 0.0][..], &[0.0, 7.0, 0.0], &[2.0, 2.0, 0.0]] {
            assert_eq!(Schedule::new(weights), Schedule::Even(3));
        }
        assert_eq!(counts(&[0.0, 7.0], 10), [5, 5]);
        assert_eq!(Schedule::new(&[7.0]), Schedule::Even(1));
    }
}
