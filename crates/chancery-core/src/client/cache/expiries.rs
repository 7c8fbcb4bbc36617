//! The times from which on resources must not be used any more, unless they are renewed (C-045).
//!
//! A renewal leaves the time before it behind. Those are cleared away when there are more of them
//! than of others, so that a server that renews often, and for long, costs no memory.

use std::collections::BTreeSet;

use crate::client::authority_key::AuthorityKey;
use crate::{ResourceName, Time, TypeUrl};

/// A resource where it is held, which need not be under its own authority: everything may be
/// watched under another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Expiry {
    pub(super) at: Time,
    pub(super) authority: AuthorityKey,
    pub(super) type_url: TypeUrl,
    pub(super) name: ResourceName,
}

/// All times to live, and some that are over.
#[derive(Debug, Default)]
pub(super) struct Expiries {
    all: BTreeSet<Expiry>,
    /// The number of them when they were last cleared.
    live: usize,
}

impl Expiries {
    /// Adds one. `lives` says which are still true.
    pub(super) fn add(&mut self, expiry: Expiry, lives: impl Fn(&Expiry) -> bool) {
        self.all.insert(expiry);
        if self.all.len() > 2 * self.live + FEW {
            self.all.retain(lives);
            self.live = self.all.len();
        }
    }

    /// Returns the next time.
    pub(super) fn next(&self) -> Option<Time> {
        self.all.first().map(|expiry| expiry.at)
    }

    /// Takes out one that is over.
    pub(super) fn next_expired(&mut self, now: Time) -> Option<Expiry> {
        if self.next()? <= now { self.all.pop_first() } else { None }
    }
}

/// So many are not worth clearing.
const FEW: usize = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// C-045
    #[test]
    fn a_resource_that_is_renewed_for_ever_is_kept_track_of_once() {
        let mut expiries = Expiries::default();
        for second in 0..100_000 {
            let at = Time(Duration::from_secs(1_000_000 + second));
            let name = ResourceName::read("a").unwrap();
            let type_url = TypeUrl::new("T");
            let expiry = Expiry { at, authority: AuthorityKey::Old, type_url, name };
            expiries.add(expiry, |one| one.at == at);
            assert!(expiries.all.len() <= FEW + 2);
        }
    }
}
