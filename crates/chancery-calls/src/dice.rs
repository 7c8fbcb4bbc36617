//! Randomness as an input: the caller brings it, so that the same rolls give the same decisions.

/// A source of uniform random numbers.
///
/// A program passes a generator of its own for each thread; a test passes rolls that it chose.
pub trait Dice {
    /// Returns a number of 64 random bits.
    fn roll(&mut self) -> u64;

    /// Returns a number below `limit`, each with the same chance; 0 if `limit` is 0.
    fn below(&mut self, limit: u64) -> u64 {
        // The high half of a product is uniform up to limit / 2^64, which no count of calls can show.
        let product = u128::from(self.roll()) * u128::from(limit);
        u64::try_from(product >> 64).unwrap_or_default()
    }
}

impl<D: Dice + ?Sized> Dice for &mut D {
    fn roll(&mut self) -> u64 {
        (**self).roll()
    }
}

/// A generator for tests and simulations (splitmix64): fast, seeded, and no secret.
#[derive(Clone, Debug)]
pub struct SeededDice(pub u64);

impl Dice for SeededDice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_below_a_limit_is_below_it_and_each_comes() {
        let mut dice = SeededDice(7);
        let mut seen = [0; 6];
        for _ in 0..6_000 {
            seen[usize::try_from(dice.below(6)).expect("a small number")] += 1;
        }
        assert!(seen.iter().all(|count| (850..1_150).contains(count)), "{seen:?}");
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.below(1), 0);
    }
}
