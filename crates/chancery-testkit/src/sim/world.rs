//! The published configuration of a simulation: small, changed at random, and always consistent.
//!
//! A body is readable text, `rds r0 2 -> cds:c1 cds:c4`: the type, the name, a revision and the
//! resources it refers to. Revisions come from a small range, so that old content comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::{Facts, Link, Resource, ResourceName, Snapshot, TypeUrl};

use super::rng::Rng;
use crate::client::Verdict;
use crate::script;

/// The types of the simulated world, in sending order.
pub const TYPES: [&str; 6] = ["cds", "eds", "lds", "rds", "sds", "rtds"];

/// One of [`TYPES`].
pub(super) fn type_url(short: &str) -> TypeUrl {
    static URLS: LazyLock<BTreeMap<&str, TypeUrl>> =
        LazyLock::new(|| TYPES.iter().map(|short| (*short, script::type_url(short))).collect());
    URLS.get(short).cloned().unwrap_or_else(|| script::type_url(short))
}

/// The difficulties that a world may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dangers {
    /// Bodies that clients reject.
    pub bad: bool,
    /// Resources with a TTL.
    pub ttl: bool,
}

/// All content at one moment.
#[derive(Clone, Debug, Default)]
pub struct World {
    dangers: Dangers,
    sets: BTreeMap<&'static str, BTreeMap<String, WorldResource>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct WorldResource {
    revision: u64,
    bad: bool,
    ttl: bool,
    links: BTreeSet<(&'static str, String)>,
}

impl World {
    /// A world after some random edits.
    pub fn new(rng: &mut Rng, dangers: Dangers) -> Self {
        let mut world = Self { dangers, sets: BTreeMap::new() };
        for _ in 0..rng.below(20) {
            world.edit(rng);
        }
        world
    }

    /// Makes one random change, and repairs the references that it breaks.
    pub fn edit(&mut self, rng: &mut Rng) {
        match rng.below(12) {
            0..=2 => self.change_resource(rng, "cds", 6),
            3..=4 => self.change_resource(rng, "eds", 6),
            5 => self.change_resource(rng, "lds", 3),
            6..=8 => self.change_resource(rng, "rds", 4),
            9 => self.change_resource(rng, "sds", 3),
            10 => self.change_resource(rng, "rtds", 2),
            _ => self.remove(rng),
        }
        self.repair_references(rng);
    }

    /// Replaces all bodies that clients reject.
    pub fn replace_bad(&mut self) {
        for content in self.sets.values_mut().flat_map(BTreeMap::values_mut) {
            if std::mem::take(&mut content.bad) {
                // Not a revision any edit draws: content that was replaced is new to everyone.
                content.revision += 100;
            }
        }
    }

    /// The snapshot of this world. It shares the resources that did not change with `before`.
    pub fn snapshot(&self, before: &Snapshot) -> Snapshot {
        let mut snapshot = before.clone();
        let all = self.sets.iter().flat_map(|(short, set)| {
            set.iter()
                .map(|(name, content)| (type_url(short), Arc::new(content.resource(short, name))))
        });
        snapshot.replace(all);
        snapshot
    }

    fn change_resource(&mut self, rng: &mut Rng, short: &'static str, names: u64) {
        let name = format!("{}{}", &short[..1], rng.below(names));
        // An assignment has the name of its cluster.
        let name = if short == "eds" { name.replacen('e', "c", 1) } else { name };
        let content = self.sets.entry(short).or_default().entry(name).or_default();
        content.revision = rng.below(4);
        content.bad = self.dangers.bad && rng.chance(10);
        content.ttl = self.dangers.ttl && rng.chance(30);
        if matches!(short, "rds" | "lds") && rng.chance(60) {
            content.links.clear();
        }
    }

    fn remove(&mut self, rng: &mut Rng) {
        let short = *rng.one_of(&TYPES);
        let Some(set) = self.sets.get_mut(short) else { return };
        let names: Vec<_> = set.keys().cloned().collect();
        if !names.is_empty() {
            set.remove(rng.one_of(&names));
        }
    }

    /// Repairs the references: routes lead to existing clusters, listeners to existing routes, and
    /// every cluster has endpoints.
    fn repair_references(&mut self, rng: &mut Rng) {
        let clusters = self.names("cds");
        for (name, content) in self.sets.entry("cds").or_default() {
            content.links = BTreeSet::from([("eds", name.clone())]);
        }
        for name in &clusters {
            self.sets.entry("eds").or_default().entry(name.clone()).or_default();
        }
        self.refer(rng, "rds", "cds", &clusters);
        let routes = self.names("rds");
        self.refer(rng, "lds", "rds", &routes);
    }

    /// Makes every `from` refer to one or two of the existing `to`, or to none if none exists.
    fn refer(&mut self, rng: &mut Rng, from: &'static str, to: &'static str, existing: &[String]) {
        for content in self.sets.entry(from).or_default().values_mut() {
            content.links.retain(|(_, name)| existing.contains(name));
            let count = if content.links.is_empty() { 1 + rng.below(2) } else { 0 };
            for _ in 0..count.min(u64::try_from(existing.len()).unwrap_or(0)) {
                content.links.insert((to, rng.one_of(existing).clone()));
            }
        }
    }

    fn names(&self, short: &str) -> Vec<String> {
        self.sets.get(short).into_iter().flat_map(|set| set.keys().cloned()).collect()
    }
}

impl WorldResource {
    fn resource(&self, short: &str, name: &str) -> Resource {
        let links: Vec<_> = self.links.iter().map(|(to, name)| format!("{to}:{name}")).collect();
        let bad = if self.bad { " bad" } else { "" };
        let body = format!("{short} {name} {}{bad} -> {}", self.revision, links.join(" "));
        let link = |(to, name): &(&'static str, String)| {
            Some(Link {
                type_url: type_url(to),
                name: ResourceName::parse(name).ok()?,
                aggregated: true,
            })
        };
        let facts =
            Facts { links: self.links.iter().filter_map(link).collect(), ..Facts::default() };
        let name = ResourceName::parse(name).expect("names of the world are plain");
        Resource::new(name, Bytes::from(body)).with_ttl(self.ttl.then_some(TTL)).with_facts(facts)
    }
}

/// The verdict of a client on a body of this world.
pub fn judge(type_url: &TypeUrl, resource: &Resource) -> Verdict {
    let body = String::from_utf8_lossy(resource.body());
    let mut words = body.split(' ');
    let (short, name) = (words.next(), words.next());
    if short != Some(type_url.short()) || name != Some(resource.name().as_str()) {
        return Verdict::Foreign;
    }
    if words.any(|word| word == "bad") {
        Verdict::Bad("it is bad".to_owned())
    } else {
        Verdict::Good
    }
}

/// The TTL of resources that have one.
pub const TTL: Duration = Duration::from_secs(30);
