//! Chances in the three denominators of the API (C-097).

use std::fmt::{self, Display, Formatter};

use crate::Dice;

/// The number of which a fraction is a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the numbers")]
pub enum Denominator {
    Hundred,
    TenThousand,
    Million,
}

impl Denominator {
    fn number(self) -> u32 {
        match self {
            Self::Hundred => 100,
            Self::TenThousand => 10_000,
            Self::Million => 1_000_000,
        }
    }
}

/// A chance, which is rolled for each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: u32,
    denominator: Denominator,
}

impl Fraction {
    /// Makes a chance. A numerator above the denominator means always.
    pub fn new(numerator: u32, denominator: Denominator) -> Self {
        Self { numerator: numerator.min(denominator.number()), denominator }
    }

    /// The same chance, and this one at most, over the same denominator.
    pub fn at_most(self, numerator: u32) -> Self {
        Self { numerator: self.numerator.min(numerator), ..self }
    }

    /// Returns true if it always happens.
    pub fn is_certain(self) -> bool {
        self.numerator == self.denominator.number()
    }

    /// Rolls. No roll is spent on what always or never happens.
    ///
    /// gRFC A28 compares with "less or equal", so that a chance of 0 would happen once in a million calls. A
    /// chance of 0 means never.
    pub fn happens(self, dice: &mut impl Dice) -> bool {
        match self.numerator {
            0 => false,
            all if all == self.denominator.number() => true,
            some => dice.below(self.denominator.number().into()) < some.into(),
        }
    }
}

impl Display for Fraction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.numerator, self.denominator.number())
    }
}

#[cfg(test)]
mod tests {
    use super::Denominator::*;
    use super::*;
    use crate::SeededDice;

    fn count(fraction: Fraction, calls: u32) -> u32 {
        let mut dice = SeededDice(1);
        (0..calls).map(|_| u32::from(fraction.happens(&mut dice))).sum()
    }

    #[test]
    fn chances_are_kept() {
        // C-097
        for denominator in [Hundred, TenThousand, Million] {
            let all = denominator.number();
            assert_eq!(count(Fraction::new(0, denominator), 10_000), 0);
            assert_eq!(count(Fraction::new(all, denominator), 10_000), 10_000);
            assert_eq!(count(Fraction::new(u32::MAX, denominator), 10_000), 10_000);
            // Five standard deviations around the mean of a fair half: 50 each.
            let half = count(Fraction::new(all / 2, denominator), 10_000);
            assert!((4_750..=5_250).contains(&half), "{half}");
        }
        // One in a million, ten million times: the mean is 10, and its deviation 3.2.
        let rare = count(Fraction::new(1, Million), 10_000_000);
        assert!((1..=27).contains(&rare), "{rare}");
    }

    #[test]
    fn each_roll_below_the_numerator_happens_and_no_other() {
        // C-097
        struct Rolled(u64);
        impl Dice for Rolled {
            fn roll(&mut self) -> u64 {
                self.0
            }
            fn below(&mut self, limit: u64) -> u64 {
                self.0 % limit
            }
        }
        for (rolled, happens) in [(0, true), (24, true), (25, false), (99, false)] {
            assert_eq!(Fraction::new(25, Hundred).happens(&mut Rolled(rolled)), happens);
        }
    }

    #[test]
    fn a_chance_is_capped() {
        assert_eq!(Fraction::new(30, Hundred).at_most(50), Fraction::new(30, Hundred));
        assert_eq!(Fraction::new(30, Hundred).at_most(5).to_string(), "5 of 100");
    }
}
