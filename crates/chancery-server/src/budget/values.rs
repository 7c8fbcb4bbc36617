//! The sets of values that nodes state, as the peers hold them.
//!
//! Each different set has resources of its own, and a node says of itself what it likes; so the sets are divided
//! among peers as everything else is: no peer holds more than is left for the others. A set that others hold too
//! costs nothing more, and is refused to nobody. Not here: the number of all of them, which the catalog bounds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::peer::PeerShare;

/// The sets that peers hold, by their numbers.
pub(super) struct Values {
    limit: usize,
    /// The number of sets that a peer may have in any case.
    always: usize,
    /// The number of peers that hold a set.
    sets: Mutex<Holders>,
}

/// The number of holders of each set.
type Holders = HashMap<u64, usize>;

/// The sets that one peer holds, and with how many streams and polls.
#[derive(Default)]
pub(super) struct OwnValues(Mutex<Holders>);

/// One stream or poll of a peer whose node states a set of values. The peer holds the set until the last of these
/// is dropped.
pub(crate) struct ValuesPermit {
    share: Arc<PeerShare>,
    number: u64,
}

impl Values {
    pub(super) fn new(limit: usize, always: usize) -> Self {
        Self { limit, always: always.max(limit / 128), sets: Mutex::default() }
    }

    /// Notes that one peer more holds a set; it holds `own` sets then. Returns false if these are too many.
    fn take(&self, number: u64, own: Option<usize>) -> bool {
        let mut sets = lock(&self.sets);
        if !sets.contains_key(&number) {
            let left = self.limit.saturating_sub(sets.len() + 1);
            if own.is_some_and(|own| own > left && own > self.always) {
                return false;
            }
        }
        *sets.entry(number).or_default() += 1;
        true
    }

    fn give_back(&self, number: u64) {
        leave(&mut lock(&self.sets), number);
    }
}

impl ValuesPermit {
    /// A permit for a set of values, if the peer may hold it; `None` if it holds too many others.
    pub(crate) fn take(share: &Arc<PeerShare>, number: u64) -> Option<Self> {
        let (all, own) = share.values();
        let mut own = lock(&own.0);
        if !own.contains_key(&number)
            && !all.take(number, share.is_bounded().then_some(own.len() + 1))
        {
            return None;
        }
        *own.entry(number).or_default() += 1;
        Some(Self { share: Arc::clone(share), number })
    }
}

impl Drop for ValuesPermit {
    fn drop(&mut self) {
        let (all, own) = self.share.values();
        let mut own = lock(&own.0);
        if leave(&mut own, self.number) {
            all.give_back(self.number);
        }
    }
}

/// Notes that a set has one holder less. Returns true if it was the last one.
fn leave(holders: &mut Holders, number: u64) -> bool {
    let Some(count) = holders.get_mut(&number) else { return false };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        holders.remove(&number);
    }
    is_last
}

/// The lock of a peer is taken before that of all.
fn lock(holders: &Mutex<Holders>) -> MutexGuard<'_, Holders> {
    holders.lock().unwrap_or_else(PoisonError::into_inner)
}
