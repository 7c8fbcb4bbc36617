//! The numbers and losses of a change, read from the snapshots before and after it.
//!
//! It costs the number of types, and what differs: nobody walks over a whole snapshot. Not here: the judgement
//! (`loss`).

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::{Api, Resource, ResourceName, Snapshot, TypeUrl};
use chancery_proto::resource::{lacks_endpoints, lacks_routes};
use chancery_proto::schema::Schema;

use super::loss::{Change, Counts, Gone, Measure};
use super::place::Places;

/// A change from one snapshot to another.
pub(super) struct Between<'a> {
    pub(super) schema: &'a Schema,
    pub(super) before: &'a Snapshot,
    pub(super) after: &'a Snapshot,
    pub(super) places: Places<'a>,
}

impl Between<'_> {
    /// The numbers and losses. The endpoint sets whose names `may_be_empty` knows may lose all they have.
    pub(super) fn read(&self, may_be_empty: impl Fn(&str) -> bool) -> Change {
        let mut change = Change {
            before: counts(self.before),
            after: counts(self.after),
            gone: self.gone(),
            ..Change::default()
        };
        for type_url in self.before.types() {
            match type_url.api() {
                Api::Eds => self.read_endpoints(type_url, &may_be_empty, &mut change),
                Api::Cds | Api::Rds | Api::Vhds => {
                    self.read_parts(type_url, &may_be_empty, &mut change);
                }
                _ => {}
            }
        }
        change
    }

    /// Forgives that all resources of a type are gone where they went together with what referred to them. A
    /// resource to which nothing referred may be known to clients otherwise, and with another group below everything
    /// is another one.
    pub(super) fn forgive_unreferred(&self, change: &mut Change, extends_group: bool) {
        if change.gone.is_empty() || self.before.len().max(self.after.len()) > MOST_WALKED {
            return;
        }
        let stays = |type_url: &TypeUrl, name: &ResourceName| {
            !extends_group || self.after.set(type_url).get(name.as_str()).is_some()
        };
        let referred = names_referred_to(self.before, stays);
        let needed = names_referred_to(self.after, |_, _| true);
        change.gone.retain(|gone| {
            let of_type = self.before.types().filter(|it| it.short() == gone.type_name);
            let mut all = of_type.flat_map(|type_url| self.before.set(type_url).iter());
            !all.all(|it| {
                let key = (gone.type_name.as_str(), it.name().as_str());
                referred.contains(&key) && !needed.contains(&key)
            })
        });
    }

    /// The types of which all resources are gone. A type has the same short name in v3 and in v2.
    fn gone(&self) -> Vec<Gone> {
        let gone = self.before.types().filter(|it| is_gone(it, self.before, self.after));
        let gone = gone.map(|type_url| {
            let set = self.before.set(type_url);
            let all = set.iter().take(MOST_PLACES).map(|it| (type_url, it.name()));
            let type_name = type_url.short().to_owned();
            (
                type_name.clone(),
                Gone {
                    type_name,
                    count: len(self.before, type_url),
                    files: self.places.files(all),
                },
            )
        });
        gone.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    fn read_endpoints(
        &self,
        type_url: &TypeUrl,
        may_be_empty: &impl Fn(&str) -> bool,
        change: &mut Change,
    ) {
        for it in self.before.set(type_url).diff(self.after.set(type_url)) {
            let had = it.old.map_or(0, |old| old.facts().parts);
            let has = it.new.as_ref().map_or(0, |new| new.facts().parts);
            if had <= has {
                continue;
            }
            if may_be_empty(it.name.as_str()) {
                change.forgiven += u64::from(had - has);
            } else if it.new.is_some() && has == 0 {
                change.emptied.add_words(|| self.places.named(type_url, &it.name));
            }
        }
    }

    /// Clusters with endpoints in them that have none any more, and routes that lead nowhere.
    fn read_parts(
        &self,
        type_url: &TypeUrl,
        may_be_empty: &impl Fn(&str) -> bool,
        change: &mut Change,
    ) {
        let is_of_cluster = type_url.api() == Api::Cds;
        for it in self.before.set(type_url).diff(self.after.set(type_url)) {
            let (Some(old), Some(new)) = (&it.old, &it.new) else { continue };
            let had = old.facts().parts;
            // Clusters with EDS have their endpoints elsewhere.
            let may_lack = match is_of_cluster {
                true => !new.facts().links.iter().any(|link| link.type_url.api() == Api::Eds),
                false => had > 0,
            };
            if new.facts().parts > 0 || !may_lack {
                continue;
            }
            if is_of_cluster && may_be_empty(it.name.as_str()) {
                change.forgiven += u64::from(had);
            } else if self.lacks(type_url, new) && !self.lacks(type_url, old) {
                let listed = if is_of_cluster { &mut change.emptied } else { &mut change.unrouted };
                listed.add_words(|| self.places.named(type_url, &it.name));
            }
        }
    }

    fn lacks(&self, type_url: &TypeUrl, resource: &Resource) -> bool {
        match type_url.api() {
            Api::Cds => lacks_endpoints(self.schema, type_url, resource.body()),
            _ => lacks_routes(self.schema, type_url, resource.body()),
        }
    }

    /// The files from which things go that are counted so.
    pub(super) fn lost_from(&self, measure: Measure) -> String {
        let types: Vec<_> =
            self.before.types().filter(|it| measures(it).contains(&Some(measure))).collect();
        let mut lost = Vec::new();
        for type_url in types {
            let of_parts = measures(type_url)[0] != Some(measure);
            let changes = self.before.set(type_url).diff(self.after.set(type_url));
            let gone = changes.filter(|it| match (&it.old, &it.new) {
                (Some(_), None) => true,
                (Some(old), Some(new)) => of_parts && old.facts().parts > new.facts().parts,
                (None, _) => false,
            });
            lost.extend(gone.take(MOST_PLACES).map(|it| (type_url, it.name)));
        }
        self.places.files(lost.iter().map(|(type_url, name)| (*type_url, name)))
    }
}

/// The types and names to which resources refer, those of which `counts` is true.
fn names_referred_to(
    snapshot: &Snapshot,
    counts: impl Fn(&TypeUrl, &ResourceName) -> bool,
) -> BTreeSet<(&str, &str)> {
    let mut names = BTreeSet::new();
    for type_url in snapshot.types() {
        let resources = snapshot.set(type_url).iter();
        for resource in resources.filter(|it| counts(type_url, it.name())) {
            let links = resource.facts().links.iter();
            names.extend(links.map(|link| (link.type_url.short(), link.name.as_str())));
        }
    }
    names
}

/// The resources among which references are looked for.
const MOST_WALKED: usize = 10_000;

/// The resources whose files are looked up.
const MOST_PLACES: usize = 100;

/// Returns true if all resources of a type are gone. Empty endpoint sets are none: they were made for
/// clusters that have no endpoints.
fn is_gone(type_url: &TypeUrl, before: &Snapshot, after: &Snapshot) -> bool {
    let had = before.set(type_url);
    let is_nothing = had.is_empty() || (type_url.api() == Api::Eds && had.parts() == 0);
    !is_nothing && after.set(type_url).is_empty()
}

fn len(snapshot: &Snapshot, type_url: &TypeUrl) -> u64 {
    snapshot.set(type_url).len() as u64
}

/// The things of which a type has a number: that of its resources, and that of their parts.
fn measures(type_url: &TypeUrl) -> [Option<Measure>; 2] {
    match type_url.api() {
        Api::Cds => [Some(Measure::Clusters), Some(Measure::Endpoints)],
        Api::Lds => [Some(Measure::Listeners), Some(Measure::Routes)],
        Api::Rds => [Some(Measure::RouteConfigurations), Some(Measure::Routes)],
        Api::Vhds => [None, Some(Measure::Routes)],
        Api::Eds => [None, Some(Measure::Endpoints)],
        Api::Leds => [Some(Measure::Endpoints), None],
        _ => [None, None],
    }
}

/// The number of each that an audience has. Resources are often there for v3 and for v2; the larger one
/// counts.
fn counts(snapshot: &Snapshot) -> Counts {
    let (mut v3, mut v2) = (Counts::default(), Counts::default());
    for type_url in snapshot.types() {
        let counts = if type_url.message_name().contains(".v2.") { &mut v2 } else { &mut v3 };
        let [of_all, of_parts] = measures(type_url);
        let (all, parts) = (len(snapshot, type_url), snapshot.set(type_url).parts());
        of_all.into_iter().for_each(|measure| counts.add(measure, all));
        of_parts.into_iter().for_each(|measure| counts.add(measure, parts));
    }
    v3.largest(v2)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chancery_core::{Facts, Resource};

    use super::*;

    fn snapshot(resources: &[(&str, &str, u32)]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (type_name, name, parts) in resources {
            let body = Bytes::from(parts.to_string());
            let facts = Facts { parts: *parts, ..Facts::default() };
            let resource = Resource::new(name.parse().unwrap(), body).with_facts(facts);
            snapshot.insert(&TypeUrl::new(type_name), resource);
        }
        snapshot
    }

    const CDS: &str = "envoy.config.cluster.v3.Cluster";
    const EDS: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";
    const OLD_EDS: &str = "envoy.api.v2.ClusterLoadAssignment";
    const RDS: &str = "envoy.config.route.v3.RouteConfiguration";

    fn between(before: &Snapshot, after: &Snapshot, may_be_empty: impl Fn(&str) -> bool) -> Change {
        let schema = Schema::bundled();
        let places = Places::unknown();
        Between { schema: &schema, before, after, places }.read(may_be_empty)
    }

    #[test]
    fn clusters_endpoints_and_routes_are_counted() {
        let all = [(CDS, "a", 2), (CDS, "b", 0), (EDS, "a", 3), (RDS, "r", 4), (OLD_EDS, "a", 3)];
        let counts = counts(&snapshot(&all));
        let found = Measure::ALL.map(|measure| counts.get(measure));
        assert_eq!(found, [2, 0, 1, 4, 5]);
    }

    #[test]
    fn an_endpoint_set_is_emptied_if_it_had_endpoints_and_is_still_there() {
        let before = snapshot(&[(EDS, "a", 3), (EDS, "b", 3), (EDS, "c", 0), (EDS, "d", 1)]);
        let after = snapshot(&[(EDS, "a", 0), (EDS, "c", 0), (EDS, "d", 0)]);
        let found = between(&before, &after, |name| name == "d");
        assert_eq!(found.emptied, crate::gate::Listed { count: 1, first: vec!["`a`".to_owned()] });
        assert_eq!((found.forgiven, found.gone), (1, vec![]));
    }

    #[test]
    fn a_type_is_gone_with_its_last_resource() {
        let before = snapshot(&[(EDS, "a", 0), (CDS, "a", 0)]);
        let found = between(&before, &Snapshot::new(), |_| false);
        let gone = |type_name: &str| {
            vec![Gone { type_name: type_name.to_owned(), count: 1, files: String::new() }]
        };
        assert_eq!(found.gone, gone("cds"));
        let before = snapshot(&[(EDS, "a", 1)]);
        let found = between(&before, &Snapshot::new(), |_| false);
        assert_eq!(found.gone, gone("eds"));
        assert_eq!(found.emptied.count, 0, "there is no such set any more");
    }

    #[test]
    fn clusters_and_routes_are_emptied_too() {
        // The bodies are no messages, so that nobody knows what they lack.
        let before = snapshot(&[(CDS, "a", 2), (RDS, "r", 2)]);
        let after = snapshot(&[(CDS, "a", 0), (RDS, "r", 0)]);
        let found = between(&before, &after, |_| false);
        assert_eq!((found.emptied.count, found.unrouted.count), (0, 0));
        let mut after = Snapshot::new();
        for (type_name, name) in [(CDS, "a"), (RDS, "r")] {
            let empty = Resource::new(name.parse().unwrap(), Bytes::new());
            after.insert(&TypeUrl::new(type_name), empty);
        }
        let found = between(&before, &after, |_| false);
        assert_eq!(
            (found.emptied.first, found.unrouted.first),
            (vec!["`a`".to_owned()], vec!["`r`".to_owned()])
        );
        assert_eq!(between(&before, &after, |name| name == "a").forgiven, 2);
    }
}
