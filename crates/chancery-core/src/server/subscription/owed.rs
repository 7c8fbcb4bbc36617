//! The keys that a client is owed, and the texts that are kept for them alone.
//!
//! The text of most keys is that of the interest or of a resource. Others are the client's, and only
//! this keeps them: keys that were unsubscribed, keys of an earlier stream, and the texts in place of
//! which the interest shares those of resources. Not here: why a key is owed (`ledger`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use super::interest::Spelling;
use super::key_map::KeyMap;
use crate::Resource;
use crate::server::held_bytes;

/// The keys that a client is owed, with the resource that it holds under each.
#[derive(Debug, Default)]
pub(super) struct OwedKeys {
    keys: BTreeMap<Spelling, ClientCopy>,
    /// Those of the keys that the client has unsubscribed, and that it is subscribed to as members of
    /// a wildcard or glob. They count among its names until it is told about them: otherwise it could
    /// have any number of names kept by unsubscribing them.
    unsubscribed: KeyMap<()>,
    /// The bytes of the texts of other keys that nobody else keeps, at most.
    own_texts: usize,
}

/// The resource that the client holds under a key, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClientCopy {
    /// Nobody knows, and the client asked for the key: it has to be told whatever there is.
    Unknown,
    /// The client may hold what it was sent before or not: it has to be told again.
    Doubtful,
    /// The client holds nothing under the key.
    Nothing,
    /// The client holds this resource.
    Has(Arc<Resource>),
}

impl ClientCopy {
    /// Returns true if the client holds nothing under the key, as far as it is known.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self, Self::Nothing | Self::Unknown)
    }
}

impl OwedKeys {
    /// Adds a key, or says anew what the client holds under it.
    pub(super) fn insert(&mut self, key: Spelling, copy: ClientCopy) {
        self.keys.insert(key, copy);
    }

    /// Adds keys with what the client holds under each, or says that anew.
    pub(super) fn insert_all(&mut self, keys: impl Iterator<Item = (Spelling, ClientCopy)>) {
        if self.keys.is_empty() {
            // A tree that is made from a sorted list has full nodes.
            self.keys = keys.collect();
        } else {
            self.keys.extend(keys);
        }
    }

    /// Adds a key if it is not there.
    pub(super) fn insert_new(&mut self, key: Spelling, copy: ClientCopy) {
        self.keys.entry(key).or_insert(copy);
    }

    /// Adds a key if it is not there, and these bytes of its text: nobody else keeps them.
    pub(super) fn insert_new_own(&mut self, key: Spelling, copy: ClientCopy, text: usize) {
        if let Entry::Vacant(place) = self.keys.entry(key) {
            place.insert(copy);
            self.own_texts += text;
        }
    }

    /// Adds a key whose text nobody else keeps, as far as these bytes of it.
    pub(super) fn insert_own(&mut self, key: Spelling, copy: ClientCopy, text: usize) {
        if self.keys.insert(key, copy).is_none() {
            self.own_texts += text;
        }
    }

    /// Adds a key that the client was told before, and these bytes of its text if the key was not
    /// there: nobody else keeps them.
    pub(super) fn insert_again(&mut self, key: Spelling, text: usize) {
        match self.keys.entry(key) {
            Entry::Vacant(place) => {
                place.insert(ClientCopy::Doubtful);
                self.own_texts += text;
            }
            Entry::Occupied(mut held) => {
                if let ClientCopy::Has(_) = held.get() {
                    held.insert(ClientCopy::Doubtful);
                }
            }
        }
    }

    /// Takes in that nobody else keeps texts of these bytes any more.
    pub(super) fn add_texts(&mut self, bytes: usize) {
        if !self.keys.is_empty() {
            self.own_texts += bytes;
        }
    }

    /// Takes in that the client has unsubscribed a key, if it is there.
    pub(super) fn keep_unsubscribed(&mut self, key: &Spelling) {
        if self.keys.contains_key(key) {
            self.unsubscribed.insert(Arc::clone(key), (), true);
        }
    }

    /// Takes in that the client subscribes a name. Returns the text of it that is kept, if the client
    /// had unsubscribed it.
    pub(super) fn resubscribe(&mut self, name: Spelling) -> Spelling {
        self.unsubscribed.remove(&name).map_or(name, |(kept, ())| kept)
    }

    /// Takes out all keys, to be looked at one by one.
    pub(super) fn take(&mut self) -> BTreeMap<Spelling, ClientCopy> {
        std::mem::take(&mut self.keys)
    }

    /// Puts back the keys that are left.
    pub(super) fn put_back(&mut self, left: impl Iterator<Item = (Spelling, ClientCopy)>) {
        self.keys = left.collect();
        let keys = &self.keys;
        self.unsubscribed.retain(|key| keys.contains_key(key));
        self.limit_texts();
    }

    /// Takes a key out.
    pub(super) fn remove(&mut self, key: &str) {
        self.keys.remove(key);
        self.unsubscribed.remove(key);
        if self.keys.is_empty() {
            self.own_texts = 0;
        }
    }

    /// Drops the keys for which `keep` is false.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.keys.retain(|key, _| keep(key));
        self.unsubscribed.retain(keep);
        self.limit_texts();
    }

    /// Counts no more texts than those of all keys that are left.
    fn limit_texts(&mut self) {
        if self.own_texts > 0 {
            let left = self.keys.keys().map(|key| held_bytes::text(key.len())).sum();
            self.own_texts = self.own_texts.min(left);
        }
    }

    /// Returns true if there are no keys.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns true if a key is there.
    pub(super) fn contains(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// The resource that the client holds under a key, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<&ClientCopy> {
        self.keys.get(key)
    }

    /// The keys, in order.
    pub(super) fn keys(&self) -> impl ExactSizeIterator<Item = &Spelling> {
        self.keys.keys()
    }

    /// The keys that do not sort before `start`, in order.
    pub(super) fn keys_from(&self, start: &str) -> impl Iterator<Item = &Spelling> {
        let range = (Bound::Included(start), Bound::Unbounded);
        self.keys.range::<str, _>(range).map(|(key, _)| key)
    }

    /// The resources that the client holds under the keys.
    pub(super) fn copies(&self) -> impl Iterator<Item = &ClientCopy> {
        self.keys.values()
    }

    /// The number of keys that the client has unsubscribed, and the bytes of their texts.
    pub(super) fn unsubscribed_sizes(&self) -> (usize, usize) {
        let count = self.unsubscribed.len();
        (count, self.unsubscribed.text_bytes() - count * held_bytes::text(0))
    }

    /// The bytes that are kept for the client, about.
    pub(super) fn held_bytes(&self) -> usize {
        held_bytes::tree(self.keys.len(), size_of::<Spelling>() + size_of::<ClientCopy>())
            + self.own_texts
            + self.unsubscribed.held_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsubscribed_key_counts_once_and_keeps_its_text() {
        let mut owed = OwedKeys::default();
        let first = Spelling::from("first");
        for key in [first.clone(), "first".into(), "other".into(), "third".into()] {
            owed.insert(Arc::clone(&key), ClientCopy::Unknown);
            owed.keep_unsubscribed(&key);
        }
        assert_eq!(owed.unsubscribed_sizes(), (3, 15));
        assert!(Spelling::ptr_eq(&owed.resubscribe("first".into()), &first));
        let again = Spelling::from("first");
        assert!(Spelling::ptr_eq(&owed.resubscribe(again.clone()), &again), "it was taken out");
        owed.retain(|key| key == "other");
        assert_eq!(owed.unsubscribed_sizes(), (1, 5));
        owed.put_back(std::iter::empty());
        assert_eq!((owed.unsubscribed_sizes(), owed.held_bytes()), ((0, 0), 0));
    }

    #[test]
    fn the_text_of_a_key_that_is_owed_already_does_not_count_again() {
        let mut owed = OwedKeys::default();
        owed.insert("first".into(), ClientCopy::Unknown);
        let held = owed.held_bytes();
        let text = held_bytes::text("first".len());
        owed.insert_again("first".into(), text);
        assert_eq!((owed.held_bytes(), owed.get("first")), (held, Some(&ClientCopy::Unknown)));
        owed.insert_again("other".into(), text);
        assert_eq!((owed.own_texts, owed.get("other")), (text, Some(&ClientCopy::Doubtful)));
    }
}
