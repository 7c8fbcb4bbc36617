//! References that lead nowhere, as each audience sees them, and resources that nothing refers to.

use std::sync::Arc;

use chancery_catalog::{
    Audience, Catalog, ChangeSet, Entry, External, Key, Layer, Origin, References, SeenReferences,
    lost_references,
};
use chancery_core::{Facts, Link, Resource, Snapshot, TypeUrl};
use chancery_proto::complete::{Complete, Dangling};
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;

fn url(short: &str) -> TypeUrl {
    TypeUrl::known().find(|type_url| type_url.short() == short).unwrap()
}

/// A resource `TYPE NAME` that refers to others, each as `TYPE NAME`.
fn resource(text: &str, to: &[&str]) -> (TypeUrl, Resource) {
    let link = |text: &&str| {
        let (short, name) = text.split_once(' ').unwrap();
        Link { type_url: url(short), name: name.parse().unwrap(), aggregated: true }
    };
    let facts = Facts { links: to.iter().map(link).collect(), ..Facts::default() };
    let (short, name) = text.split_once(' ').unwrap();
    let body = format!("{text} {to:?}").into_bytes();
    (url(short), Resource::new(name.parse().unwrap(), body.into()).with_facts(facts))
}

fn group(name: &str) -> Layer {
    Layer::Group(name.into())
}

fn put(catalog: &Catalog, layer: &Layer, text: &str, to: &[&str]) {
    let (type_url, resource) = resource(text, to);
    let mut changes = ChangeSet::new("test");
    changes.put(layer, &type_url, Entry::new(resource, Origin::program("test")));
    catalog.commit(changes);
}

fn take(catalog: &Catalog, layer: &Layer, text: &str) {
    let (type_url, resource) = resource(text, &[]);
    let mut changes = ChangeSet::new("test");
    changes.remove(layer, Key::of(&type_url, &resource));
    catalog.commit(changes);
}

fn found(catalog: &Catalog) -> Arc<References> {
    catalog.references(&External::default())
}

/// The missing targets, each with those who lack it and the name that may be meant.
fn missing(references: &References) -> Vec<String> {
    let all = references.missing.iter().map(|target| {
        let audiences: Vec<_> = target.audiences.iter().map(ToString::to_string).collect();
        format!("{}: {target}; {}", audiences.join(", "), target.question())
    });
    all.collect()
}

fn unused(references: &References) -> Vec<String> {
    let all = references.unused.iter();
    all.map(|(type_url, name)| format!("{} {name}", type_url.short())).collect()
}

#[test]
fn a_reference_leads_nowhere_for_those_who_lack_its_target() {
    // S-103
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "rds r", &["cds b"]);
    assert_eq!(
        missing(&found(&catalog)),
        ["nodes without an overlay: rds `r` refers to cds `b`, which does not exist; "]
    );
    put(&catalog, &group("edge"), "cds b", &[]);
    assert_eq!(missing(&found(&catalog)), [""; 0], "the group completes base");
    put(&catalog, &group("core"), "cds c", &[]);
    assert_eq!(
        missing(&found(&catalog)),
        ["group `core`: rds `r` refers to cds `b`, which does not exist; did you mean `c`?"]
    );
}

#[test]
fn one_missing_target_is_told_once_however_many_refer_to_it() {
    let catalog = Catalog::new();
    for name in ["r1", "r2", "r3"] {
        put(&catalog, &Layer::Base, &format!("rds {name}"), &["cds gone"]);
    }
    let told = missing(&found(&catalog));
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("rds `r1` and 2 others refer to cds `gone`, which"), "{told:?}");
}

#[test]
fn a_name_that_comes_later_may_be_meant_too() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "rds r", &["cds shop-v11"]);
    assert_eq!(found(&catalog).missing[0].question(), "");
    put(&catalog, &Layer::Base, "cds shop-v1", &[]);
    assert_eq!(found(&catalog).missing[0].question(), "did you mean `shop-v1`?");
    take(&catalog, &Layer::Base, "cds shop-v1");
    assert_eq!(found(&catalog).missing[0].question(), "");
}

#[test]
fn names_that_clients_know_are_not_missing() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "rds r", &["cds xds_cluster", "cds gone"]);
    put(&catalog, &Layer::Base, "lds l", &["rds r"]);
    put(&catalog, &Layer::Base, "cds c", &["sds other"]);
    put(&catalog, &Layer::Base, "sds mine", &[]);
    put(&catalog, &group("edge"), "cds e", &[]);
    put(&catalog, &group("core"), "cds f", &[]);
    let external = External::new(|audience: &Audience, name: &str| match name {
        "mine" | "other" => true,
        "xds_cluster" => audience.group.as_deref() == Some("edge"),
        _ => false,
    });
    let references = catalog.references(&external);
    let targets: Vec<_> = references
        .missing
        .iter()
        .map(|target| (target.name.as_str(), target.audiences.len()))
        .collect();
    assert_eq!(targets, [("gone", 2), ("xds_cluster", 1)]);
    assert_eq!(unused(&references), [""; 0]);
    assert!(Arc::ptr_eq(&references, &catalog.references(&external)), "nothing is looked at twice");
    assert_eq!(unused(&found(&catalog)), ["sds mine"]);
}

#[test]
fn an_endpoint_set_with_a_wrong_name_is_one_warning() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "cds shop-v1", &["eds shop-v1"]);
    put(&catalog, &Layer::Base, "cds other", &["eds other"]);
    put(&catalog, &Layer::Base, "eds other", &[]);
    assert_eq!(
        missing(&found(&catalog)),
        ["nodes without an overlay: cds `shop-v1` refers to eds `shop-v1`, which does not exist: \
          clients get an empty one, so that the cluster has no endpoints; "]
    );
    put(&catalog, &Layer::Base, "eds shop-v11", &[]);
    take(&catalog, &Layer::Base, "eds other");
    put(&catalog, &Layer::Base, "eds other", &[]);
    put(&catalog, &Layer::Base, "eds unused-and-far", &[]);
    let references = found(&catalog);
    let told = missing(&references);
    assert_eq!(told.len(), 1);
    assert!(told[0].ends_with("did you mean eds `shop-v11`, to which nothing refers?"), "{told:?}");
    assert_eq!(unused(&references), ["eds unused-and-far"]);
    put(&catalog, &Layer::Base, "eds shop-v1", &[]);
    let references = found(&catalog);
    assert_eq!(missing(&references), [""; 0]);
    assert_eq!(unused(&references), ["eds shop-v11", "eds unused-and-far"]);
}

#[test]
fn any_layer_may_use_a_resource() {
    let catalog = Catalog::new();
    put(&catalog, &Layer::Base, "eds a", &[]);
    assert_eq!(unused(&found(&catalog)), [""; 0], "the clusters are in bootstraps");
    put(&catalog, &Layer::Base, "cds c", &[]);
    assert_eq!(unused(&found(&catalog)), ["eds a"]);
    put(&catalog, &Layer::Base, "cds c", &["eds c"]);
    put(&catalog, &Layer::Base, "eds c", &[]);
    assert_eq!(unused(&found(&catalog)), ["eds a"]);
    let node = Layer::Node("n".into());
    put(&catalog, &node, "cds of-a-node", &["eds a"]);
    assert_eq!(unused(&found(&catalog)), [""; 0], "a node that nobody has seen uses it");
    put(&catalog, &node, "cds of-a-node", &["eds b"]);
    assert_eq!(unused(&found(&catalog)), ["eds a"]);
    put(&catalog, &group("g"), "cds of-a-group", &["eds a"]);
    assert_eq!(unused(&found(&catalog)), [""; 0]);
    let mut changes = ChangeSet::new("test");
    changes.remove_layer(&group("g"));
    catalog.commit(changes);
    assert_eq!(unused(&found(&catalog)), ["eds a"]);
}

#[test]
fn near_misses_of_many_names_cost_no_more_than_a_bound() {
    let catalog = Catalog::new();
    let mut changes = ChangeSet::new("test");
    for number in 0..5000 {
        let to = format!("cds service-{number:04}x");
        for (text, to) in
            [(format!("cds service-{number:04}"), None), (format!("rds r{number}"), Some(&*to))]
        {
            let (type_url, resource) = resource(&text, to.as_slice());
            changes.put(&Layer::Base, &type_url, Entry::new(resource, Origin::program("test")));
        }
    }
    catalog.commit(changes);
    let references = found(&catalog);
    assert_eq!(references.missing.len(), 5000);
    let near: Vec<_> = references.missing.iter().map_while(|it| it.near.clone()).collect();
    assert!((10..1000).contains(&near.len()), "{}", near.len());
    assert_eq!(near[0].name.as_str(), "service-0000");
}

/// The snapshot of these documents, and what leads nowhere in it.
fn seen(text: &str) -> (Snapshot, Vec<Dangling>) {
    let parsed = parse(&Schema::bundled(), Format::Yaml, text.as_bytes());
    assert!(parsed.faults.is_empty(), "{:?}", parsed.faults);
    let mut all = Complete::new();
    for one in parsed.resources {
        all.insert(&one.type_url, one.resource);
    }
    let dangling = all.dangling().collect();
    (all.snapshot().clone(), dangling)
}

const BEFORE: &str = r#"
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: shop-v1}
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: pay, type: EDS,
   eds_cluster_config: {eds_config: {ads: {}}}}
- {"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: pay}
- "@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
  name: r
  virtual_hosts:
  - name: v
    domains: ["*"]
    routes:
    - {match: {prefix: /shop}, route: {cluster: shop-v1}}
    - {match: {prefix: /old}, route: {cluster: long-gone}}
"#;

#[test]
fn a_change_is_judged_by_the_references_that_it_breaks() {
    let after = BEFORE
        .replace("cluster: shop-v1}", "cluster: shop-v11}")
        .replace("cluster_name: pay", "cluster_name: pya")
        .replace("/old", "/older");
    let (before, after) = (seen(BEFORE), seen(&after));
    let before = SeenReferences { snapshot: &before.0, dangling: &before.1 };
    let after = SeenReferences { snapshot: &after.0, dangling: &after.1 };
    let audience = Audience::default();
    let lost = |external: &External, before, most| {
        let schema = Schema::bundled();
        let judge = (|_: &Dangling| false, |_: &Dangling| true);
        let (lost, count) =
            lost_references(&schema, &audience, external, before, after, judge, most);
        let text = lost.iter().map(|lost| {
            let fields = lost.fields.join(", ");
            let goes = if lost.target_goes { "goes" } else { "new" };
            format!("{}; {fields}; {goes}; {}", lost.reference, lost.question())
        });
        (text.collect::<Vec<_>>(), count)
    };
    let all = [
        "rds `r` refers to cds `shop-v11`, which does not exist; \
         virtual_hosts[0].routes[0].route.cluster; new; did you mean `shop-v1`?",
        "cds `pay` refers to eds `pay`, which does not exist; eds_cluster_config; goes; \
         did you mean `pya`?",
    ];
    let nowhere = External::default();
    assert_eq!(lost(&nowhere, Some(before), 10), (all.map(str::to_owned).to_vec(), 2));
    assert_eq!(lost(&nowhere, Some(before), 1), (vec![all[0].to_owned()], 2));
    assert_eq!(
        lost(&nowhere, Some(after), 10),
        (Vec::new(), 0),
        "what is broken already is not news"
    );
    assert_eq!(lost(&nowhere, None, 10).1, 3, "to somebody who saw nothing all is new");
    let shop = External::new(|_, name| name.starts_with("shop-"));
    assert_eq!(lost(&shop, Some(before), 10), (vec![all[1].to_owned()], 1));
    // One that somebody lets pass takes no place among those that are looked at.
    let (schema, before) = (Schema::bundled(), Some(before));
    let passes = |one: &Dangling| one.target.name.as_str() == "shop-v11";
    let judge = (passes, |_: &Dangling| true);
    let (lost, count) = lost_references(&schema, &audience, &nowhere, before, after, judge, 1);
    assert_eq!((lost[0].reference.name.as_str(), count), ("pay", 1));
    // One that does not matter comes last, and does not count where nobody looks at it.
    let judge = (|_: &Dangling| false, |_: &Dangling| false);
    let (lost, count) = lost_references(&schema, &audience, &nowhere, before, after, judge, 1);
    assert_eq!((lost[0].reference.name.as_str(), count), ("pay", 1), "its target goes");
}
