//! The demand of a stream, as edits that come with events, and the changes that concern a stream.
//!
//! A stream that names ten clusters of a thousand need not be woken when one of the others changes.
//! A [`DemandFilter`] keeps a few bits for each name. So a stream is sometimes woken in vain, but it
//! is always woken by a change of a name that it wants. Where a name can mean resources of other
//! names (globs, aliases, hosts of VHDS), every change of the type counts.
//!
//! The keys of the hashes are an input. The core uses no random numbers, and the keys have to be
//! random: names come from clients, and no client should be able to choose names whose hashes
//! collide.

use std::cell::OnceCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use crate::step::Step;
use crate::{Api, ResourceSet, Snapshot, TypeUrl};

/// A change of the resources that a stream wants of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandEdit {
    /// The type.
    pub type_url: TypeUrl,
    /// True if the stream wants all resources of the type, besides those it names.
    pub wildcard: bool,
    /// The change of the names, which are in the spelling of the client.
    pub names: NamesEdit,
}

/// A change of the names a stream wants of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamesEdit {
    /// The names are these and no others.
    All(Vec<Arc<str>>),
    /// Some names were added, and some removed.
    Change {
        /// The names that were not wanted before.
        added: Vec<Arc<str>>,
        /// The names that are not wanted any more.
        removed: Vec<Arc<str>>,
    },
}

/// The resources that one stream wants of all types, as a filter that never misses one.
#[derive(Debug, Default)]
pub struct DemandFilter(Vec<(TypeUrl, TypeFilter)>);

#[derive(Debug)]
enum TypeFilter {
    Everything,
    Names(NameFilter),
}

/// The changes that lead from one snapshot to another. The names that differ are worked out when the
/// first filter asks for them; streams that want everything do not.
#[derive(Debug)]
pub struct SnapshotChanges<'a> {
    keys: &'a RandomState,
    types: Vec<TypeChange<'a>>,
}

/// The two sets of a type of which the snapshots do not share one.
#[derive(Debug)]
struct TypeChange<'a> {
    type_url: &'a TypeUrl,
    before: &'a Arc<ResourceSet>,
    after: &'a Arc<ResourceSet>,
    is_one: OnceCell<bool>,
    names: OnceCell<ChangedNames>,
}

#[derive(Debug)]
enum ChangedNames {
    /// No name differs.
    None,
    /// So many names differ, or names that can mean other resources, that every stream is concerned.
    Any,
    /// The hashes of the names that differ.
    Hashes(Vec<u64>),
}

impl DemandFilter {
    /// Takes over an edit. The `keys` have to be those of the changes that the filter is compared
    /// with.
    pub fn apply(&mut self, edit: &DemandEdit, keys: &RandomState) {
        if edit.wildcard || edit.type_url.api() == Api::Vhds {
            return self.set(&edit.type_url, TypeFilter::Everything);
        }
        let names = match &edit.names {
            NamesEdit::All(names) => {
                let filter = NameFilter::new(names, keys);
                return self
                    .set(&edit.type_url, filter.map_or(TypeFilter::Everything, TypeFilter::Names));
            }
            NamesEdit::Change { added, .. } => added,
        };
        match self.0.iter_mut().find(|(known, _)| *known == edit.type_url) {
            Some((_, TypeFilter::Everything)) => {}
            Some((_, wanted @ TypeFilter::Names(_))) => wanted.add(names, keys),
            None => self.set(&edit.type_url, TypeFilter::Everything),
        }
    }

    /// Returns true if some of the changes may concern the stream.
    pub fn is_touched_by(&self, changes: &SnapshotChanges<'_>) -> bool {
        changes.types.iter().any(|change| {
            self.0.iter().any(|(of, wanted)| match wanted {
                // A change of a route configuration can make all its virtual hosts be sent again
                // (S-094,
                // [VHDS](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
                _ if of.api() == Api::Vhds && change.type_url.api() == Api::Rds => change.is_one(),
                _ if of != change.type_url => false,
                TypeFilter::Everything => change.is_one(),
                TypeFilter::Names(filter) => match change.names(changes.keys) {
                    ChangedNames::None => false,
                    ChangedNames::Any => true,
                    ChangedNames::Hashes(names) => names.iter().any(|it| filter.may_contain(*it)),
                },
            })
        })
    }

    fn set(&mut self, type_url: &TypeUrl, wanted: TypeFilter) {
        match self.0.iter_mut().find(|(known, _)| known == type_url) {
            Some((_, known)) => *known = wanted,
            None => self.0.push((type_url.clone(), wanted)),
        }
    }
}

impl TypeFilter {
    /// Adds names. If there is no room for them, the filter becomes that of everything, until an
    /// edit states all names again.
    fn add(&mut self, names: &[Arc<str>], keys: &RandomState) {
        if let Self::Names(filter) = self
            && !filter.add(names, keys)
        {
            *self = Self::Everything;
        }
    }
}

impl<'a> SnapshotChanges<'a> {
    /// The changes that lead from one snapshot to another.
    pub fn between(before: &'a Snapshot, after: &'a Snapshot, keys: &'a RandomState) -> Self {
        let gone = before.types().filter(|type_url| after.set(type_url).is_empty());
        let types = after.types().chain(gone).map(|type_url| TypeChange {
            type_url,
            before: before.set(type_url),
            after: after.set(type_url),
            is_one: OnceCell::new(),
            names: OnceCell::new(),
        });
        Self { keys, types: types.filter(|it| !Arc::ptr_eq(it.before, it.after)).collect() }
    }
}

impl TypeChange<'_> {
    /// Returns true if the sets differ. It is worked out once for all streams that ask.
    fn is_one(&self) -> bool {
        *self.is_one.get_or_init(|| self.is_pending_otherwise() || self.step().len() > 0)
    }

    /// Returns true if a name is pending in one set only.
    fn is_pending_otherwise(&self) -> bool {
        self.before.pending() != self.after.pending()
    }

    /// Returns true if a name can mean a resource of another name, or is pending in one set only.
    fn may_mean_more(&self) -> bool {
        let is_plain = self.before.is_plain() && self.after.is_plain();
        !is_plain || self.is_pending_otherwise()
    }

    /// The step from one set to the other. The streams that are woken find it worked out: it may be
    /// long, and they share their threads with others.
    fn step(&self) -> Step {
        Step::between(self.before, self.after)
    }

    /// The names that differ.
    fn names(&self, keys: &RandomState) -> &ChangedNames {
        self.names.get_or_init(|| {
            if !self.is_one() {
                return ChangedNames::None;
            }
            if self.may_mean_more() {
                return ChangedNames::Any;
            }
            let step = self.step();
            match step.len() {
                MANY_CHANGES.. => ChangedNames::Any,
                _ => {
                    let names = step.changes().map(|change| hash(change.name.as_str(), keys));
                    ChangedNames::Hashes(names.collect())
                }
            }
        })
    }
}

/// Returns true if a name can mean resources of other names.
fn means_more(name: &str) -> bool {
    name == "*" || name.starts_with("xdstp:")
}

/// A Bloom filter: a set of hashes that has every hash that was added, and seems to have a few
/// more.
#[derive(Debug)]
struct NameFilter {
    bits: Box<[u64]>,
    added: usize,
}

impl NameFilter {
    /// A filter with room for as many names again. Returns `None` if a name can mean resources of
    /// other names, or if there are more names than a filter is worth.
    fn new(names: &[Arc<str>], keys: &RandomState) -> Option<Self> {
        if names.len() > MOST_NAMES {
            return None;
        }
        let words = (2 * names.len() * BITS_PER_NAME).div_ceil(64).next_power_of_two();
        let mut filter = Self { bits: vec![0; words].into(), added: 0 };
        filter.add(names, keys).then_some(filter)
    }

    /// Adds names. Returns false if one can mean resources of other names, or if there is no room
    /// for them.
    fn add(&mut self, names: &[Arc<str>], keys: &RandomState) -> bool {
        for name in names {
            if means_more(name) {
                return false;
            }
            for (word, bit) in self.places(hash(name, keys)) {
                self.bits[word] |= bit;
            }
            self.added += 1;
        }
        self.added * BITS_PER_NAME <= self.bits.len() * 64
    }

    fn may_contain(&self, hash: u64) -> bool {
        self.places(hash).into_iter().all(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// The places of three bits, each from another part of the hash.
    fn places(&self, hash: u64) -> [(usize, u64); 3] {
        [0, 21, 42].map(|part| {
            let at = (hash >> part) as usize;
            ((at / 64) & (self.bits.len() - 1), 1 << (at % 64))
        })
    }
}

fn hash(name: &str, keys: &RandomState) -> u64 {
    let mut hasher = keys.build_hasher();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// The number of bits for each name. With three places for each, about one name in thirty seems to
/// be in a full filter and is not.
const BITS_PER_NAME: usize = 8;
/// The most names in a filter. A stream with more names is woken by every change of the type,
/// because the work of such a stream costs far more than waking it.
pub(super) const MOST_NAMES: usize = 16 * 1024;
/// The number of changed names from which on a change concerns every stream.
const MANY_CHANGES: usize = 256;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Facts, Pending, Resource};

    fn eds() -> TypeUrl {
        TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment")
    }

    fn rds() -> TypeUrl {
        TypeUrl::new("envoy.config.route.v3.RouteConfiguration")
    }

    fn vhds() -> TypeUrl {
        TypeUrl::new("envoy.config.route.v3.VirtualHost")
    }

    fn snapshot(of: &TypeUrl, bodies: &[(&str, &'static str)]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (name, body) in bodies {
            let body = Bytes::from_static(body.as_bytes());
            snapshot.insert(of, Resource::new(name.parse().unwrap(), body));
        }
        snapshot
    }

    fn edit(of: &TypeUrl, wildcard: bool, names: NamesEdit) -> DemandEdit {
        DemandEdit { type_url: of.clone(), wildcard, names }
    }

    fn all(names: &[&str]) -> NamesEdit {
        NamesEdit::All(names.iter().map(|name| Arc::from(*name)).collect())
    }

    struct Fixture(RandomState);

    impl Fixture {
        fn wants(&self, of: &TypeUrl, names: &[&str]) -> DemandFilter {
            let mut filter = DemandFilter::default();
            filter.apply(&edit(of, false, all(names)), &self.0);
            filter
        }

        fn changes<'a>(&'a self, before: &'a Snapshot, after: &'a Snapshot) -> SnapshotChanges<'a> {
            SnapshotChanges::between(before, after, &self.0)
        }
    }

    #[test]
    fn a_change_touches_who_named_it_and_who_wants_everything() {
        let fixture = Fixture(RandomState::new());
        let before = snapshot(&eds(), &[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = snapshot(&eds(), &[("a", "1"), ("b", "2")]);
        let changes = fixture.changes(&before, &after);
        for (name, touched) in [("a", false), ("b", true), ("c", true), ("d", false)] {
            assert_eq!(fixture.wants(&eds(), &[name]).is_touched_by(&changes), touched, "{name}");
        }
        let mut everything = DemandFilter::default();
        assert!(!everything.is_touched_by(&changes));
        everything.apply(&edit(&rds(), true, all(&[])), &fixture.0);
        assert!(!everything.is_touched_by(&changes));
        everything.apply(&edit(&eds(), true, all(&[])), &fixture.0);
        assert!(everything.is_touched_by(&changes));
        let nothing = Snapshot::new();
        let gone = fixture.changes(&before, &nothing);
        assert!(fixture.wants(&eds(), &["a"]).is_touched_by(&gone));
        assert!(!everything.is_touched_by(&fixture.changes(&before, &before)));
        let again = snapshot(&eds(), &[("a", "1"), ("b", "1"), ("c", "1")]);
        assert!(!everything.is_touched_by(&fixture.changes(&before, &again)));
        assert!(!fixture.wants(&eds(), &["a"]).is_touched_by(&fixture.changes(&before, &again)));
    }

    #[test]
    fn what_a_name_can_mean_besides_itself_counts() {
        // S-094
        let fixture = Fixture(RandomState::new());
        let xdstp = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x";
        let (none, one) = (snapshot(&eds(), &[]), snapshot(&eds(), &[("a", "1")]));
        let changes = fixture.changes(&none, &one);
        assert!(fixture.wants(&eds(), &[xdstp]).is_touched_by(&changes));
        let (nothing, routes) = (Snapshot::new(), snapshot(&rds(), &[("r", "1")]));
        let routes = fixture.changes(&nothing, &routes);
        assert!(fixture.wants(&vhds(), &["r/h"]).is_touched_by(&routes));
        let mut hosts = snapshot(&vhds(), &[("r/h", "1")]);
        let facts = Facts { hosts: vec!["www".into()], ..Facts::default() };
        let host = Resource::new("r/h".parse().unwrap(), Bytes::new()).with_facts(facts);
        hosts.insert(&vhds(), host);
        let aliased = fixture.changes(&nothing, &hosts);
        assert!(matches!(aliased.types[0].names(&fixture.0), ChangedNames::Any), "{aliased:?}");
    }

    #[test]
    fn an_alias_or_a_host_is_no_change_by_itself() {
        let fixture = Fixture(RandomState::new());
        let aliased = || {
            let mut snapshot = snapshot(&eds(), &[("a", "1"), ("b", "1")]);
            let resource = Resource::new("c".parse().unwrap(), Bytes::new());
            snapshot.insert(&eds(), resource.with_aliases(vec!["also".parse().unwrap()]));
            snapshot
        };
        let (before, again, mut after) = (aliased(), aliased(), aliased());
        after.insert(&eds(), Resource::new("b".parse().unwrap(), Bytes::from_static(b"2")));
        let (same, changed) = (fixture.changes(&before, &again), fixture.changes(&before, &after));
        let mut everything = DemandFilter::default();
        everything.apply(&edit(&eds(), true, all(&[])), &fixture.0);
        for wanted in [everything, fixture.wants(&eds(), &["also"])] {
            assert!(!wanted.is_touched_by(&same), "{wanted:?}");
            assert!(wanted.is_touched_by(&changed), "{wanted:?}");
        }
        let mut pending = aliased();
        pending.set_pending(&eds(), Pending::Everything);
        let pending = fixture.changes(&before, &pending);
        assert!(fixture.wants(&eds(), &["z"]).is_touched_by(&pending));
    }

    #[test]
    fn names_that_are_added_are_all_kept() {
        let fixture = Fixture(RandomState::new());
        let names: Vec<Arc<str>> = (0..1000).map(|at| format!("name-{at}").into()).collect();
        let mut filter = NameFilter::new(&names[..500], &fixture.0).unwrap();
        for name in &names[500..] {
            assert!(filter.add(std::slice::from_ref(name), &fixture.0));
        }
        assert!(names.iter().all(|name| filter.may_contain(hash(name, &fixture.0))));
        let others = (0..1000).map(|at| hash(&format!("other-{at}"), &fixture.0));
        assert!(others.filter(|hash| filter.may_contain(*hash)).count() < 100);
    }

    #[test]
    fn names_beyond_the_room_are_everything_until_all_are_stated_again() {
        let fixture = Fixture(RandomState::new());
        let (none, one) = (snapshot(&eds(), &[]), snapshot(&eds(), &[("z", "1")]));
        let changes = fixture.changes(&none, &one);
        let mut filter = fixture.wants(&eds(), &["a"]);
        let added = (0..100).map(|at| Arc::from(format!("name-{at}"))).collect();
        let change = NamesEdit::Change { added, removed: Vec::new() };
        filter.apply(&edit(&eds(), false, change), &fixture.0);
        assert!(filter.is_touched_by(&changes));
        filter.apply(&edit(&eds(), false, all(&["a"])), &fixture.0);
        assert!(!filter.is_touched_by(&changes));
    }

    #[test]
    fn too_many_names_are_everything() {
        let keys = RandomState::new();
        let names: Vec<Arc<str>> = (0..=MOST_NAMES).map(|at| at.to_string().into()).collect();
        assert!(NameFilter::new(&names[..MOST_NAMES], &keys).is_some());
        assert!(NameFilter::new(&names, &keys).is_none());
    }
}
