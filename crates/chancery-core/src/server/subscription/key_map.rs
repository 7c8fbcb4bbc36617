//! Keys of a ledger with a value each, and the bytes of those keys whose texts nobody else keeps.
//!
//! A key outlives its subscription here: a client can unsubscribe a name, and the name stays refused.
//! Each key tells when it comes in whether its text is that of a resource, which does not count.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::interest::Spelling;
use crate::server::held_bytes;

/// Keys with a value each. Most subscriptions have none, so an empty one is a pointer.
#[derive(Debug)]
pub(super) struct KeyMap<V>(Option<Box<Keys<V>>>);

#[derive(Debug)]
struct Keys<V> {
    entries: BTreeMap<Spelling, Entry<V>>,
    /// The bytes of the texts that nobody else keeps, as [`held_bytes`] counts them.
    texts: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    /// True if nobody else may keep the text of the key.
    has_own_text: bool,
}

impl<V> Entry<V> {
    fn text(&self, key: &str) -> usize {
        if self.has_own_text { held_bytes::text(key.len()) } else { 0 }
    }
}

impl<V> KeyMap<V> {
    /// Adds a key, or replaces its value.
    pub(super) fn insert(&mut self, key: Spelling, value: V, has_own_text: bool) {
        let empty = || Box::new(Keys { entries: BTreeMap::new(), texts: 0 });
        let keys = self.0.get_or_insert_with(empty);
        if let Some(known) = keys.entries.get_mut(&key) {
            known.value = value; // The text stays the one that came first.
            return;
        }
        let entry = Entry { value, has_own_text };
        keys.texts += entry.text(&key);
        keys.entries.insert(key, entry);
    }

    /// Takes a key out, and returns its text and value.
    pub(super) fn remove(&mut self, key: &str) -> Option<(Spelling, V)> {
        let keys = self.0.as_mut()?;
        let (key, entry) = keys.entries.remove_entry(key)?;
        keys.texts -= entry.text(&key);
        self.forget_if_empty();
        Some((key, entry.value))
    }

    /// Drops the keys for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.take_if(|key, _| !keep(key));
    }

    /// Takes out the keys for which `is_gone` is true. Returns their values, and the bytes of each text
    /// if nobody else keeps it.
    pub(super) fn take_if(
        &mut self,
        is_gone: impl Fn(&str, &V) -> bool,
    ) -> Vec<(Spelling, V, usize)> {
        let Some(keys) = &mut self.0 else { return Vec::new() };
        let gone = keys.entries.extract_if(.., |key, entry| is_gone(key, &entry.value));
        let gone = gone.map(|(key, entry)| {
            let text = entry.text(&key);
            (key, entry.value, text)
        });
        let gone: Vec<_> = gone.collect();
        keys.texts -= gone.iter().map(|(_, _, text)| text).sum::<usize>();
        self.forget_if_empty();
        gone
    }

    fn forget_if_empty(&mut self) {
        if self.entries().is_none_or(BTreeMap::is_empty) {
            self.0 = None;
        }
    }

    fn entries(&self) -> Option<&BTreeMap<Spelling, Entry<V>>> {
        self.0.as_ref().map(|keys| &keys.entries)
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&V> {
        self.entries()?.get(key).map(|entry| &entry.value)
    }

    /// The keys and their values, in order.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&Spelling, &V)> {
        let entries = self.entries().map(BTreeMap::iter).unwrap_or_default();
        entries.map(|(key, entry)| (key, &entry.value))
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Spelling> {
        self.iter().map(|(key, _)| key)
    }

    /// The keys that do not sort before `start`, in order.
    pub(super) fn keys_from(&self, start: &str) -> impl Iterator<Item = &Spelling> {
        let range = (Bound::Included(start), Bound::Unbounded);
        let later = self.entries().map(|entries| entries.range::<str, _>(range));
        later.into_iter().flatten().map(|(key, _)| key)
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.entries().map_or(0, BTreeMap::len)
    }

    /// Returns true if there are no keys.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The bytes of the texts that nobody else keeps.
    pub(super) fn text_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |keys| keys.texts)
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        let entry = size_of::<Spelling>() + size_of::<Entry<V>>();
        held_bytes::tree(self.len(), entry) + self.text_bytes()
    }

    /// All keys, each with the bytes of its text if nobody else keeps that.
    pub(super) fn into_keys(self) -> impl Iterator<Item = (Spelling, usize)> {
        let entries = self.0.into_iter().flat_map(|keys| keys.entries);
        entries.map(|(key, entry)| {
            let text = entry.text(&key);
            (key, text)
        })
    }
}

impl<V> Default for KeyMap<V> {
    fn default() -> Self {
        Self(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_count_as_long_as_their_keys_are_there() {
        let mut keys = KeyMap::default();
        keys.insert("operator".into(), 1, false);
        assert_eq!(keys.text_bytes(), 0);
        for value in 2..4 {
            keys.insert("client".into(), value, true);
            keys.insert("operator".into(), value, true);
        }
        assert_eq!(keys.get("client"), Some(&3));
        assert_eq!(keys.text_bytes(), held_bytes::text("client".len()));
        keys.insert("other".into(), 4, true);
        keys.retain(|key| key != "client");
        assert_eq!(keys.text_bytes(), held_bytes::text("other".len()));
        assert_eq!(keys.remove("other"), Some(("other".into(), 4)));
        assert_eq!(keys.remove("operator"), Some(("operator".into(), 3)));
        assert_eq!((keys.text_bytes(), keys.held_bytes()), (0, 0));
    }
}
