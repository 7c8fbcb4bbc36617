//! A comparison that lets audiences inherit from each other finds as much as one of each alone.

use std::collections::{BTreeMap, BTreeSet};

use chancery_catalog::{Audience, Catalog, ChangeSet, Entry, Key, Layer, Lineage, Origin};
use chancery_core::TypeUrl;
use chancery_proto::resource::{Wrapper, resource_from_bytes};
use chancery_proto::schema::Schema;

use super::change::is_same;
use super::inherited::Inheritance;
use super::side::{DirectorySide, find};
use crate::config::Config;
use crate::serve::Grouping;

/// A source of numbers that looks random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A change, as what is seen before and after.
type Told = (Key, Option<String>, Option<String>);

fn cluster(name: &str, kind: u64) -> Vec<u8> {
    // Name, and then the type: 3 is EDS. The alternative name is content.
    let mut body = vec![0x0a, u8::try_from(name.len()).unwrap()];
    body.extend(name.bytes());
    body.extend([0xe2, 0x01, 0x01, b'0' + u8::try_from(kind).unwrap()]);
    body.extend([0x10, if kind.is_multiple_of(2) { 3 } else { 0 }]);
    if kind.is_multiple_of(2) {
        body.extend([0x1a, 0x04, 0x0a, 0x02, 0x1a, 0x00]);
    }
    body
}

fn endpoints(name: &str, kind: u64) -> Vec<u8> {
    let mut body = vec![0x0a, 1];
    body.extend(name.bytes());
    body.extend((0..kind).flat_map(|_| [0x12, 0x00]));
    body
}

fn random_catalog(numbers: &mut Numbers, schema: &Schema) -> Catalog {
    let catalog = Catalog::new();
    if numbers.below(2) == 0 {
        catalog.extend(Lineage::new([("h", "g")]).unwrap(), "test");
    }
    let layers =
        [Layer::Base, Layer::Group("g".into()), Layer::Group("h".into()), Layer::Node("n".into())];
    let mut changes = ChangeSet::new("test");
    for layer in layers {
        for name in ["a", "b", "c"] {
            for (url, body) in [
                ("envoy.config.cluster.v3.Cluster", cluster(name, numbers.below(4))),
                (
                    "envoy.config.endpoint.v3.ClusterLoadAssignment",
                    endpoints(name, numbers.below(2)),
                ),
            ] {
                if numbers.below(3) == 0 {
                    let url = TypeUrl::new(url);
                    let made = resource_from_bytes(schema, &url, &body.into(), Wrapper::default());
                    changes.put(&layer, &url, Entry::new(made.unwrap(), Origin::program("test")));
                }
            }
        }
    }
    catalog.commit(changes);
    catalog
}

/// The changes of each audience by itself.
fn alone(
    sides: &[DirectorySide<'_>; 2],
    shown: &BTreeSet<Audience>,
) -> BTreeMap<Told, Vec<Audience>> {
    let mut all = BTreeMap::<Told, Vec<Audience>>::new();
    for audience in shown {
        let here = sides.each_ref().map(|side| side.audience(audience));
        let seen = [0, 1].map(|at| sides[at].snapshot(&here[at]));
        let mut keys = BTreeSet::new();
        for snapshot in seen.iter().flatten() {
            for type_url in snapshot.types() {
                let of_type = snapshot.set(type_url).iter();
                keys.extend(
                    of_type.map(|it| Key { type_url: type_url.clone(), name: it.name().clone() }),
                );
            }
        }
        for key in keys {
            let [before, after] = seen.each_ref().map(|it| find(it.as_deref(), &key));
            if !is_same(before.as_deref(), after.as_deref()) {
                let [before, after] =
                    [before, after].map(|it| it.map(|it| it.version().to_string()));
                all.entry((key, before, after)).or_default().push(audience.clone());
            }
        }
    }
    all
}

#[test]
fn what_is_inherited_is_what_each_audience_sees() {
    let (schema, config) = (Schema::bundled(), Config::default());
    let mut told = 0;
    for seed in 0..400 {
        let mut numbers = Numbers(seed);
        let catalogs = [(); 2].map(|()| random_catalog(&mut numbers, &schema));
        let sides = catalogs.each_ref().map(|catalog| DirectorySide {
            catalog,
            config: &config,
            grouping: Grouping::new(&config),
        });
        let shown: BTreeSet<_> = sides.iter().flat_map(DirectorySide::audiences).collect();
        let mut found = BTreeMap::<Told, Vec<Audience>>::new();
        for (viewers, changes) in Inheritance::of(&sides, &shown).seen().by_viewers() {
            for change in changes {
                let [before, after] =
                    [change.before, change.after].map(|it| it.map(|it| it.version().to_string()));
                let twice = found.insert((change.key, before, after), viewers.clone());
                assert!(twice.is_none(), "seed {seed}: a change is told twice");
            }
        }
        told += found.len();
        assert_eq!(found, alone(&sides, &shown), "seed {seed}");
    }
    assert!(told > 2000, "{told} changes are too few to prove anything");
}
