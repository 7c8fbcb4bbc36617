//! The names and wildcards that a client asked for, of one type on one stream.
//!
//! Names are kept in the client's spelling, because the client has to be answered in it (S-114,
//! [xRFC TP1]). An empty list of names is a wildcard only if the client never named anything before
//! (S-050, [how the client specifies resources]), so the interest remembers that too.
//!
//! [xRFC TP1]: https://github.com/cncf/xds/blob/main/proposals/TP1-xds-transport-next.md
//! [how the client specifies resources]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#how-the-client-specifies-what-resources-to-return

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::parsed_names::ParsedNames;
use crate::server::held_bytes;
use crate::{Names, Resource, ResourceName, ResourceSet, TypeUrl};

/// A name as the client spells it.
pub(crate) type Spelling = Arc<str>;

/// The names of a list except `*`, each once and in order.
pub(super) fn spellings(names: &Names) -> Vec<Spelling> {
    let mut names: Vec<&str> = names.iter().filter(|name| *name != "*").collect();
    if !names.is_sorted_by(|one, next| one < next) {
        names.sort_unstable();
        names.dedup();
    }
    names.into_iter().map(Spelling::from).collect()
}

/// The names and wildcards that a client asked for, of one type on one stream.
#[derive(Debug)]
pub(crate) struct Interest {
    lookup: Lookup,
    wildcard: bool,
    /// True once a request has named anything, `*` included. It never becomes false again (S-050).
    ever_named: bool,
    names: BTreeSet<Spelling>,
    /// The names that are more than their texts. Most clients have none, and a client has an interest
    /// for each type.
    parsed: Option<Box<ParsedNames>>,
    texts: TextBytes,
}

/// The bytes of the texts of an interest.
#[derive(Clone, Copy, Debug, Default)]
struct TextBytes {
    /// The bytes of all names, globs included.
    names: usize,
    /// The bytes of the names that are texts of resources, as [`held_bytes`] counts them; or fewer,
    /// because nobody remembers which of the names that were removed since are among them.
    shared: usize,
}

/// The way a name is found in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A resource is found by its name or an alias.
    ByName,
    /// A virtual host is found by one of its domains too (S-092,
    /// [VHDS](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
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
            parsed: None,
            texts: TextBytes::default(),
        }
    }

    /// Adds names, and returns those that are new. `*` is not among them.
    pub(crate) fn extend(&mut self, names: Vec<Spelling>, type_url: &TypeUrl) -> Vec<Spelling> {
        self.ever_named |= !names.is_empty();
        let new: Vec<_> = names.into_iter().filter(|name| !self.is_named(name)).collect();
        for name in &new {
            self.texts.names += name.len();
        }
        for name in new.iter().filter(|name| !ResourceName::is_opaque(name)) {
            self.parsed.get_or_insert_default().add(name, type_url);
        }
        let globs = &self.parsed.as_deref().unwrap_or(&NONE).globs;
        let single = new.iter().filter(|name| !globs.contains_key(*name)).cloned();
        if self.names.is_empty() {
            // A tree that is made from a sorted list has full nodes.
            self.names = single.collect();
        } else {
            self.names.extend(single);
        }
        new
    }

    /// The text of a name that is kept anyway, if the client is subscribed to the name.
    pub(crate) fn known(&self, name: Spelling) -> Spelling {
        self.kept_text(&name).cloned().unwrap_or(name)
    }

    /// The text that is kept of this very name or glob, if the client is subscribed to it.
    fn kept_text(&self, name: &str) -> Option<&Spelling> {
        let glob = || self.globs().get_key_value(name).map(|(glob, _)| glob);
        self.names.get(name).or_else(glob)
    }

    /// Replaces the names by equal texts, some of which are kept elsewhere anyway: `shared` are the
    /// bytes of these.
    pub(crate) fn respell(&mut self, names: BTreeSet<Spelling>, shared: usize) {
        self.names = names;
        self.texts.shared = shared;
    }

    /// Takes a name out.
    pub(crate) fn remove(&mut self, name: &Spelling) {
        let is_glob = self.parsed.as_deref_mut().is_some_and(|parsed| parsed.remove(name));
        if !self.names.remove(name) && !is_glob {
            return;
        }
        self.texts.names -= name.len();
        // The name counts as a shared one, so that never less is told than is kept.
        self.texts.shared = self.texts.shared.saturating_sub(held_bytes::text(name.len()));
    }

    /// The bytes of the texts of all names.
    pub(crate) fn name_bytes(&self) -> usize {
        self.texts.names
    }

    /// The bytes that are kept for the client, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let texts = self.texts.names + self.len() * held_bytes::text(0);
        texts.saturating_sub(self.texts.shared)
            + held_bytes::tree(self.names.len(), size_of::<Spelling>())
            + self.parsed.as_ref().map_or(0, |parsed| parsed.held_bytes())
    }

    /// The spelling under which the client is subscribed to a name, if it is (S-114).
    pub(crate) fn spelling_of(&self, name: &str) -> Option<Spelling> {
        if let Some(spelling) = self.kept_text(name) {
            return Some(Arc::clone(spelling));
        }
        if ResourceName::is_opaque(name) {
            return None;
        }
        let canonical = ResourceName::parse(name).ok()?;
        let plain = || self.names.get(canonical.as_str()).cloned();
        self.parsed().first_spelling(&canonical).cloned().or_else(plain)
    }

    /// Starts or ends the subscription to everything.
    pub(crate) fn set_wildcard(&mut self, wildcard: bool) {
        self.wildcard = wildcard;
    }

    /// Remembers that a list was not empty, even if it had only a `*` in it.
    pub(crate) fn set_ever_named(&mut self) {
        self.ever_named = true;
    }

    /// Returns true if a request has ever named anything.
    pub(crate) fn ever_named(&self) -> bool {
        self.ever_named
    }

    /// Returns true if the client is subscribed to the wildcard.
    pub(crate) fn wildcard(&self) -> bool {
        self.wildcard
    }

    /// Returns true if the client is subscribed to the wildcard, and to nothing by name.
    pub(crate) fn is_everything(&self) -> bool {
        self.wildcard && self.len() == 0
    }

    /// Returns true if the client is subscribed to resources that it does not name: by the wildcard
    /// or a glob.
    pub(crate) fn has_members(&self) -> bool {
        self.wildcard || !self.globs().is_empty()
    }

    /// The number of names, globs included.
    pub(crate) fn len(&self) -> usize {
        self.names.len() + self.globs().len()
    }

    /// The single names, and then the globs.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &Spelling> + Clone {
        self.names.iter().chain(self.globs().keys())
    }

    /// The single names, without globs.
    pub(crate) fn names(&self) -> &BTreeSet<Spelling> {
        &self.names
    }

    /// The glob collections, with their canonical names.
    pub(crate) fn globs(&self) -> &BTreeMap<Spelling, ResourceName> {
        &self.parsed().globs
    }

    /// Returns true if the client asked for this very name or glob.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.names.contains(name) || self.globs().contains_key(name)
    }

    /// Returns true if a resource of this name is a member of the wildcard or of a glob.
    pub(crate) fn includes_member(&self, name: &ResourceName) -> bool {
        self.wildcard
            || (!self.globs().is_empty()
                && name.collection().is_some_and(|of| self.parsed().first_spelling(&of).is_some()))
    }

    /// Returns true if a key of the ledger is still subscribed to, by name or as a member.
    pub(crate) fn covers(&self, key: &str) -> bool {
        self.wildcard
            || self.is_named(key)
            || (!self.globs().is_empty()
                && ResourceName::parse(key).is_ok_and(|name| self.includes_member(&name)))
    }

    /// The fault of a name that is not valid.
    pub(crate) fn malformed(&self, name: &str) -> Option<&str> {
        self.parsed().malformed.get(name).map(String::as_str)
    }

    /// Returns true if every name is spelled canonically, can name something and means only itself,
    /// so that a difference by name finds them all.
    pub(crate) fn is_plain(&self) -> bool {
        self.lookup == Lookup::ByName && self.parsed().is_plain()
    }

    /// Returns true if virtual hosts are found by their domains (VHDS).
    pub(crate) fn is_by_host(&self) -> bool {
        self.lookup == Lookup::ByHost
    }

    /// The resource that a key means in a set.
    pub(crate) fn resolve<'a>(&self, set: &'a ResourceSet, key: &str) -> Option<&'a Arc<Resource>> {
        if self.parsed().malformed.contains_key(key) {
            return None;
        }
        let name = self.parsed().respelled.get(key).map_or(key, ResourceName::as_str);
        match self.lookup {
            Lookup::ByName => set.get_aliased(name),
            Lookup::ByHost => set.get_host(name),
        }
    }

    /// Returns true if the source does not know yet whether there is a resource under a key.
    pub(crate) fn is_pending(&self, set: &ResourceSet, key: &str) -> bool {
        let name = self.parsed().respelled.get(key).map_or(key, ResourceName::as_str);
        set.is_pending(name)
            && !self.parsed().malformed.contains_key(key)
            && self.resolve(set, key).is_none()
    }

    /// Returns true if the key and the name are two spellings of one name.
    pub(crate) fn same_name(&self, key: &str, name: &ResourceName) -> bool {
        match self.parsed().respelled.get(key) {
            Some(canonical) => canonical == name,
            None => key == name.as_str(),
        }
    }

    fn parsed(&self) -> &ParsedNames {
        self.parsed.as_deref().unwrap_or(&NONE)
    }
}

static NONE: ParsedNames = ParsedNames::new();

#[cfg(test)]
mod tests {
    use super::*;

    fn extend(interest: &mut Interest, names: impl Iterator<Item = String>) {
        let type_url = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
        interest.extend(names.map(Spelling::from).collect(), &type_url);
    }

    #[test]
    fn the_bytes_of_the_names_that_are_left_are_told_whatever_was_removed() {
        let long = |at: usize| format!("{at:04000}");
        let mut interest = Interest::new(Lookup::ByName);
        extend(&mut interest, (0..100).map(long));
        let of_long = interest.held_bytes();
        extend(&mut interest, (0..5000).map(|at| at.to_string()));
        (0..5000).for_each(|at| interest.remove(&at.to_string().into()));
        assert_eq!(interest.held_bytes(), of_long);
        (0..100).for_each(|at| interest.remove(&long(at).into()));
        assert_eq!(interest.held_bytes(), 0);
        extend(&mut interest, (0..1000).map(|at| at.to_string()));
        let of_short = interest.held_bytes();
        for at in 0..100 {
            extend(&mut interest, std::iter::once(long(at)));
            interest.remove(&long(at).into());
        }
        assert_eq!(interest.held_bytes(), of_short);
    }

    #[test]
    fn names_that_are_texts_of_resources_hide_no_others() {
        let mut interest = Interest::new(Lookup::ByName);
        extend(&mut interest, (0..100).map(|at| at.to_string()));
        let names = interest.names().clone();
        let shared = names.iter().map(|name| held_bytes::text(name.len())).sum();
        let all = interest.held_bytes();
        interest.respell(names, shared);
        assert_eq!(interest.held_bytes(), all - shared);
        (0..100).for_each(|at| interest.remove(&at.to_string().into()));
        extend(&mut interest, (100..200).map(|at| at.to_string()));
        assert!(interest.held_bytes() >= all);
    }
}
