//! The keys that a client has unsubscribed and that it is still owed, because it is subscribed to
//! them as members of a wildcard or glob.
//!
//! They are the client's texts, and count among its names until it is told about them: otherwise a
//! client could have any number of names kept by unsubscribing them.

use std::collections::BTreeSet;

use super::interest::Spelling;
use crate::server::held_bytes;

/// The keys that a client has unsubscribed and that it is still owed. Most clients have none, so an
/// empty one is a pointer.
#[derive(Debug, Default)]
pub(super) struct UnsubscribedKeys(Option<Box<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    all: BTreeSet<Spelling>,
    /// The bytes of the texts.
    bytes: usize,
}

impl UnsubscribedKeys {
    /// Adds a key.
    pub(super) fn insert(&mut self, key: Spelling) {
        let (bytes, keys) = (key.len(), self.0.get_or_insert_default());
        if keys.all.insert(key) {
            keys.bytes += bytes;
        }
    }

    /// Takes a key out, if it is there.
    pub(super) fn take(&mut self, key: &str) -> Option<Spelling> {
        let keys = self.0.as_mut()?;
        let key = keys.all.take(key)?;
        keys.bytes -= key.len();
        Some(key)
    }

    /// Drops the keys for which `is_owed` is false.
    pub(super) fn retain(&mut self, is_owed: impl Fn(&str) -> bool) {
        let Some(keys) = &mut self.0 else { return };
        let bytes = &mut keys.bytes;
        keys.all.retain(|key| {
            let keeps = is_owed(key);
            *bytes -= if keeps { 0 } else { key.len() };
            keeps
        });
        if keys.all.is_empty() {
            self.0 = None;
        }
    }

    /// The number of keys, and the bytes of their texts.
    pub(super) fn sizes(&self) -> (usize, usize) {
        self.0.as_ref().map_or((0, 0), |keys| (keys.all.len(), keys.bytes))
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        let (count, bytes) = self.sizes();
        bytes + count * held_bytes::text(0) + held_bytes::tree(count, size_of::<Spelling>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_once_and_is_the_same_text_when_it_is_subscribed_again() {
        let mut keys = UnsubscribedKeys::default();
        let first = Spelling::from("first");
        for key in [first.clone(), "first".into(), "other".into(), "third".into()] {
            keys.insert(key);
        }
        assert_eq!(keys.sizes(), (3, 15));
        assert!(keys.take("first").is_some_and(|it| Spelling::ptr_eq(&it, &first)));
        assert_eq!(keys.take("first"), None);
        keys.retain(|key| key == "other");
        assert_eq!(keys.sizes(), (1, 5));
        keys.retain(|_| false);
        assert_eq!((keys.sizes(), keys.held_bytes()), ((0, 0), 0));
    }
}
