//! The books of one subscription: what the client is owed, keeps for a while, and refused.
//!
//! Nothing is queued. The client was brought to one set ([`Books::sent`]) and should see another
//! ([`Books::target`]); [`Books::advance`] turns the difference into what is owed, when there is
//! room to send it, so that ten changes make one response. A key is a name in the client's
//! spelling, or a resource's own name for members of the wildcard and of globs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::flight::Contents;
use super::interest::{Interest, Spelling};
use crate::{Resource, ResourceSet, Time};

/// What the client is owed, keeps for a while, and refused.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// What the client should see.
    pub(crate) target: Arc<ResourceSet>,
    /// What it was brought to; what is owed comes on top.
    pub(crate) sent: Arc<ResourceSet>,
    /// What has to be looked at before the client is where `sent` says.
    pub(crate) owed: BTreeMap<Spelling, Held>,
    /// Gone from the target, and left with the client until nothing uses them (S-098).
    pub(crate) kept: BTreeMap<Spelling, Kept>,
    refused: Refused,
}

/// What the client holds under a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// Nobody knows, and it asked: it must be told.
    Unknown,
    /// Perhaps what it was sent before, perhaps not: it must be told again.
    Doubtful,
    /// Nothing.
    Nothing,
    /// This.
    Has(Arc<Resource>),
}

/// A resource that outlives its removal for a while.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) resource: Arc<Resource>,
    pub(crate) since: Time,
}

/// What the client rejected and may or may not hold (S-035).
#[derive(Debug, Default)]
enum Refused {
    #[default]
    Nothing,
    Keys(BTreeSet<Spelling>),
    All,
}

/// One key under which the client should see something else than before.
struct KeyChange {
    key: Spelling,
    old: Option<Arc<Resource>>,
    new: Option<Arc<Resource>>,
}

impl Books {
    /// Turns the difference between what was sent and the target into what is owed.
    pub(crate) fn advance(&mut self, now: Time, interest: &Interest, by_host: bool) {
        if Arc::ptr_eq(&self.sent, &self.target) {
            return;
        }
        for change in self.changes(interest, by_host) {
            self.note(now, change, interest);
        }
        self.sent = Arc::clone(&self.target);
    }

    /// Whether the client may not be where the target is.
    pub(crate) fn is_behind(&self) -> bool {
        !self.owed.is_empty() || !Arc::ptr_eq(&self.sent, &self.target)
    }

    /// Whether the client was told all, kept nothing back and refused nothing.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_behind() && self.kept.is_empty() && matches!(self.refused, Refused::Nothing)
    }

    /// What the client should see under a key, until `kept` is given up.
    pub(crate) fn view(
        &self,
        key: &str,
        interest: &Interest,
        by_host: bool,
    ) -> Option<&Arc<Resource>> {
        match self.kept.get(key) {
            Some(kept) => Some(&kept.resource),
            None => interest.resolve(&self.target, key, by_host),
        }
    }

    /// The client asked for a key and must be told about it, whatever it holds.
    pub(crate) fn owe(&mut self, key: &Spelling) {
        self.owed.insert(Arc::clone(key), Held::Unknown);
    }

    /// The client must be told about a key again.
    pub(crate) fn owe_again(&mut self, key: &Spelling) {
        self.owed.entry(Arc::clone(key)).or_insert(Held::Doubtful);
    }

    /// The client no longer wants a key to be looked after.
    pub(crate) fn forget(&mut self, key: &str) {
        self.owed.remove(key);
        self.kept.remove(key);
        if let Refused::Keys(keys) = &mut self.refused {
            keys.remove(key);
        }
    }

    /// Forgets all keys that the subscription no longer covers.
    pub(crate) fn forget_uncovered(&mut self, interest: &Interest) {
        self.owed.retain(|key, _| interest.covers(key));
        self.kept.retain(|key, _| interest.covers(key));
        if let Refused::Keys(keys) = &mut self.refused {
            keys.retain(|key| interest.covers(key));
        }
    }

    /// Gives up what is kept: now the client is owed its removal.
    pub(crate) fn give_up(&mut self, mut which: impl FnMut(&Kept) -> bool) {
        let gone = self.kept.extract_if(.., |_, kept| which(kept));
        for (key, kept) in gone {
            self.owed.entry(key).or_insert(Held::Has(kept.resource));
        }
    }

    /// The client rejected a response.
    pub(crate) fn refuse(&mut self, contents: Contents) {
        match (&mut self.refused, contents) {
            (Refused::All, _) => {}
            (_, Contents::Keys(keys)) if keys.is_empty() => {}
            (_, Contents::All) => self.refused = Refused::All,
            (Refused::Keys(known), Contents::Keys(keys)) => known.extend(keys),
            (Refused::Nothing, Contents::Keys(keys)) => {
                self.refused = Refused::Keys(keys.into_iter().collect());
            }
        }
    }

    /// The client accepted a response: of what it spoke of nothing counts as refused any more.
    pub(crate) fn accept(&mut self, contents: &Contents) {
        match (&mut self.refused, contents) {
            (Refused::Nothing, _) => {}
            (refused, Contents::All) => *refused = Refused::Nothing,
            (Refused::All, Contents::Keys(_)) => {}
            (Refused::Keys(refused), Contents::Keys(keys)) => {
                for key in keys {
                    refused.remove(key);
                }
                if refused.is_empty() {
                    self.refused = Refused::Nothing;
                }
            }
        }
    }

    fn note(&mut self, now: Time, change: KeyChange, interest: &Interest) {
        let KeyChange { key, old, new } = change;
        let was_refused = self.recall(&key, interest);
        let kept = self.kept.remove(&key).map(|kept| kept.resource);
        let Some(held) = kept.or(old) else {
            self.owed.entry(key).or_insert(Held::Nothing);
            return;
        };
        // What the client refused, or was not given yet, nothing of it can use.
        let never_had = matches!(self.owed.get(&key), Some(Held::Nothing | Held::Unknown));
        if new.is_none() && !never_had && !was_refused {
            self.kept.insert(key, Kept { resource: held, since: now });
        } else {
            self.owed.entry(key).or_insert(Held::Has(held));
        }
    }

    /// Once a part of a refused response has changed, the rest of it is worth another try: nobody
    /// can tell which part was at fault (S-034), and the client may hold the old of the others.
    /// Says whether the key was part of a refused response.
    fn recall(&mut self, key: &str, interest: &Interest) -> bool {
        let keys: Vec<Spelling> = match &self.refused {
            Refused::Keys(keys) if keys.contains(key) => keys.iter().cloned().collect(),
            Refused::All => self.all_keys(interest),
            Refused::Nothing | Refused::Keys(_) => return false,
        };
        self.refused = Refused::Nothing;
        for key in keys {
            self.owed.insert(key, Held::Doubtful);
        }
        true
    }

    fn all_keys(&self, interest: &Interest) -> Vec<Spelling> {
        let members = self.target.iter().map(|resource| resource.name());
        let members = members.filter(|name| interest.spans(name)).map(|name| name.shared());
        members.chain(interest.names().iter().cloned()).collect()
    }

    fn changes(&self, interest: &Interest, by_host: bool) -> Vec<KeyChange> {
        let by_name = self.finds_names_by_difference(interest, by_host);
        let mut found = Vec::new();
        if by_name || interest.wildcard() || !interest.globs().is_empty() {
            for change in self.sent.diff(&self.target) {
                let named = by_name && interest.names_it(change.name.as_str());
                if named || interest.spans(&change.name) {
                    let key = change.name.shared();
                    found.push(KeyChange { key, old: change.old, new: change.new });
                }
            }
        }
        if !by_name {
            found.extend(interest.names().iter().filter_map(|key| {
                let old = interest.resolve(&self.sent, key, by_host);
                let new = interest.resolve(&self.target, key, by_host);
                (old != new).then(|| KeyChange {
                    key: Arc::clone(key),
                    old: old.cloned(),
                    new: new.cloned(),
                })
            }));
        }
        found
    }

    /// Few names are looked up one by one; many are found in the difference, which is possible
    /// where a name means only itself.
    fn finds_names_by_difference(&self, interest: &Interest, by_host: bool) -> bool {
        interest.names().len() > FEW_NAMES
            && !by_host
            && interest.is_plain()
            && self.sent.is_plain()
            && self.target.is_plain()
    }
}

const FEW_NAMES: usize = 16;
