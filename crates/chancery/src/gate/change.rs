//! The numbers and losses of a change, read from the snapshots before and after it.
//!
//! It costs the number of types, and what differs between the endpoint sets: nobody walks over a whole
//! snapshot. Not here: the judgement (`loss`).

use std::collections::BTreeMap;

use chancery_core::{Api, Snapshot, TypeUrl};

use super::loss::{Change, Counts, Measure};

/// The change from one snapshot to another. The endpoint sets whose names `may_be_empty` knows may lose
/// all they have.
pub(super) fn between(
    before: &Snapshot,
    after: &Snapshot,
    may_be_empty: impl Fn(&str) -> bool,
) -> Change {
    // A type has the same short name in v3 and in v2.
    let gone = before.types().filter(|type_url| is_gone(type_url, before, after));
    let gone: BTreeMap<_, _> =
        gone.map(|type_url| (type_url.short().to_owned(), len(before, type_url))).collect();
    let mut change = Change {
        before: counts(before),
        after: counts(after),
        gone: gone.into_iter().collect(),
        ..Change::default()
    };
    for type_url in before.types().filter(|type_url| type_url.api() == Api::Eds) {
        for it in before.set(type_url).diff(after.set(type_url)) {
            let had = it.old.map_or(0, |old| old.facts().parts);
            let has = it.new.as_ref().map_or(0, |new| new.facts().parts);
            if had <= has {
                continue;
            }
            if may_be_empty(it.name.as_str()) {
                change.forgiven += u64::from(had - has);
            } else if it.new.is_some() && has == 0 {
                change.emptied.add(it.name.as_str());
            }
        }
    }
    change
}

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

/// The number of each that an audience has. Resources are often there for v3 and for v2; the larger one
/// counts.
fn counts(snapshot: &Snapshot) -> Counts {
    let (mut v3, mut v2) = (Counts::default(), Counts::default());
    for type_url in snapshot.types() {
        let counts = if type_url.message_name().contains(".v2.") { &mut v2 } else { &mut v3 };
        let (all, parts) = (len(snapshot, type_url), snapshot.set(type_url).parts());
        let (of_all, of_parts) = match type_url.api() {
            Api::Cds => (Some(Measure::Clusters), Some(Measure::Endpoints)),
            Api::Lds => (Some(Measure::Listeners), Some(Measure::Routes)),
            Api::Rds => (Some(Measure::RouteConfigurations), Some(Measure::Routes)),
            Api::Vhds => (None, Some(Measure::Routes)),
            Api::Eds => (None, Some(Measure::Endpoints)),
            Api::Leds => (Some(Measure::Endpoints), None),
            _ => (None, None),
        };
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
        assert_eq!(found.emptied, crate::gate::Listed { count: 1, first: vec!["a".to_owned()] });
        assert_eq!((found.forgiven, found.gone), (1, vec![]));
    }

    #[test]
    fn a_type_is_gone_with_its_last_resource() {
        let before = snapshot(&[(EDS, "a", 0), (CDS, "a", 0)]);
        let found = between(&before, &Snapshot::new(), |_| false);
        assert_eq!(found.gone, [("cds".to_owned(), 1)]);
        let before = snapshot(&[(EDS, "a", 1)]);
        let found = between(&before, &Snapshot::new(), |_| false);
        assert_eq!(found.gone, [("eds".to_owned(), 1)]);
        assert_eq!(found.emptied.count, 0, "there is no such set any more");
    }
}
