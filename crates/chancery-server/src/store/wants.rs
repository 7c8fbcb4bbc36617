//! What a stream wants to hear of, coarsely: enough to leave it alone when a change is not for it.
//!
//! A stream that names ten clusters of a thousand need not be woken when one of the others changes.
//! Names are kept as a few bits each, so a stream is sometimes woken in vain, and never left
//! sleeping when it should wake. What a name means is not looked at here: where one can mean
//! something else (globs, aliases, hosts), every change of the type counts.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use chancery_core::{Api, Names, Snapshot, TypeUrl};

/// What a stream wants to hear of.
#[derive(Debug, Default)]
pub(crate) struct Wants(Vec<(TypeUrl, Want)>);

#[derive(Debug)]
enum Want {
    Everything,
    Names(Filter),
}

/// What differs between two snapshots, by type.
#[derive(Debug)]
pub(crate) struct Changes(Vec<(TypeUrl, Change)>);

#[derive(Debug)]
enum Change {
    Anything,
    /// The hashes of the names that differ.
    Names(Vec<u64>),
}

impl Wants {
    /// The stream wants all of a type.
    pub(crate) fn want_everything(&mut self, type_url: &TypeUrl) {
        self.set(type_url, Want::Everything);
    }

    /// The stream wants these names of a type.
    pub(crate) fn want_names<'a>(
        &mut self,
        type_url: &TypeUrl,
        names: impl Iterator<Item = &'a str> + Clone,
    ) {
        if type_url.api() == Api::Vhds || names.clone().any(means_more) {
            return self.want_everything(type_url);
        }
        let filter = Filter::of(names);
        self.set(type_url, filter.map_or(Want::Everything, Want::Names));
    }

    /// The stream wants more names of a type; `all` are those it wants now, for when there is no
    /// room left.
    pub(crate) fn add_names<'a>(
        &mut self,
        type_url: &TypeUrl,
        more: &Names,
        all: impl Iterator<Item = &'a str> + Clone,
    ) {
        let known = self.0.iter_mut().find(|(known, _)| known == type_url);
        let added = match known {
            Some((_, Want::Names(filter))) => {
                !more.iter().any(means_more) && filter.add_all(more.iter())
            }
            _ => false,
        };
        if !added {
            self.want_names(type_url, all);
        }
    }

    /// Whether some of the changes may be for the stream.
    pub(crate) fn are_touched_by(&self, changes: &Changes) -> bool {
        changes.0.iter().any(|(type_url, change)| {
            self.0.iter().any(|(wanted, want)| match (want, change) {
                // Routes say which virtual hosts are asked for one by one (S-094).
                _ if wanted.api() == Api::Vhds && type_url.api() == Api::Rds => true,
                _ if wanted != type_url => false,
                (Want::Everything, _) | (_, Change::Anything) => true,
                (Want::Names(filter), Change::Names(names)) => {
                    names.iter().any(|name| filter.may_hold(*name))
                }
            })
        })
    }

    fn set(&mut self, type_url: &TypeUrl, want: Want) {
        match self.0.iter_mut().find(|(known, _)| known == type_url) {
            Some((_, known)) => *known = want,
            None => self.0.push((type_url.clone(), want)),
        }
    }
}

impl Changes {
    /// What differs.
    pub(crate) fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let gone = before.types().filter(|type_url| after.set(type_url).is_empty());
        let types = after.types().chain(gone);
        Self(
            types
                .filter_map(|type_url| Some((type_url.clone(), change(before, after, type_url)?)))
                .collect(),
        )
    }
}

/// What differs of one type, if anything does.
fn change(before: &Snapshot, after: &Snapshot, type_url: &TypeUrl) -> Option<Change> {
    let (before, after) = (before.set(type_url), after.set(type_url));
    if std::ptr::eq(&**before, &**after) {
        return None;
    }
    if !before.is_plain() || !after.is_plain() {
        return Some(Change::Anything);
    }
    let names: Vec<u64> =
        before.diff(after).take(MANY).map(|change| hash(change.name.as_str())).collect();
    match names.len() {
        0 => None,
        MANY => Some(Change::Anything),
        _ => Some(Change::Names(names)),
    }
}

/// Whether a name can mean resources of other names.
fn means_more(name: &str) -> bool {
    name == "*" || name.starts_with("xdstp:")
}

/// A Bloom filter: a set of hashes that holds what was added, and seems to hold a little more.
#[derive(Debug)]
struct Filter {
    bits: Box<[u64]>,
    added: usize,
}

impl Filter {
    /// A filter with room for as many again; none if they are too many to be worth it.
    fn of<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        let count = names.clone().count();
        if count > MOST_NAMES {
            return None;
        }
        let words = (2 * count * BITS_FOR_EACH).div_ceil(64).next_power_of_two();
        let mut filter = Self { bits: vec![0; words].into(), added: 0 };
        filter.add_all(names);
        Some(filter)
    }

    /// Adds names; whether there is room for them.
    fn add_all<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> bool {
        for name in names {
            for (word, bit) in self.places(hash(name)) {
                self.bits[word] |= bit;
            }
            self.added += 1;
        }
        self.added * BITS_FOR_EACH <= self.bits.len() * 64
    }

    fn may_hold(&self, hash: u64) -> bool {
        self.places(hash).into_iter().all(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// Three bits, each of another part of the hash.
    fn places(&self, hash: u64) -> [(usize, u64); 3] {
        [0, 21, 42].map(|part| {
            let at = (hash >> part) as usize;
            ((at / 64) & (self.bits.len() - 1), 1 << (at % 64))
        })
    }
}

/// A hash that nobody outside can foresee.
fn hash(name: &str) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let mut hasher = KEYS.build_hasher();
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// With eight bits and three places for each, one name in thirty seems to be there and is not.
const BITS_FOR_EACH: usize = 8;
/// A stream with more names is woken by any change of the type: its own work is far more by then.
const MOST_NAMES: usize = 16 * 1024;
/// So many changes at once are for everybody.
const MANY: usize = 256;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chancery_core::{Facts, Resource};

    use super::*;

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

    fn wants(of: &TypeUrl, names: &[&str]) -> Wants {
        let mut wants = Wants::default();
        wants.want_names(of, names.iter().copied());
        wants
    }

    #[test]
    fn a_change_touches_who_named_it_and_who_wants_everything() {
        let before = snapshot(&eds(), &[("a", "1"), ("b", "1"), ("c", "1")]);
        let changes = Changes::between(&before, &snapshot(&eds(), &[("a", "1"), ("b", "2")]));
        for (name, touched) in [("a", false), ("b", true), ("c", true), ("d", false)] {
            assert_eq!(wants(&eds(), &[name]).are_touched_by(&changes), touched, "{name}");
        }
        let mut everything = Wants::default();
        assert!(!everything.are_touched_by(&changes));
        everything.want_everything(&rds());
        assert!(!everything.are_touched_by(&changes));
        everything.want_everything(&eds());
        assert!(everything.are_touched_by(&changes));
        let gone = Changes::between(&before, &Snapshot::new());
        assert!(wants(&eds(), &["a"]).are_touched_by(&gone));
        assert!(!everything.are_touched_by(&Changes::between(&before, &before)));
    }

    #[test]
    fn what_a_name_can_mean_besides_itself_counts() {
        let xdstp = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x";
        let changes = Changes::between(&snapshot(&eds(), &[]), &snapshot(&eds(), &[("a", "1")]));
        assert!(wants(&eds(), &[xdstp]).are_touched_by(&changes));
        let routes = Changes::between(&snapshot(&rds(), &[]), &snapshot(&rds(), &[("r", "1")]));
        assert!(wants(&vhds(), &["r/h"]).are_touched_by(&routes));
        let mut hosts = snapshot(&vhds(), &[("r/h", "1")]);
        let facts = Facts { hosts: vec!["www".into()], ..Facts::default() };
        let host = Resource::new("r/h".parse().unwrap(), Bytes::new()).with_facts(facts);
        hosts.insert(&vhds(), host);
        let aliased = Changes::between(&Snapshot::new(), &hosts);
        assert!(matches!(aliased.0[..], [(_, Change::Anything)]), "{aliased:?}");
    }

    #[test]
    fn names_that_are_added_one_by_one_are_all_kept() {
        let mut wants = Wants::default();
        let all: Vec<String> = (0..1000).map(|at| format!("name-{at}")).collect();
        for at in 0..all.len() {
            let so_far = all[..=at].iter().map(String::as_str);
            wants.add_names(&eds(), &[&all[at]].into_iter().collect(), so_far);
        }
        let [(_, Want::Names(filter))] = &wants.0[..] else { panic!("{wants:?}") };
        assert!(all.iter().all(|name| filter.may_hold(hash(name))));
        let others = (0..1000).filter(|at| filter.may_hold(hash(&format!("other-{at}"))));
        assert!(others.count() < 100);
        assert!(filter.bits.len() <= 2 * 2 * 1000 * BITS_FOR_EACH / 64);
    }

    #[test]
    fn too_many_names_are_everything() {
        let names: Vec<String> = (0..=MOST_NAMES).map(|at| at.to_string()).collect();
        let of = |count: usize| Filter::of(names[..count].iter().map(String::as_str));
        assert!(of(MOST_NAMES).is_some());
        assert!(of(MOST_NAMES + 1).is_none());
    }
}
