//! Snapshots after edits in every order, with generated assignments and dangling references.

use bytes::Bytes;
use chancery_core::{Facts, Link};
use proptest::collection::vec;
use proptest::prelude::*;
use prost_reflect::DynamicMessage;
use serde::de::DeserializeSeed;

use super::*;
use crate::resource::{Wrapper, resource, resource_from_bytes};
use crate::schema::Schema;

fn with_cluster(all: &mut Complete, type_name: &str, name: &str) {
    let json = serde_json::json!({"name": name, "type": "EDS",
        "edsClusterConfig": {"edsConfig": {"ads": {}}}});
    let message: DynamicMessage =
        Schema::bundled().message(type_name).unwrap().deserialize(json).unwrap();
    let type_url = TypeUrl::new(type_name);
    all.insert(&type_url, resource(&type_url, &message, Wrapper::default()).unwrap().into());
}

#[test]
fn a_cluster_without_endpoints_gets_an_empty_load_assignment() {
    // S-101
    let eds = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
    let mut all = Complete::new();
    with_cluster(&mut all, "envoy.config.cluster.v3.Cluster", "a");
    with_cluster(&mut all, "envoy.config.cluster.v3.Cluster", "b");
    let bytes = Bytes::from_static(b"\x0a\x01b\x22\x02\x1a\x00");
    let own = resource_from_bytes(&Schema::bundled(), &eds, &bytes, Wrapper::default());
    assert!(all.insert(&eds, own.unwrap().into()));
    let body =
        |all: &Complete, name| all.snapshot().set(&eds).get(name).map(|it| it.body().clone());
    assert_eq!(body(&all, "a").unwrap().as_ref(), b"\x0a\x01a");
    assert_eq!(body(&all, "b").unwrap(), bytes, "what is there stays");
    assert!(!all.remove(&eds, &"a".parse().unwrap()), "nobody wrote it");
    assert!(all.remove(&eds, &"b".parse().unwrap()));
    assert_eq!(body(&all, "b").unwrap().as_ref(), b"\x0a\x01b", "its cluster still waits");
}

#[test]
fn a_v2_cluster_gets_one_of_v2() {
    // S-010, S-101
    let mut all = Complete::new();
    with_cluster(&mut all, "envoy.api.v2.Cluster", "a");
    let eds = TypeUrl::new("envoy.api.v2.ClusterLoadAssignment");
    assert!(all.snapshot().set(&eds).get("a").is_some());
    assert_eq!(all.snapshot().len(), 2);
    let told: Vec<_> = all.dangling().map(|it| (it.is_filled(), it.target.name)).collect();
    assert_eq!(told, [(true, "a".parse().unwrap())], "an empty one is made, and not in silence");
}

fn url(short: &str) -> TypeUrl {
    TypeUrl::known().find(|type_url| type_url.short() == short).unwrap()
}

/// A resource of that type and name, with references and aliases.
fn with(links: &[(&str, &str)], name: &str, aliases: &[&str]) -> Arc<Resource> {
    let link = |(short, target): &(&str, &str)| Link {
        type_url: url(short),
        name: target.parse().unwrap(),
        aggregated: true,
    };
    let facts = Facts { links: links.iter().map(link).collect(), ..Facts::default() };
    let body = Bytes::from(format!("{links:?}"));
    let aliases = aliases.iter().map(|alias| alias.parse().unwrap()).collect();
    Resource::new(name.parse().unwrap(), body).with_aliases(aliases).with_facts(facts).into()
}

#[test]
fn aliases_are_found_and_collections_may_be_empty() {
    let glob = "xdstp://x/envoy.config.endpoint.v3.LbEndpoint/a/*";
    let mut all = Complete::new();
    all.insert(&url("rds"), with(&[("cds", "also"), ("leds", glob), ("cds", "b")], "r", &[]));
    let targets = |all: &Complete| -> Vec<_> {
        all.dangling().map(|dangling| dangling.target.name.to_string()).collect()
    };
    assert_eq!(targets(&all), ["also", "b"]);
    all.insert(&url("cds"), with(&[], "a", &["also"]));
    assert_eq!(targets(&all), ["b"]);
    all.insert(&url("cds"), with(&[], "z", &["also"]));
    all.remove(&url("cds"), &"a".parse().unwrap());
    assert_eq!(targets(&all), ["b"], "another goes by that name");
    all.remove(&url("cds"), &"z".parse().unwrap());
    assert_eq!(targets(&all), ["also", "b"]);
}

#[test]
fn names_of_foreign_authorities_are_known_elsewhere() {
    // S-116
    let name = |authority: &str, name: &str| {
        format!("xdstp://{authority}/envoy.config.cluster.v3.Cluster/{name}")
    };
    let (own, other) = (name("own", "a"), name("other", "a"));
    let mut all = Complete::new();
    all.insert(
        &url("rds"),
        with(&[("cds", &own), ("cds", &other), ("cds", &name("", "a"))], "r", &[]),
    );
    let targets = |all: &Complete| -> Vec<_> {
        all.dangling().map(|dangling| dangling.target.name.to_string()).collect()
    };
    assert_eq!(targets(&all), [name("", "a")], "nothing is of the others");
    let before = all.dangling_revision();
    all.insert(&url("cds"), with(&[], &name("own", "b"), &[]));
    assert_eq!(targets(&all), [name("", "a"), own]);
    assert_ne!(all.dangling_revision(), before);
    let before = all.dangling_revision();
    all.insert(&url("cds"), with(&[("eds", "x")], &name("own", "b"), &[]));
    all.remove(&url("cds"), &name("own", "b").parse().unwrap());
    assert_eq!(targets(&all), [name("", "a")]);
    assert_ne!(all.dangling_revision(), before);
}

#[test]
fn what_comes_from_another_server_is_known_there() {
    let link = Link { type_url: url("rds"), name: "r".parse().unwrap(), aggregated: false };
    let facts = Facts { links: vec![link], ..Facts::default() };
    let listener = Resource::new("l".parse().unwrap(), Bytes::new()).with_facts(facts);
    let mut all = Complete::new();
    all.insert(&url("lds"), listener.into());
    assert_eq!(all.dangling().count(), 0);
}

/// The expected result, from a look at all resources: the references to unpublished names.
fn missing(written: &Snapshot) -> Vec<(TypeUrl, ResourceName, Link)> {
    let all = written.types().flat_map(|url| written.set(url).iter().map(move |it| (url, it)));
    let links = all.flat_map(|(url, it)| it.facts().links.iter().map(move |link| (url, it, link)));
    let lacking = links.filter(|(_, _, link)| {
        !link.name.is_glob()
            && written.set(&link.type_url).get_aliased(link.name.as_str()).is_none()
    });
    lacking.map(|(url, it, link)| (url.clone(), it.name().clone(), link.clone())).collect()
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const TYPES: [&str; 3] = ["cds", "eds", "rds"];

/// A type and name, and the resource that is published there (references, an alias) or removed.
type Edit = ((usize, usize), Option<(Vec<(usize, usize)>, Option<usize>)>);

fn edit() -> impl Strategy<Value = Edit> {
    let reference = (0..TYPES.len(), 0..NAMES.len());
    let there = (vec(reference, 0..4), proptest::option::of(0..NAMES.len()));
    ((0..TYPES.len(), 0..NAMES.len()), proptest::option::weighted(0.7, there))
}

proptest! {
    #[test]
    fn edits_lead_where_a_look_at_everything_leads(edits in vec(edit(), 0..40)) {
        let mut all = Complete::new();
        let mut written = std::collections::BTreeMap::new();
        let mut told = (all.dangling_revision(), Vec::new());
        for ((of, name), there) in edits {
            let (type_url, name) = (url(TYPES[of]), NAMES[name]);
            match there {
                Some((links, alias)) => {
                    let links: Vec<_> = links.iter().map(|(t, n)| (TYPES[*t], NAMES[*n])).collect();
                    let alias: Vec<_> = alias.iter().map(|at| NAMES[*at]).collect();
                    let resource = with(&links, name, &alias);
                    all.insert(&type_url, Arc::clone(&resource));
                    written.insert((type_url, name), resource);
                }
                None => {
                    all.remove(&type_url, &name.parse().unwrap());
                    written.remove(&(type_url, name));
                }
            }
            let mut wanted = Snapshot::new();
            for ((type_url, _), resource) in &written {
                wanted.insert(type_url, Arc::clone(resource));
            }
            let mut lacking = missing(&wanted);
            let made = lacking.iter().filter(|(.., link)| link.type_url.api() == Api::Eds);
            for (.., link) in made.cloned().collect::<Vec<_>>() {
                wanted.insert(&link.type_url, empty_assignment(&link.name));
            }
            prop_assert_eq!(all.snapshot(), &wanted);
            let mut found: Vec<_> =
                all.dangling().map(|one| (one.type_url, one.name, one.target)).collect();
            let order = |one: &(TypeUrl, ResourceName, Link)| {
                (one.0.clone(), one.1.clone(), one.2.type_url.clone(), one.2.name.clone())
            };
            found.sort_by_key(order);
            lacking.sort_by_key(order);
            lacking.dedup();
            prop_assert_eq!(&found, &lacking);
            if all.dangling_revision() == told.0 {
                prop_assert_eq!(&found, &told.1);
            }
            told = (all.dangling_revision(), found);
        }
    }
}
