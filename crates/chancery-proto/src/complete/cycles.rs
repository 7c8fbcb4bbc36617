//! Clusters that aggregate each other in a circle, and those that aggregate nothing but such clusters.
//!
//! A look at the circles goes from the clusters that changed since the last one, and along what they aggregate: a
//! circle that is new leads through one of them. So a chain of clusters costs its length once, in whatever order
//! it is written. Not here: which clusters aggregate others ([`Facts::is_aggregate`](chancery_core::Facts)).

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use chancery_core::{Resource, ResourceName, TypeUrl};
use imbl::{OrdMap, OrdSet};

/// Clusters behind which Envoy finds no endpoint, because of what they aggregate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cycle {
    /// The type of the clusters.
    pub type_url: TypeUrl,
    /// The cluster with the least name, or the one with the members.
    pub name: ResourceName,
    /// The others of a shortest way from there and back, in the order of that, or the members; the first few.
    pub through: Vec<ResourceName>,
    /// The number of the others on that way, or of the members.
    pub others: usize,
    /// The relation of these clusters.
    pub shape: CycleShape,
}

/// The relation of clusters that aggregate each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CycleShape {
    /// Each aggregates the next one, and the last one the first.
    Circle,
    /// One aggregates the others, which are all aggregates themselves. gRPC takes that.
    Nested,
}

/// The clusters that aggregate others, and the circles of them. Clones share what they have in common.
#[derive(Clone, Default)]
pub(super) struct Cycles {
    /// The members of each such cluster.
    members: OrdMap<ResourceName, Arc<[ResourceName]>>,
    /// The clusters whose members changed since the last look.
    touched: OrdSet<ResourceName>,
    /// The circles by their least names; of several through the same clusters there is one.
    found: OrdMap<ResourceName, Arc<Found>>,
    /// The key of the circle that a cluster is in.
    keys: OrdMap<ResourceName, ResourceName>,
    /// The first of those that aggregate nothing but aggregates and are in no circle.
    nested: Arc<[Cycle]>,
}

/// A circle, with all clusters that lead to each other.
struct Found {
    cycle: Cycle,
    all: Vec<ResourceName>,
}

/// The number of clusters that a circle names, beside the first.
const FEW: usize = 5;

/// The clusters with nothing but aggregates that are told of.
const MOST_NESTED: usize = 100;

impl Cycles {
    /// Takes over the members of a resource that was added, replaced or removed. Returns true if they changed.
    pub(super) fn replace(
        &mut self,
        (type_url, name): (&TypeUrl, &ResourceName),
        old: Option<&Resource>,
        new: Option<&Resource>,
    ) -> bool {
        let of = |resource: Option<&Resource>| -> Option<Vec<ResourceName>> {
            let facts = resource?.facts();
            let links = facts.links.iter().filter(|link| link.type_url == *type_url);
            facts.is_aggregate.then(|| links.map(|link| link.name.clone()).collect())
        };
        let (old, new) = (of(old), of(new));
        if old == new {
            return false;
        }
        match new {
            Some(members) => drop(self.members.insert(name.clone(), members.into())),
            None => drop(self.members.remove(name)),
        }
        self.touched.insert(name.clone());
        true
    }

    /// Looks for circles through the clusters that changed since the last look, and for nested ones.
    pub(super) fn look(&mut self, type_url: &TypeUrl) {
        if self.touched.is_empty() {
            return;
        }
        let mut from: BTreeSet<_> = std::mem::take(&mut self.touched).into_iter().collect();
        // Of the others in its circle, some may be in one without it.
        let opened: Vec<_> = from.iter().filter_map(|name| self.forget(name)).collect();
        from.extend(opened.iter().flat_map(|found| found.all.iter().cloned()));
        for all in components(&self.members, from.iter()) {
            all.iter().for_each(|name| drop(self.forget(name)));
            let Some(found) = self.described(type_url, all) else { continue };
            let key = &found.cycle.name;
            self.keys.extend(found.all.iter().map(|name| (name.clone(), key.clone())));
            self.found.insert(key.clone(), Arc::new(found));
        }
        // A cluster that changed may be a member of any other one; there are few that aggregate others.
        self.nested = self.nested(type_url).take(MOST_NESTED).collect();
    }

    /// The clusters that aggregate nothing but aggregates and are in no circle. Envoy finds no endpoint behind a member
    /// that is one.
    fn nested(&self, type_url: &TypeUrl) -> impl Iterator<Item = Cycle> {
        let is_nested = |(name, members): &(&ResourceName, &Arc<[ResourceName]>)| {
            let are_all = || members.iter().all(|member| self.members.contains_key(member));
            !members.is_empty() && !self.keys.contains_key(*name) && are_all()
        };
        self.members.iter().filter(is_nested).map(|(name, members)| Cycle {
            type_url: type_url.clone(),
            name: name.clone(),
            through: members.iter().take(FEW).cloned().collect(),
            others: members.len(),
            shape: CycleShape::Nested,
        })
    }

    /// The circles and nested clusters, as of the last look.
    pub(super) fn all(&self) -> impl Iterator<Item = &Cycle> + '_ {
        self.found.values().map(|found| &found.cycle).chain(self.nested.iter())
    }

    /// Takes out the circle that a cluster is in.
    fn forget(&mut self, name: &ResourceName) -> Option<Arc<Found>> {
        let found = self.keys.get(name).and_then(|key| self.found.remove(key))?;
        for name in &found.all {
            self.keys.remove(name);
        }
        Some(found)
    }

    /// The circle of clusters that all lead to each other.
    fn described(&self, type_url: &TypeUrl, all: Vec<ResourceName>) -> Option<Found> {
        let inside: BTreeSet<&ResourceName> = all.iter().collect();
        let first = *inside.first()?;
        let mut from: HashMap<&ResourceName, &ResourceName> = HashMap::new();
        let mut waiting = VecDeque::from([first]);
        while let Some(name) = waiting.pop_front() {
            for member in self.members.get(name).into_iter().flat_map(|it| it.iter()) {
                if let Some(member) = inside.get(member)
                    && !from.contains_key(member)
                {
                    from.insert(member, name);
                    waiting.push_back(member);
                }
            }
        }
        let mut back: Vec<_> = std::iter::successors(from.get(first), |name| {
            from.get(**name).filter(|_| **name != first)
        })
        .filter(|name| **name != first)
        .collect();
        back.reverse();
        let through = back.iter().take(FEW).map(|name| (**name).clone()).collect();
        let (type_url, name) = (type_url.clone(), first.clone());
        let (others, shape) = (back.len(), CycleShape::Circle);
        let cycle = Cycle { type_url, name, through, others, shape };
        Some(Found { cycle, all })
    }
}

/// A cluster on the way of a search.
struct Step<'a> {
    at: usize,
    members: &'a [ResourceName],
}

/// A cluster that a search came to. Its number is its place in the list of these.
struct Reached<'a> {
    name: &'a ResourceName,
    /// The least number that is known to be reached from here, and from where this is reached.
    least: usize,
    /// True until all that leads to this and back is known.
    is_open: bool,
}

/// The groups of clusters that all lead to each other, among those that these lead to (Tarjan). A cluster that
/// does not lead to itself is in none. Nothing is called again here, because a chain may be long.
fn components<'a>(
    members: &'a OrdMap<ResourceName, Arc<[ResourceName]>>,
    from: impl Iterator<Item = &'a ResourceName>,
) -> Vec<Vec<ResourceName>> {
    let mut search =
        Search { members, numbers: HashMap::new(), reached: Vec::new(), open: Vec::new() };
    let mut found = Vec::new();
    for name in from.filter(|name| members.contains_key(*name)) {
        if search.numbers.contains_key(name) {
            continue;
        }
        let mut way = vec![search.reach(name)];
        while let Some(step) = way.last_mut() {
            let at = step.at;
            if let Some((member, rest)) = step.members.split_first() {
                step.members = rest;
                match search.numbers.get(member) {
                    None if members.contains_key(member) => way.push(search.reach(member)),
                    Some(&number) if search.reached[number].is_open => search.lowers(at, number),
                    _ => {}
                }
                continue;
            }
            way.pop();
            let least = search.reached[at].least;
            if let Some(before) = way.last() {
                search.lowers(before.at, least);
            }
            if least == at {
                found.extend(search.closed(at));
            }
        }
    }
    found
}

/// The state of a search.
struct Search<'a> {
    members: &'a OrdMap<ResourceName, Arc<[ResourceName]>>,
    numbers: HashMap<&'a ResourceName, usize>,
    reached: Vec<Reached<'a>>,
    /// The numbers of those that are open.
    open: Vec<usize>,
}

impl<'a> Search<'a> {
    fn reach(&mut self, name: &'a ResourceName) -> Step<'a> {
        let at = self.reached.len();
        self.numbers.insert(name, at);
        self.reached.push(Reached { name, least: at, is_open: true });
        self.open.push(at);
        Step { at, members: self.members.get(name).map(|it| &**it).unwrap_or_default() }
    }

    fn lowers(&mut self, at: usize, least: usize) {
        let reached = &mut self.reached[at];
        reached.least = reached.least.min(least);
    }

    /// Those that lead to this and back, if it leads to itself.
    fn closed(&mut self, at: usize) -> Option<Vec<ResourceName>> {
        let from = self.open.iter().rposition(|open| *open == at)?;
        let numbers = self.open.split_off(from);
        for number in &numbers {
            self.reached[*number].is_open = false;
        }
        let name = self.reached[at].name;
        let is_own = || self.members.get(name).is_some_and(|it| it.contains(name));
        (numbers.len() > 1 || is_own())
            .then(|| numbers.iter().map(|number| self.reached[*number].name.clone()).collect())
    }
}

/// `cds `a` aggregates itself through `b` and `c``.
impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_url, name, through, others, shape } = self;
        let (what, first) = match shape {
            CycleShape::Circle => ("itself", " through "),
            CycleShape::Nested => ("nothing but aggregates", ": "),
        };
        write!(f, "{} `{name}` aggregates {what}", type_url.short())?;
        for (at, other) in through.iter().enumerate() {
            let before = match at {
                0 => first,
                last if last + 1 == *others => " and ",
                _ => ", ",
            };
            write!(f, "{before}`{other}`")?;
        }
        match others - through.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::{Facts, Link};

    use super::*;

    fn cds() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    /// A cluster that aggregates others, or one that does not.
    fn cluster(name: &str, members: Option<&[&str]>) -> Resource {
        let link =
            |name: &&str| Link { type_url: cds(), name: name.parse().unwrap(), aggregated: true };
        let links = members.unwrap_or_default().iter().map(link).collect();
        let facts = Facts { links, is_aggregate: members.is_some(), ..Facts::default() };
        Resource::new(name.parse().unwrap(), Vec::new().into()).with_facts(facts)
    }

    #[derive(Default)]
    struct Clusters {
        known: HashMap<String, Resource>,
        cycles: Cycles,
    }

    impl Clusters {
        fn put(&mut self, name: &str, members: Option<&[&str]>) -> bool {
            let new = cluster(name, members);
            let old = self.known.insert(name.to_owned(), new.clone());
            self.cycles.replace((&cds(), new.name()), old.as_ref(), Some(&new))
        }

        /// The circles.
        fn circles(&mut self) -> Vec<String> {
            let told = self.told().into_iter();
            told.filter(|it| it.contains("aggregates itself")).collect()
        }

        fn told(&mut self) -> Vec<String> {
            self.cycles.look(&cds());
            let told: Vec<_> = self.cycles.all().map(ToString::to_string).collect();
            let mut anew = Cycles { members: self.cycles.members.clone(), ..Cycles::default() };
            anew.touched = anew.members.keys().cloned().collect();
            anew.look(&cds());
            assert_eq!(anew.all().collect::<Vec<_>>(), self.cycles.all().collect::<Vec<_>>());
            told
        }
    }

    #[test]
    fn a_circle_is_found_when_it_is_closed_and_gone_when_it_is_opened() {
        let mut clusters = Clusters::default();
        assert!(clusters.put("a", Some(&["b", "leaf"])));
        assert!(clusters.put("b", Some(&["leaf"])));
        assert!(!clusters.put("leaf", None));
        assert_eq!(clusters.told(), [""; 0]);
        assert!(clusters.put("b", Some(&["a"])));
        assert!(!clusters.put("b", Some(&["a"])), "nothing changed");
        assert_eq!(clusters.told(), ["cds `a` aggregates itself through `b`"]);
        assert!(clusters.put("b", None));
        assert_eq!(clusters.told(), [""; 0]);
        clusters.put("a", Some(&["a"]));
        assert_eq!(clusters.told(), ["cds `a` aggregates itself"]);
    }

    #[test]
    fn an_aggregate_of_aggregates_alone_is_nested() {
        let mut clusters = Clusters::default();
        clusters.put("top", Some(&["mid"]));
        clusters.put("leaf", None);
        assert_eq!(clusters.told(), [""; 0], "nobody knows what `mid` is");
        clusters.put("mid", Some(&["leaf"]));
        assert_eq!(clusters.told(), ["cds `top` aggregates nothing but aggregates: `mid`"]);
        clusters.put("top", Some(&["mid", "leaf"]));
        assert_eq!(clusters.told(), [""; 0]);
        clusters.put("top", Some(&["mid"]));
        clusters.put("mid", None);
        assert_eq!(clusters.told(), [""; 0]);
        clusters.put("top", Some(&[]));
        assert_eq!(clusters.told(), [""; 0]);
    }

    #[test]
    fn circles_that_grow_together_are_one() {
        let mut clusters = Clusters::default();
        for (name, member) in [("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "x")] {
            clusters.put(name, Some(&[member]));
        }
        clusters.put("before", Some(&["a", "x"]));
        let both = [
            "cds `a` aggregates itself through `b` and `c`",
            "cds `x` aggregates itself through `y`",
        ];
        assert_eq!(clusters.circles(), both);
        clusters.put("y", Some(&["x", "c"]));
        assert_eq!(clusters.circles(), both, "there is no way back");
        clusters.put("c", Some(&["x", "a"]));
        assert_eq!(clusters.circles().len(), 1);
        clusters.put("y", Some(&["x"]));
        assert_eq!(clusters.circles(), both);
        clusters.put("x", None);
        assert_eq!(clusters.circles(), both[..1]);
    }

    #[test]
    fn a_long_chain_is_looked_at_once() {
        let mut clusters = Clusters::default();
        let names: Vec<_> = (0..50_000).map(|number| format!("c{number:05}")).collect();
        for pair in names.windows(2).rev() {
            clusters.put(&pair[0], Some(&[&pair[1]]));
        }
        assert_eq!(clusters.circles(), [""; 0]);
        clusters.put("c49999", Some(&["c00000"]));
        let told = clusters.circles();
        let [one] = &told[..] else { panic!("one circle: {}", told.len()) };
        let begin = "cds `c00000` aggregates itself through `c00001`, `c00002`,";
        assert!(one.starts_with(begin) && one.ends_with("and 49994 more"), "{one}");
    }

    #[test]
    fn random_edits_find_what_a_fresh_look_finds() {
        let mut seed = 7_u64;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % below
        };
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut clusters = Clusters::default();
        for _ in 0..3000 {
            for _ in 0..=random(2) {
                let members: Vec<_> = (0..random(3)).map(|_| names[random(8)]).collect();
                let is_aggregate = random(6) > 0;
                clusters.put(names[random(8)], is_aggregate.then_some(&members[..]));
            }
            clusters.told();
        }
    }
}
