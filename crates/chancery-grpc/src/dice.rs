//! The dice of each thread: fast, seeded from the randomness of the standard library, and no secret.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use chancery_calls::{Dice, SeededDice};

/// The dice of the thread that rolls them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadDice;

thread_local! {
    static DICE: RefCell<SeededDice> =
        RefCell::new(SeededDice(RandomState::new().hash_one(std::thread::current().id())));
}

impl Dice for ThreadDice {
    fn roll(&mut self) -> u64 {
        DICE.with_borrow_mut(SeededDice::roll)
    }
}
