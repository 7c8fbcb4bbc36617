//! A number of things that peers take from, and the rule by which they share it.
//!
//! A pool knows no peers: who takes says how many it has. Not here: the memory, which is a pool that
//! can ask for things back (`memory`).

use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of things of which each peer may take some.
pub(super) struct Pool {
    limit: usize,
    /// The number of things that a peer may have as long as there are any.
    always: usize,
    taken: AtomicUsize,
}

/// The reason why a pool gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The peer would hold more than is left for the others.
    Share,
    /// Too little is left.
    Whole,
}

impl Pool {
    /// A pool of `limit` things. A peer may have `always` of them, or one of 128 parts of the pool if
    /// that is more, as long as there are any. A quarter of a small pool is left for others.
    pub(super) fn new(limit: usize, always: usize) -> Self {
        let always = always.max(limit / 128).min(limit - limit / 4);
        Self { limit, always, taken: AtomicUsize::new(0) }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The number of things that a peer may have beside no others.
    pub(super) fn most_of_one(&self) -> usize {
        (self.limit / 2).max(self.always)
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Returns true if a peer with so many things is given more as long as there are any.
    pub(super) fn is_little(&self, own: usize) -> bool {
        own <= self.always
    }

    /// Takes `more`, for a peer that has `own` things then. A peer without a bound says `None`.
    pub(super) fn take(&self, more: usize, own: Option<usize>) -> Result<(), Shortage> {
        self.take_below(self.limit, more, |left| {
            own.is_none_or(|own| own <= left || self.is_little(own))
        })
    }

    /// Takes `more` for a peer that has `own` things then, although that is above its share, or above
    /// the pool: by a sixteenth, by three of 32 parts for a peer that has few, and by an eighth for one
    /// that has a quarter of few at most.
    pub(super) fn take_from_reserve(&self, more: usize, own: usize) -> Result<(), Shortage> {
        let parts = match own {
            _ if self.is_little(own.saturating_mul(4)) => 4,
            _ if self.is_little(own) => 3,
            _ => 2,
        };
        let reserve = self.limit / 32 * parts;
        self.take_below(self.limit + reserve, more, |_| true)
    }

    /// Takes `more`, if there are so many below `limit` and what is left then is enough.
    fn take_below(
        &self,
        limit: usize,
        more: usize,
        is_enough: impl Fn(usize) -> bool,
    ) -> Result<(), Shortage> {
        let mut before = self.taken.load(Ordering::Acquire);
        loop {
            let after = before.saturating_add(more);
            let left = limit.checked_sub(after).ok_or(Shortage::Whole)?;
            if !is_enough(left) {
                return Err(Shortage::Share);
            }
            let taken = self.taken.compare_exchange_weak(
                before,
                after,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => return Ok(()),
                Err(now) => before = now,
            }
        }
    }

    pub(super) fn give_back(&self, less: usize) {
        self.taken.fetch_sub(less, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one by one until nothing more is given. Returns how many it got.
    fn take_all(pool: &Pool) -> usize {
        (1..).take_while(|own| pool.take(1, Some(*own)).is_ok()).count()
    }

    #[test]
    fn a_peer_beside_no_others_has_half_or_what_a_little_one_may_have() {
        for (limit, most) in [(0, 0), (1, 1), (32, 24), (40, 30), (64, 32), (65, 32), (1_000, 500)]
        {
            let pool = Pool::new(limit, 32);
            assert_eq!((take_all(&pool), pool.most_of_one()), (most, most), "of {limit}");
        }
    }

    #[test]
    fn each_peer_leaves_as_much_as_it_has() {
        let pool = Pool::new(1_000, 1);
        let taken: Vec<_> = (0..5).map(|_| take_all(&pool)).collect();
        assert_eq!(taken, [500, 250, 125, 62, 31]);
        assert_eq!(pool.take(1, Some(32)), Err(Shortage::Share));
    }

    #[test]
    fn a_small_peer_is_refused_only_when_nothing_is_left() {
        let pool = Pool::new(1_280, 1);
        for _ in 0..128 {
            assert!((1..=10).all(|own| pool.take(1, Some(own)).is_ok()));
        }
        assert_eq!(pool.taken(), 1_280);
        assert_eq!(pool.take(1, Some(1)), Err(Shortage::Whole));
        assert_eq!(pool.take_from_reserve(80, 80), Ok(()));
        assert_eq!(
            pool.take_from_reserve(1, 81),
            Err(Shortage::Whole),
            "the rest is for small peers"
        );
        assert_eq!((0..80).map(|_| pool.take_from_reserve(1, 1)).filter(Result::is_ok).count(), 80);
        assert_eq!(pool.take_from_reserve(1, 1), Err(Shortage::Whole));
    }

    #[test]
    fn a_peer_without_a_bound_may_take_everything() {
        let pool = Pool::new(100, 1);
        assert_eq!(pool.take(100, None), Ok(()));
        assert_eq!(pool.take(1, None), Err(Shortage::Whole));
        pool.give_back(100);
        assert_eq!(pool.taken(), 0);
    }
}
