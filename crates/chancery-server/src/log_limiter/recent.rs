//! A memory of the keys that were used last: bounded, and without an order to keep.
//!
//! It has two generations. A key that is used is in the young one; when that is full it becomes the
//! old one, and what was in the old one is forgotten.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by the keys that were used last.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// The number of keys of a generation.
    room: usize,
}

impl<K: Eq + Hash + Clone, V: Default> Recent<K, V> {
    /// A memory that holds between `room` and twice as many keys.
    pub(super) fn new(room: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), room }
    }

    /// The value of a key, and true if the key is new. Values that are forgotten for it are given to
    /// `forgotten`.
    pub(super) fn entry(&mut self, key: &K, forgotten: impl FnMut(V)) -> (&mut V, bool) {
        let known = self.young.contains_key(key);
        let before = if known { None } else { self.old.remove(key) };
        let is_new = !known && before.is_none();
        if !known && self.young.len() >= self.room {
            let old = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            old.into_values().for_each(forgotten);
        }
        let value = self.young.entry(key.clone()).or_insert_with(|| before.unwrap_or_default());
        (value, is_new)
    }

    /// The value of a key, if it is not forgotten.
    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.young.get_mut(key).or_else(|| self.old.get_mut(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_what_is_not_is_forgotten() {
        let mut recent = Recent::<u32, u32>::new(10);
        *recent.entry(&0, |_| panic!("nothing is forgotten yet")).0 = 7;
        let mut forgotten = 0;
        for key in 1..100 {
            recent.entry(&key, |_| forgotten += 1);
            assert_eq!(recent.entry(&0, |_| forgotten += 1), (&mut 7, false));
        }
        assert!(recent.young.len() + recent.old.len() <= 20);
        assert!(forgotten > 70, "{forgotten}");
        assert_eq!(recent.get_mut(&1), None);
        assert!(recent.entry(&1, |_| ()).1);
    }
}
