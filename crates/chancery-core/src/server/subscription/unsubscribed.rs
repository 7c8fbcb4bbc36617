//! The keys that a client has unsubscribed and that it is still owed, because it is subscribed to
//! them as members of a wildcard or glob.
//!
//! They are the client's texts, and count among its names until it is told about them: otherwise a
//! client could have any number of names kept by unsubscribing them.

use std::collections::BTreeSet;

use super::interest::Spelling;
use crate::server::held_bytes;

/// The keys that a client has unsubscribed and that it is still owed.
#[derive(Debug, Default)]
pub(super) struct UnsubscribedKeys {
    keys: BTreeSet<Spelling>,
    /// The bytes of the texts.
    bytes: usize,
}

impl UnsubscribedKeys {
    /// Adds a key.
    pub(super) fn insert(&mut self, key: Spelling) {
        let bytes = key.len();
        if self.keys.insert(key) {
            self.bytes += bytes;
        }
    }

    /// Drops a key.
    pub(super) fn remove(&mut self, key: &str) {
        if self.keys.remove(key) {
            self.bytes -= key.len();
        }
    }

    /// Drops the keys for which `is_owed` is false.
    pub(super) fn retain(&mut self, is_owed: impl Fn(&str) -> bool) {
        if self.keys.is_empty() {
            return;
        }
        let bytes = &mut self.bytes;
        self.keys.retain(|key| {
            let keeps = is_owed(key);
            *bytes -= if keeps { 0 } else { key.len() };
            keeps
        });
    }

    /// The number of keys, and the bytes of their texts.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.keys.len(), self.bytes)
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        let texts = self.bytes + self.keys.len() * held_bytes::text(0);
        texts + held_bytes::tree(self.keys.len(), size_of::<Spelling>())
    }
}
