//! The gate in a catalog: what is held, what passes, and by whom.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use chancery_catalog::{Catalog, ChangeSet, Entry, Key, Layer, Origin};
use chancery_core::{Facts, Resource, TypeUrl};

use super::*;
use crate::config::Config;

/// A catalog with a gate, and the clock of the gate.
struct Gated {
    gate: LoadGate,
    catalog: Catalog,
    seconds: Arc<AtomicU64>,
}

const CDS: &str = "envoy.config.cluster.v3.Cluster";
const EDS: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";

fn config(text: &str) -> Config {
    serde_json::from_value(serde_json::json!({
        "gate": serde_json::from_str::<serde_json::Value>(text).unwrap()
    }))
    .unwrap()
}

fn put(changes: &mut ChangeSet, layer: &Layer, type_name: &str, name: &str, parts: u32) {
    let facts = Facts { parts, ..Facts::default() };
    let body = Bytes::from(parts.to_string());
    let resource = Resource::new(name.parse().unwrap(), body).with_facts(facts);
    changes.put(layer, &TypeUrl::new(type_name), Entry::new(resource, Origin::program("test")));
}

impl Gated {
    fn new(settings: &str) -> Self {
        let seconds = Arc::new(AtomicU64::new(0));
        let clock = Arc::clone(&seconds);
        let clock = move || Duration::from_secs(clock.load(Ordering::Relaxed));
        let gate = LoadGate::with_clock(&config(settings), Schema::bundled(), clock);
        Self { catalog: Catalog::gated(gate.clone()), gate, seconds }
    }

    fn change(&self, edit: impl FnOnce(&mut ChangeSet)) {
        let mut changes = ChangeSet::new("test");
        edit(&mut changes);
        self.catalog.commit(changes);
    }

    /// Makes `c-0`, `c-1` … the clusters of a layer, so many of them.
    fn clusters(&self, layer: &Layer, number: u64) {
        self.change(|changes| {
            let type_url = TypeUrl::new(CDS);
            let old = self.catalog.content(layer);
            let old = old.iter().flat_map(|content| content.iter().map(|(key, _)| key.clone()));
            old.for_each(|key: Key| changes.remove(layer, key));
            assert_eq!(type_url.short(), "cds");
            (0..number).for_each(|it| put(changes, layer, CDS, &format!("c-{it}"), 0));
        });
    }

    fn set(&self, name: &str, endpoints: u32) {
        self.change(|changes| put(changes, &Layer::Base, EDS, name, endpoints));
    }

    fn wait(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    fn seen(&self, group: Option<&str>) -> usize {
        self.catalog.snapshot(group, None).unwrap().set(&TypeUrl::new(CDS)).len()
    }

    fn held(&self) -> Vec<String> {
        let held = self.gate.held();
        assert_eq!(
            held.iter().map(|held| held.audience.clone()).collect::<Vec<_>>(),
            self.catalog.held_audiences()
        );
        held.iter().map(|held| format!("{}: {}", held.audience, held.why())).collect()
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.gate.take_news().events.into_iter().map(|(outcome, _)| outcome).collect()
    }

    /// Confirms what is held back, as somebody who has just read it.
    fn confirm(&self, whom: &Selection) {
        let held = self.gate.held();
        let selected = held.iter().filter(|held| whom.has(&held.audience));
        let token = Token::of_all(selected).to_string();
        let confirmed = self.gate.confirm(whom, &token).unwrap();
        self.catalog.judge_again("test");
        self.gate.end_confirmation();
        assert!(self.gate.still_held(&confirmed, |_| false).is_empty());
    }
}

fn edge() -> Layer {
    Layer::Group("edge".into())
}

#[test]
fn a_large_cut_is_held_until_it_is_confirmed() {
    let gated = Gated::new("{}");
    gated.clusters(&Layer::Base, 30);
    gated.clusters(&Layer::Base, 10);
    assert_eq!(
        gated.held(),
        ["nodes without an overlay: 10 of 30 clusters left (lost from program `test`)"]
    );
    assert_eq!(gated.seen(None), 30);
    assert_eq!(gated.outcomes(), [Outcome::HeldBack]);
    gated.confirm(&Selection::All);
    assert_eq!((gated.held().len(), gated.seen(None)), (0, 10));
    assert_eq!(gated.outcomes(), [Outcome::Confirmed]);
    gated.clusters(&Layer::Base, 9);
    assert_eq!(gated.seen(None), 9, "the loss that was confirmed does not count again");
}

#[test]
fn a_cut_in_steps_is_a_cut_and_time_does_not_let_it_pass() {
    let gated = Gated::new("{}");
    for number in [100, 70, 49] {
        gated.wait(60);
        gated.clusters(&Layer::Base, number);
    }
    assert_eq!(
        gated.held(),
        ["nodes without an overlay: 49 of 100 clusters left (lost from program `test`)"]
    );
    gated.wait(6000);
    gated.clusters(&Layer::Base, 48);
    assert_eq!(
        gated.held(),
        ["nodes without an overlay: 48 of 100 clusters left (lost from program `test`)"]
    );
    assert_eq!(gated.outcomes(), [Outcome::HeldBack, Outcome::Waits]);
    gated.clusters(&Layer::Base, 60);
    assert_eq!((gated.held().len(), gated.seen(None)), (0, 60));
    assert_eq!(gated.outcomes(), [Outcome::Mended]);
}

#[test]
fn what_is_taken_back_is_held_no_more() {
    let gated = Gated::new("{}");
    gated.clusters(&Layer::Base, 30);
    gated.clusters(&Layer::Base, 10);
    gated.clusters(&Layer::Base, 30);
    assert_eq!(gated.held(), [""; 0]);
    assert_eq!(gated.outcomes(), [Outcome::HeldBack, Outcome::Mended]);
}

#[test]
fn nobody_confirms_what_they_have_not_read() {
    let gated = Gated::new("{}");
    gated.clusters(&Layer::Base, 30);
    assert_eq!(gated.gate.confirm(&Selection::All, "0"), Err(NotConfirmed::Nothing));
    gated.clusters(&Layer::Base, 10);
    let read = Token::of_all(&gated.gate.held()).to_string();
    gated.clusters(&Layer::Base, 5);
    let refused = gated.gate.confirm(&Selection::All, &read).unwrap_err();
    assert!(matches!(refused, NotConfirmed::Changed(_)), "{refused}");
    // And what changes after the confirmation is not confirmed with it.
    let read = Token::of_all(&gated.gate.held()).to_string();
    let confirmed = gated.gate.confirm(&Selection::All, &read).unwrap();
    gated.clusters(&Layer::Base, 4);
    gated.gate.end_confirmation();
    assert_eq!(gated.gate.still_held(&confirmed, |_| false).len(), 1);
    assert_eq!(gated.seen(None), 30);
}

#[test]
fn a_group_is_confirmed_alone() {
    let gated = Gated::new("{}");
    gated.change(|changes| changes.add_layer(&edge()));
    gated.clusters(&Layer::Base, 30);
    gated.clusters(&Layer::Base, 10);
    assert_eq!(gated.held().len(), 2);
    gated.confirm(&Selection::Groups(vec!["edge".to_owned()]));
    assert_eq!((gated.seen(Some("edge")), gated.seen(None)), (10, 30));
    assert_eq!(
        gated.gate.confirm(&Selection::Groups(vec!["edge".to_owned()]), ""),
        Err(NotConfirmed::Nothing)
    );
}

#[test]
fn a_group_that_nodes_use_does_not_go() {
    let gated = Gated::new("{}");
    let used = Arc::new(AtomicBool::new(true));
    let is_used = Arc::clone(&used);
    gated.gate.ask_for_users(move || {
        let edge = Audience::of(Some("edge".into()), None);
        Users::new(is_used.load(Ordering::Relaxed).then_some(edge), true)
    });
    let other = Layer::Group("other".into());
    gated.clusters(&Layer::Base, 1);
    for layer in [edge(), other.clone()] {
        gated.change(|changes| put(changes, &layer, CDS, "own", 0));
    }
    gated.change(|changes| {
        changes.remove_layer(&edge());
        changes.remove_layer(&other);
    });
    assert_eq!(
        gated.held(),
        ["group `edge`: the directory of group `edge` is gone, and nodes use it"]
    );
    assert_eq!((gated.seen(Some("edge")), gated.seen(Some("other"))), (2, 1));
    // Its nodes are away for a moment.
    used.store(false, Ordering::Relaxed);
    gated.clusters(&Layer::Base, 2);
    assert_eq!(gated.held().len(), 1);
    gated.confirm(&Selection::All);
    assert_eq!(gated.seen(Some("edge")), 2);
}

#[test]
fn an_endpoint_set_scales_to_zero_only_where_that_is_said() {
    let gated = Gated::new(r#"{"may-be-empty": ["batch-*"]}"#);
    for (name, endpoints) in [("web", 3), ("batch-1", 100), ("rest", 30)] {
        gated.set(name, endpoints);
    }
    gated.set("batch-1", 0);
    assert_eq!(gated.held(), [""; 0]);
    gated.set("rest", 20);
    assert_eq!(gated.held(), [""; 0], "what was forgiven does not count later");
    gated.set("web", 0);
    assert_eq!(
        gated.held(),
        ["nodes without an overlay: no endpoints left in 1 endpoint set: `web` (program `test`)"]
    );
}

#[test]
fn the_same_content_passes_after_the_time_that_was_chosen() {
    let gated = Gated::new(r#"{"pass-after": "5m"}"#);
    gated.clusters(&Layer::Base, 30);
    gated.clusters(&Layer::Base, 10);
    gated.wait(200);
    gated.clusters(&Layer::Base, 5);
    gated.wait(200);
    assert!(!gated.gate.is_due(), "other content begins anew");
    assert!(gated.catalog.judge_again("test").is_none());
    gated.wait(100);
    assert!(gated.gate.is_due());
    gated.catalog.judge_again("test");
    assert_eq!((gated.held().len(), gated.seen(None)), (0, 5));
    assert_eq!(gated.outcomes(), [Outcome::HeldBack, Outcome::Waits, Outcome::TimeIsOver]);
}

#[test]
fn another_mode_lets_what_is_held_pass() {
    for (mode, outcome) in [("warn", vec![Outcome::Warned]), ("off", vec![Outcome::Mended])] {
        let gated = Gated::new("{}");
        gated.clusters(&Layer::Base, 30);
        gated.clusters(&Layer::Base, 10);
        gated.outcomes();
        assert!(gated.gate.configure(&config(&format!(r#"{{"loss": "{mode}"}}"#))));
        gated.catalog.judge_again("test");
        assert_eq!((gated.held().len(), gated.seen(None)), (0, 10));
        assert_eq!(gated.outcomes(), outcome);
        gated.clusters(&Layer::Base, 9);
        assert_eq!(gated.outcomes(), [], "each loss is warned of once");
    }
}

#[test]
fn many_audiences_make_a_bounded_number_of_events() {
    let gated = Gated::new("{}");
    gated.change(|changes| {
        (0..1100).for_each(|it| changes.add_layer(&Layer::Group(format!("g-{it}").into())));
    });
    gated.clusters(&Layer::Base, 30);
    gated.clusters(&Layer::Base, 1);
    let news = gated.gate.take_news();
    assert_eq!((news.events.len(), news.more), (1000, 101));
    assert_eq!(gated.gate.held().len(), 1101);
}

#[test]
fn it_only_warns_for_the_time_after_the_first_start_that_is_set() {
    let gated = Gated::new(r#"{"warn-for": "1h"}"#);
    gated.gate.begun_at(SystemTime::now() - Duration::from_secs(600));
    assert_eq!(gated.gate.due(LayerChecks::default()).shared.rules, RuleCheck::Warn);
    gated.clusters(&Layer::Base, 100);
    gated.clusters(&Layer::Base, 30);
    assert_eq!((gated.outcomes(), gated.seen(None)), (vec![Outcome::Warned], 30));
    gated.wait(3601);
    assert_eq!(
        (gated.gate.warns_for(), gated.gate.due(LayerChecks::default()).shared.rules),
        (None, RuleCheck::Fault)
    );
    gated.clusters(&Layer::Base, 10);
    assert_eq!((gated.outcomes(), gated.seen(None)), (vec![Outcome::HeldBack], 30));
}

/// Another gate and catalog that begin with what these have, as after a restart.
fn restarted(gated: &Gated) -> Gated {
    let used = [KeptAudience::from(&Audience::of(Some("edge".into()), None))];
    let memory = serde_json::to_value(gated.gate.memory(used.into())).unwrap();
    let again = Gated::new("{}");
    again.wait(1_000_000);
    again.gate.remember(&serde_json::from_value(memory).unwrap());
    assert!(again.catalog.restore(&gated.catalog.memory()));
    again.catalog.judge_again("test");
    again
}

#[test]
fn three_cuts_of_a_third_do_not_slip_through_a_restart_either() {
    let gated = Gated::new("{}");
    gated.wait(1_000_000);
    gated.clusters(&Layer::Base, 100);
    gated.clusters(&Layer::Base, 70);
    let again = restarted(&gated);
    again.clusters(&Layer::Base, 49);
    assert_eq!(
        again.held(),
        ["nodes without an overlay: 49 of 100 clusters left (lost from program `test`)"]
    );
    // It stays held for these reasons, whatever the window says by then.
    let held = again.gate.held();
    let later = restarted(&again);
    assert_eq!(later.outcomes(), [Outcome::HeldBack]);
    let row = |held: &Held| held.row();
    let rows: Vec<_> = later.gate.held().iter().map(row).collect();
    assert_eq!(rows, held.iter().map(row).collect::<Vec<_>>());
    assert_eq!(later.seen(None), 70);
    later.confirm(&Selection::All);
    assert_eq!((restarted(&later).held(), later.seen(None)), (vec![], 49));
}

#[test]
fn a_group_that_had_nodes_before_a_restart_is_not_removed_by_the_first_load() {
    let gated = Gated::new("{}");
    gated.clusters(&edge(), 3);
    gated.clusters(&Layer::Group("back".into()), 3);
    let again = restarted(&gated);
    again.change(|changes| {
        changes.remove_layer(&edge());
        changes.remove_layer(&Layer::Group("back".into()));
    });
    assert_eq!(
        again.held(),
        [
            "group `edge`: the directory of group `edge` is gone, and nodes use it; 0 of 3 resources \
             of type `cds` left (lost from program `test`)"
        ]
    );
}
