//! The reads of a set, and that they are the same in every form.

use std::time::Duration;

use bytes::Bytes;
use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::{Facts, Snapshot, TypeUrl};

fn cds() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

fn resource(name: &str, body: &str) -> Resource {
    Resource::new(name.parse().unwrap(), Bytes::copy_from_slice(body.as_bytes()))
}

#[test]
fn a_resource_is_found_by_its_aliases_until_it_goes() {
    // S-091
    let mut snapshot = Snapshot::new();
    let aliased = resource("a", "1").with_aliases(vec!["also".parse().unwrap()]);
    snapshot.insert(&cds(), aliased.with_ttl(Some(Duration::from_secs(1))));
    assert!(snapshot.set(&cds()).get_aliased("also").is_some());
    snapshot.insert(&cds(), resource("a", "1"));
    assert!(snapshot.set(&cds()).get_aliased("also").is_none());
}

#[test]
fn a_host_finds_the_closest_of_the_matching_domains() {
    // S-092: split at the last slash; exact, longest suffix, longest prefix, `*`
    let host = |name: &str, hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| Box::from(*host)).collect();
        resource(name, "1").with_facts(Facts { hosts, ..Facts::default() })
    };
    let mut snapshot = Snapshot::new();
    snapshot.insert(&cds(), host("team/a/rc/exact", &["www.x.com"]));
    snapshot.insert(&cds(), host("team/a/rc/suffix", &["*.x.com", "*-b.x.com"]));
    snapshot.insert(&cds(), host("team/a/rc/short", &["*.com"]));
    snapshot.insert(&cds(), host("team/a/rc/prefix", &["www.*"]));
    snapshot.insert(&cds(), host("team/a/rc/any", &["*"]));
    snapshot.insert(&cds(), host("other/exact", &["www.y.com"]));
    let set = snapshot.set(&cds());
    let found = |asked: &str| set.get_host(asked).map(|found| found.name().to_string());
    assert_eq!(found("team/a/rc/www.x.com").unwrap(), "team/a/rc/exact");
    assert_eq!(found("team/a/rc/WWW.X.com").unwrap(), "team/a/rc/exact");
    assert_eq!(found("team/a/rc/foo.x.com").unwrap(), "team/a/rc/suffix");
    assert_eq!(found("team/a/rc/a-b.x.com").unwrap(), "team/a/rc/suffix");
    assert_eq!(found("team/a/rc/foo.com").unwrap(), "team/a/rc/short");
    assert_eq!(found("team/a/rc/www.org").unwrap(), "team/a/rc/prefix");
    assert_eq!(found("team/a/rc/z.org").unwrap(), "team/a/rc/any");
    assert_eq!(found("other/z.org"), None);
    assert_eq!(found("nowhere/www.x.com"), None);
}

#[test]
fn the_members_of_a_glob_are_its_own() {
    // S-117
    let names = ["edge/a", "edge/b", "edge/deep/c", "edgy/d", "edge/e?x=1"];
    let mut snapshot = Snapshot::new();
    for name in names {
        snapshot.insert(&cds(), resource(&format!("xdstp://auth/T/{name}"), "1"));
    }
    let glob: ResourceName = "xdstp://auth/T/edge/*".parse().unwrap();
    let members: Vec<_> =
        snapshot.set(&cds()).members(&glob).map(|member| member.name().to_string()).collect();
    assert_eq!(members, ["xdstp://auth/T/edge/a", "xdstp://auth/T/edge/b"]);
    assert_eq!(snapshot.set(&cds()).members(&"a".parse().unwrap()).count(), 0);
}

#[test]
fn many_globs_have_the_members_of_each() {
    // S-115, S-117
    let mut snapshot = Snapshot::new();
    for name in ["a", "b?k=1", "deep/c?k=1", "deep/d?k=2", "*?k=3", "deep/er/e"] {
        snapshot.insert(&cds(), resource(&format!("xdstp://auth/T/{name}"), "1"));
    }
    snapshot.insert(&cds(), resource("plain", "1"));
    let set = snapshot.set(&cds());
    let globs = ["*", "*?k=1", "*?k=3", "*?k=4", "deep/*?k=1", "deep/*?k=2", "deep/*", "other/*"];
    let globs = globs.map(|glob| format!("xdstp://auth/T/{glob}").parse::<ResourceName>().unwrap());
    for some in 0..1 << globs.len() {
        let some = || globs.iter().enumerate().filter(move |(at, _)| some >> at & 1 == 1);
        let some = || some().map(|(_, glob)| glob);
        let by_name = |mut all: Vec<_>| {
            all.sort_by_key(|member: &&Arc<Resource>| member.name());
            all
        };
        let of_each = some().flat_map(|glob| set.members(glob)).collect();
        assert_eq!(by_name(set.members_of_any(some())), by_name(of_each));
        let inhabited = some().filter(|glob| set.members(glob).next().is_some());
        assert_eq!(set.inhabited(some()), inhabited.collect());
    }
    for member in set.iter() {
        for glob in &globs {
            let is_member = set.members(glob).any(|found| found == member);
            assert_eq!(is_member, member.name().collection().as_ref() == Some(glob), "{member:?}");
        }
    }
}

#[test]
fn no_host_is_longer_than_a_name_in_the_domain_name_system() {
    // S-092: at the limit, and one past it
    let mut snapshot = Snapshot::new();
    let facts = Facts { hosts: vec!["*".into(), "a*".into()], ..Facts::default() };
    snapshot.insert(&cds(), resource("rc/any", "1").with_facts(facts));
    let set = snapshot.set(&cds());
    for (length, is_found) in [(1, true), (255, true), (256, false)] {
        assert_eq!(set.get_host(&format!("rc/{}", "h".repeat(length))).is_some(), is_found);
        assert_eq!(set.get_host(&format!("rc/{}", "a".repeat(length))).is_some(), is_found);
    }
    assert!(set.get_host("rc/").is_some(), "the name of a host can be missing");
}

#[test]
fn a_resource_that_is_said_again_changes_nothing() {
    let mut snapshot = Snapshot::new();
    (0..20).for_each(|at| snapshot.insert(&cds(), resource(&at.to_string(), "1")));
    snapshot.set_version(&cds(), "stated");
    let below = snapshot.clone();
    snapshot.insert(&cds(), resource("7", "2"));
    snapshot.set_version(&cds(), "stated too");
    snapshot.written_over(&below);
    for (before, body) in [(&below, "1"), (&snapshot, "2")] {
        let mut again = before.clone();
        again.insert(&cds(), resource("7", body));
        again.remove(&cds(), &"99".parse().unwrap());
        assert!(Arc::ptr_eq(again.set(&cds()), before.set(&cds())));
    }
    assert!(snapshot.set(&cds()).below().is_some(), "it is written over another still");
}

#[test]
fn a_resource_with_another_ttl_alias_or_fact_is_another() {
    let stated = || resource("a", "1").with_version("1");
    let sensitive = Facts { sensitive: true, ..Facts::default() };
    let others = [
        stated().with_ttl(Some(Duration::from_secs(1))),
        stated().with_aliases(vec!["b".parse().unwrap()]),
        stated().with_facts(sensitive),
    ];
    for other in others {
        let mut snapshot = Snapshot::new();
        snapshot.insert(&cds(), stated());
        let before = Arc::clone(snapshot.set(&cds()));
        snapshot.insert(&cds(), other.clone());
        let set = snapshot.set(&cds());
        assert_eq!(set.diff(&before).count(), 1);
        assert_eq!(set.may_be_sensitive(), other.facts().sensitive);
        assert_eq!(set.timed().count(), usize::from(other.ttl().is_some()));
        assert_eq!(set.get_aliased("b").is_some(), !other.aliases().is_empty());
    }
}

#[test]
fn the_least_of_the_names_that_state_an_alias_has_it() {
    // S-091: also when it comes last, and in a set that is written over another
    let aliased = |name: &str| resource(name, "1").with_aliases(vec!["also".parse().unwrap()]);
    let mut snapshot = Snapshot::new();
    (10..40).for_each(|at| snapshot.insert(&cds(), resource(&at.to_string(), "1")));
    let found = |snapshot: &Snapshot| {
        let found = snapshot.set(&cds()).get_aliased("also");
        found.map(|found| found.name().to_string()).unwrap_or_default()
    };
    ["d", "b", "c"].iter().for_each(|name| snapshot.insert(&cds(), aliased(name)));
    assert_eq!(found(&snapshot), "b");
    let below = snapshot.clone();
    let over = |edit: &dyn Fn(&mut Snapshot)| {
        let mut over = below.clone();
        edit(&mut over);
        over.written_over(&below);
        assert!(over.set(&cds()).below().is_some());
        found(&over)
    };
    assert_eq!(over(&|it| it.insert(&cds(), aliased("a"))), "a");
    assert_eq!(over(&|it| it.insert(&cds(), aliased("bb"))), "b");
    assert_eq!(over(&|it| it.remove(&cds(), &"b".parse().unwrap())), "c");
    assert_eq!(over(&|it| it.insert(&cds(), resource("b", "no alias"))), "c");
    for (gone, next) in [("b", "c"), ("d", "c"), ("c", "")] {
        snapshot.remove(&cds(), &gone.parse().unwrap());
        assert_eq!(found(&snapshot), next);
    }
}

#[test]
fn an_edit_in_place_forgets_what_was_worked_out() {
    let with_host = |name: &str, host: &str| {
        let facts = Facts { hosts: vec![host.into()], ..Facts::default() };
        resource(name, "1").with_facts(facts)
    };
    let mut snapshot = Snapshot::new();
    snapshot.insert(&cds(), with_host("rc/one", "*.a"));
    let version = snapshot.set(&cds()).version_text();
    assert!(snapshot.set(&cds()).get_host("rc/x.bc").is_none());
    snapshot.insert(&cds(), with_host("rc/other", "*.bc"));
    assert!(snapshot.set(&cds()).get_host("rc/x.bc").is_some());
    assert_ne!(snapshot.set(&cds()).version_text(), version);
}

/// The edit of one name: a resource with a body, an alias, a host, a TTL and a secret, or nothing.
type Edit = (usize, Option<(u8, Option<usize>, bool, bool)>);

const NAMES: [&str; 24] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "i",
    "j",
    "k",
    "l",
    "rc/m",
    "rc/n",
    "rc/o",
    "rc/p",
    "q",
    "r",
    "s",
    "t",
    "u",
    "xdstp://x/T/v/w",
    "xdstp://x/T/v/x",
    "xdstp://x/T/v/y",
];

fn edits(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Edit>> {
    let parts = (0..3_u8, option::of(0..NAMES.len()), any::<bool>(), any::<bool>());
    let edits = btree_map(0..NAMES.len(), option::weighted(0.7, parts), count);
    edits.prop_map(|edits| edits.into_iter().collect::<Vec<_>>()).prop_shuffle()
}

fn edit(snapshot: &mut Snapshot, edits: &[Edit]) {
    for (at, edit) in edits {
        let Some((body, alias, expires, sensitive)) = edit else {
            snapshot.remove(&cds(), &NAMES[*at].parse().unwrap());
            continue;
        };
        let aliases = alias.iter().map(|at| format!("also/{at}").parse().unwrap()).collect();
        let hosts = |at: &usize| {
            let o = "o".repeat(*at);
            [format!("{at}.com"), format!("*{o}.org"), format!("{o}*")].map(Box::from)
        };
        let hosts = alias.iter().flat_map(hosts).collect();
        let ttl = expires.then(|| Duration::from_secs(u64::from(*body) + 1));
        let made = resource(NAMES[*at], &body.to_string()).with_aliases(aliases).with_ttl(ttl);
        let parts = u32::from(*body);
        let facts = Facts { hosts, sensitive: *sensitive, parts, ..Facts::default() };
        snapshot.insert(&cds(), made.with_facts(facts));
    }
}

fn edited(snapshot: &Snapshot, edits: &[Edit]) -> Snapshot {
    let mut edited = snapshot.clone();
    edit(&mut edited, edits);
    edited
}

fn over(plain: &Snapshot, below: &Snapshot) -> Snapshot {
    let mut over = plain.clone();
    over.written_over(below);
    over
}

/// All that can be read of a set.
fn everything(set: &ResourceSet) -> String {
    use std::fmt::Write;
    let sums = (set.version(), set.parts());
    assert_eq!(sums.1, set.iter().map(|it| u64::from(it.facts().parts)).sum());
    let mut text = format!("{sums:?} {} {}\n", set.len(), set.is_empty());
    let mut timed: Vec<_> = set.timed().map(|it| it.name().to_string()).collect();
    timed.sort();
    let glob = "xdstp://x/T/v/*".parse().unwrap();
    let hosts: Vec<_> = set.with_prefix("rc/").collect();
    let secrets: Vec<_> = set.iter().filter(|it| it.facts().sensitive).collect();
    writeln!(text, "{:?}\n{secrets:?}\n{timed:?}", set.iter().collect::<Vec<_>>()).unwrap();
    writeln!(text, "{:?}\n{hosts:?}", set.members(&glob).collect::<Vec<_>>()).unwrap();
    for (at, name) in NAMES.iter().enumerate() {
        let (alias, host) = (format!("also/{at}"), format!("rc/{at}.com"));
        let [ends, begins] =
            [format!("rc/x{}.org", "o".repeat(at)), format!("rc/{}x", "o".repeat(at))];
        let hosts = [host, ends, begins].map(|host| set.get_host(&host));
        let found = [set.get(name), set.get_aliased(&alias)];
        writeln!(text, "{hosts:?}").unwrap();
        writeln!(text, "{name}: {found:?}").unwrap();
    }
    text
}

fn assert_same(one: &Snapshot, plain: &Snapshot) {
    let (one, plain) = (one.set(&cds()), plain.set(&cds()));
    assert_eq!(everything(one), everything(plain));
    assert_eq!(one.whole(), plain.whole());
    assert_eq!(one, plain);
    assert!(one.is_same(plain));
}

proptest! {
    #[test]
    fn a_set_is_the_same_in_every_form(
        first in edits(16..24),
        change in edits(0..3),
        group in edits(0..3),
        node in edits(0..3),
        other in edits(0..2),
    ) {
        let base = edited(&Snapshot::new(), &first);
        let later = edited(&base, &change);
        let layers = |base: &Snapshot, node: &[Edit]| {
            let grouped = edited(base, &group);
            let own = edited(&grouped, node);
            let over_base = over(&grouped, base);
            [grouped, over_base.clone(), own.clone(), over(&own, &over_base)]
        };
        let [grouped, over_base, own, over_group] = layers(&base, &node);
        assert_same(&over_base, &grouped);
        assert_same(&over_group, &own);
        // An edit of a set in the overlaid form.
        assert_same(&edited(&over_group, &other), &edited(&own, &other));

        let [later_grouped, later_over, later_own, later_over_group] = layers(&later, &node);
        // A name in which two snapshots agree is no change, also if both were written.
        let mut theirs = group.iter().chain(&node);
        let is_apart = !theirs.any(|edit| change.iter().any(|it| it.0 == edit.0));
        if let Some(moved) = over_base.rebased(&base, &later).filter(|_| is_apart) {
            assert_same(&moved, &later_grouped);
            if let Some(moved_twice) = over_group.rebased(&over_base, &moved) {
                assert_same(&moved_twice, &later_own);
            }
        }
        let [.., other_own, other_over] = layers(&later, &other);
        let forms = [
            (&over_base, &grouped), (&over_group, &own), (&later_over, &later_grouped),
            (&later_over_group, &later_own), (&other_over, &other_own), (&base, &base),
        ];
        for (from, plain_from) in &forms {
            for (to, plain_to) in &forms {
                let [from, plain_from] = [from, plain_from].map(|it| it.set(&cds()));
                let [to, plain_to] = [to, plain_to].map(|it| it.set(&cds()));
                let changes: Vec<_> = plain_from.diff(plain_to).collect();
                prop_assert_eq!(&from.diff(to).collect::<Vec<_>>(), &changes);
                prop_assert_eq!(&plain_from.diff(to).collect::<Vec<_>>(), &changes);
                let (step, plain_step) = (Step::between(from, to), Step::between(plain_from, plain_to));
                prop_assert_eq!(step.entries(), plain_step.entries());
                prop_assert_eq!(step.bytes(), plain_step.bytes());
            }
        }
    }
}
