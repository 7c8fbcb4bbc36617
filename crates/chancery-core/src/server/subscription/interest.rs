//! What a client asked for, of one type on one stream.
//!
//! Names are kept in the spelling of the client, which is the one it has to be answered in
//! (S-114). Whether an empty list means everything depends on the history of the stream (S-050),
//! so that is kept here too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Names, Resource, ResourceName, ResourceSet, TypeUrl};

/// A name in the spelling of whoever used it.
pub(crate) type Spelling = Arc<str>;

/// Names but for `*`, each once and in order.
pub(super) fn spellings(names: &Names) -> Vec<Spelling> {
    let mut names: Vec<&str> = names.iter().filter(|name| *name != "*").collect();
    if !names.is_sorted_by(|one, next| one < next) {
        names.sort_unstable();
        names.dedup();
    }
    names.into_iter().map(Spelling::from).collect()
}

/// What a client asked for, of one type on one stream.
#[derive(Debug)]
pub(crate) struct Interest {
    lookup: Lookup,
    wildcard: bool,
    /// Cleared for good by the first name (S-050).
    ever_named: bool,
    names: BTreeSet<Spelling>,
    globs: BTreeMap<Spelling, ResourceName>,
    /// Names whose canonical form is another text.
    respelled: BTreeMap<Spelling, ResourceName>,
    /// Names that name nothing, and why.
    malformed: BTreeMap<Spelling, String>,
}

/// The way a name is found in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// By the name or an alias of a resource.
    ByName,
    /// By a host of a virtual host, too (S-092).
    ByHost,
}

impl Interest {
    /// An interest in nothing.
    pub(crate) fn new(lookup: Lookup) -> Self {
        Self {
            lookup,
            wildcard: false,
            ever_named: false,
            names: BTreeSet::new(),
            globs: BTreeMap::new(),
            respelled: BTreeMap::new(),
            malformed: BTreeMap::new(),
        }
    }

    /// Adds names; returns those that are new. Not for `*`.
    pub(crate) fn extend(&mut self, names: Vec<Spelling>, type_url: &TypeUrl) -> Vec<Spelling> {
        self.ever_named |= !names.is_empty();
        let new: Vec<_> = names.into_iter().filter(|name| !self.is_named(name)).collect();
        for name in new.iter().filter(|name| !ResourceName::is_opaque(name)) {
            match ResourceName::parse(name) {
                Err(fault) => drop(self.malformed.insert(Arc::clone(name), fault.to_string())),
                Ok(parsed) => self.classify(name, parsed, type_url),
            }
        }
        let single = new.iter().filter(|name| !self.globs.contains_key(*name)).cloned();
        if self.names.is_empty() {
            // Made from a sorted list, it has no gaps.
            self.names = single.collect();
        } else {
            self.names.extend(single);
        }
        new
    }

    /// Takes over the same names in other texts.
    pub(crate) fn respell(&mut self, names: BTreeSet<Spelling>) {
        self.names = names;
    }

    /// Takes a name out.
    pub(crate) fn remove(&mut self, name: &str) {
        self.respelled.remove(name);
        self.malformed.remove(name);
        self.globs.remove(name);
        self.names.remove(name);
    }

    /// The spelling under which a name is subscribed to, if it is (S-114).
    pub(crate) fn spelling_of(&self, name: &str) -> Option<Spelling> {
        let known = || self.globs.get_key_value(name).map(|(glob, _)| glob);
        if let Some(spelling) = self.names.get(name).or_else(known) {
            return Some(Arc::clone(spelling));
        }
        let canonical = ResourceName::parse(name).ok().filter(|name| name.xdstp().is_some())?;
        let respelled = self.respelled.iter().find(|(_, of)| **of == canonical);
        let glob = || self.globs.iter().find(|(_, of)| **of == canonical);
        let plain = || self.names.get(canonical.as_str()).cloned();
        respelled.or_else(glob).map(|(spelling, _)| Arc::clone(spelling)).or_else(plain)
    }

    /// Starts or ends the subscription to everything.
    pub(crate) fn set_wildcard(&mut self, wildcard: bool) {
        self.wildcard = wildcard;
    }

    /// Notes that a list was not empty, if only for a `*` in it.
    pub(crate) fn set_ever_named(&mut self) {
        self.ever_named = true;
    }

    /// Whether any request ever named anything.
    pub(crate) fn ever_named(&self) -> bool {
        self.ever_named
    }

    /// Whether everything is subscribed to.
    pub(crate) fn wildcard(&self) -> bool {
        self.wildcard
    }

    /// Whether everything is subscribed to, and nothing by name.
    pub(crate) fn is_everything(&self) -> bool {
        self.wildcard && self.len() == 0
    }

    /// Whether resources are subscribed to that were not named.
    pub(crate) fn has_members(&self) -> bool {
        self.wildcard || !self.globs.is_empty()
    }

    /// How many names are subscribed to, globs included.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + self.globs.len()
    }

    /// The single names, and then the globs.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &Spelling> + Clone {
        self.names.iter().chain(self.globs.keys())
    }

    /// The single names, without globs.
    pub(crate) fn names(&self) -> &BTreeSet<Spelling> {
        &self.names
    }

    /// The glob collections, with their canonical names.
    pub(crate) fn globs(&self) -> &BTreeMap<Spelling, ResourceName> {
        &self.globs
    }

    /// Whether this name itself was asked for.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.names.contains(name) || self.globs.contains_key(name)
    }

    /// Whether this resource is covered by the wildcard or a glob.
    pub(crate) fn includes_member(&self, name: &ResourceName) -> bool {
        self.wildcard
            || (!self.globs.is_empty()
                && name.collection().is_some_and(|of| self.globs.values().any(|glob| *glob == of)))
    }

    /// Whether a key of the ledger still stands for something subscribed to.
    pub(crate) fn covers(&self, key: &str) -> bool {
        self.wildcard
            || self.is_named(key)
            || (!self.globs.is_empty()
                && ResourceName::parse(key).is_ok_and(|name| self.includes_member(&name)))
    }

    /// Why a name names nothing.
    pub(crate) fn malformed(&self, name: &str) -> Option<&str> {
        self.malformed.get(name).map(String::as_str)
    }

    /// Returns true if every name is spelled canonically, can name something and means only itself,
    /// so that a difference by name finds them all.
    pub(crate) fn is_plain(&self) -> bool {
        self.lookup == Lookup::ByName && self.respelled.is_empty() && self.malformed.is_empty()
    }

    /// Returns true if names mean hosts.
    pub(crate) fn is_by_host(&self) -> bool {
        self.lookup == Lookup::ByHost
    }

    /// What a key means in a set.
    pub(crate) fn resolve<'a>(&self, set: &'a ResourceSet, key: &str) -> Option<&'a Arc<Resource>> {
        if self.malformed.contains_key(key) {
            return None;
        }
        let name = self.respelled.get(key).map_or(key, ResourceName::as_str);
        match self.lookup {
            Lookup::ByName => set.get_aliased(name),
            Lookup::ByHost => set.get_host(name),
        }
    }

    /// Returns true if a source cannot tell yet what a key means.
    pub(crate) fn is_pending(&self, set: &ResourceSet, key: &str) -> bool {
        let name = self.respelled.get(key).map_or(key, ResourceName::as_str);
        set.is_pending(name)
            && !self.malformed.contains_key(key)
            && self.resolve(set, key).is_none()
    }

    /// Whether the key and the name are two spellings of one name.
    pub(crate) fn same_name(&self, key: &str, name: &ResourceName) -> bool {
        match self.respelled.get(key) {
            Some(canonical) => canonical == name,
            None => key == name.as_str(),
        }
    }

    /// A type in the name that is not the type asked for names nothing (S-116).
    fn classify(&mut self, name: &Spelling, parsed: ResourceName, type_url: &TypeUrl) {
        let other = parsed.xdstp().filter(|parts| parts.type_name != type_url.message_name());
        if let Some(parts) = other {
            let fault = format!("`{name}` is of type `{}`", parts.type_name);
            self.malformed.insert(Arc::clone(name), fault);
        } else if parsed.is_glob() {
            self.globs.insert(Arc::clone(name), parsed);
        } else if parsed.as_str() != &**name {
            self.respelled.insert(Arc::clone(name), parsed);
        }
    }
}
