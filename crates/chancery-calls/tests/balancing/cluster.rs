//! Clusters: drops, circuit breaking, load, aggregates and the names of priorities (C-109 to C-111,
//! C-118, C-119, C-132, C-147).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chancery_calls::balancing::{
    AssignedLocality, Assignment, CallEnd, CallObserver, Cluster, ClusterTarget, DropCategory,
    InFlight, LoadSink, Pick, PolicyConfig, Priority, PriorityNames,
};
use chancery_core::Locality;

use crate::support::{Play, address, end, in_locality};

fn policy() -> PolicyConfig {
    PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin))
}

/// Returns an assignment of localities with a priority, a zone, a weight and endpoints.
fn assignment(localities: &[(u32, &str, u32, &str)]) -> Assignment {
    let localities = localities.iter().map(|(priority, zone, weight, text)| {
        let endpoints = in_locality(zone, *weight, text);
        let locality = Arc::clone(&endpoints.first().expect("an endpoint").locality);
        AssignedLocality { locality, priority: *priority, endpoints: endpoints.into() }
    });
    Assignment { localities: localities.collect() }
}

fn target(name: &str, assignment: &Assignment) -> ClusterTarget {
    ClusterTarget {
        name: name.into(),
        priorities: assignment.priorities(&policy(), None, &mut PriorityNames::default()),
        problem: None,
        drops: Arc::default(),
        in_flight: Arc::default(),
        max_requests: 1024,
        load: None,
        sessions: None,
    }
}

#[derive(Debug, Default)]
struct Counts {
    started: AtomicUsize,
    succeeded: AtomicUsize,
    drops: Mutex<Vec<Option<String>>>,
}

#[derive(Debug, Default)]
struct Sink(Arc<Counts>);

impl CallObserver for Counts {
    fn started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self, end: &CallEnd<'_>) {
        self.succeeded.fetch_add(usize::from(end.succeeded), Ordering::Relaxed);
    }
}

impl LoadSink for Sink {
    fn locality(&self, _: &Locality) -> Arc<dyn CallObserver> {
        Arc::clone(&self.0) as Arc<dyn CallObserver>
    }

    fn dropped(&self, category: Option<&str>) {
        self.0.drops.lock().expect("no panic").push(category.map(str::to_owned));
    }
}

/// C-110, C-111: priorities and localities of one assignment.
#[test]
fn an_assignment_is_priorities_of_localities() {
    let mut play = Play::<Cluster>::of(1);
    let all = assignment(&[(1, "c", 1, "4"), (0, "a", 3, "1"), (0, "b", 1, "2 3")]);
    play.up("1 2 3 4").update_to(&target("x", &all));
    let spread = play.spread(4_000);
    assert!((2_863..3_137).contains(&spread[&address("1")]), "{spread:?}");
    assert!(!spread.contains_key(&address("4")));
    play.down("1 2 3");
    assert_eq!(play.spread(10), [(address("4"), 10)].into());
}

/// C-110: a locality that moves to a better priority keeps its name, and with it its connections.
#[test]
fn a_priority_has_the_name_of_a_locality_that_it_had_before() {
    let zone = |zone: &str| Locality { zone: zone.to_owned(), ..Locality::default() };
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(zone);
    let mut names = PriorityNames::default();
    let mut assign = |priorities: &[&[&Locality]]| {
        let sets = priorities.iter().map(|all| all.iter().copied().collect::<BTreeSet<_>>());
        names.assign(&sets.collect::<Vec<_>>()).join(" ")
    };
    assert_eq!(assign(&[&[&a, &b], &[&c, &d]]), "priority-1 priority-2");
    assert_eq!(assign(&[&[&c], &[&d, &e]]), "priority-2 priority-3", "the example of A115");
    assert_eq!(assign(&[&[&a, &b], &[&c, &d]]), "priority-4 priority-2");
    assert_eq!(assign(&[&[&c], &[&a, &d]]), "priority-2 priority-4");
}

/// C-118: each category has its own chance. The bound is five standard deviations.
#[test]
fn a_part_of_the_calls_is_dropped_and_counted() {
    let sink = Arc::new(Sink::default());
    let drops = [("throttle", 250_000), ("test", 500_000)];
    let drops = drops.map(|(name, per_million)| DropCategory { name: name.into(), per_million });
    let mut play = Play::<Cluster>::of(1);
    play.up("1").update_to(&ClusterTarget {
        drops: drops.into(),
        load: Some(Arc::clone(&sink) as Arc<dyn LoadSink>),
        ..target("x", &assignment(&[(0, "a", 1, "1")]))
    });
    for _ in 0..10_000 {
        if let Pick::To(picked) = play.pick() {
            picked.started();
            picked.ended(&end(true));
        }
    }
    let counts = &sink.0;
    let drops = counts.drops.lock().expect("no panic");
    let of = |name: &str| drops.iter().filter(|it| it.as_deref() == Some(name)).count();
    assert!((2_284..2_716).contains(&of("throttle")), "{}", of("throttle"));
    // A half of what the first category left.
    assert!((3_508..3_992).contains(&of("test")), "{}", of("test"));
    let sent = counts.started.load(Ordering::Relaxed);
    assert_eq!(sent + of("throttle") + of("test"), 10_000);
    assert_eq!(counts.succeeded.load(Ordering::Relaxed), sent);
}

/// C-147: two channels of a process share the limit; a call holds its permit until it ends; a drop
/// by it has no category; a limit may change.
#[test]
fn calls_beyond_the_limit_are_dropped() {
    let in_flight = Arc::<InFlight>::default();
    let sink = Arc::new(Sink::default());
    let limited = |max_requests| ClusterTarget {
        in_flight: Arc::clone(&in_flight),
        max_requests,
        load: Some(Arc::clone(&sink) as Arc<dyn LoadSink>),
        ..target("x", &assignment(&[(0, "a", 1, "1")]))
    };
    let (mut one, mut other) = (Play::<Cluster>::of(1), Play::<Cluster>::of(2));
    one.up("1").update_to(&limited(3));
    other.up("1").update_to(&limited(3));
    assert_eq!(one.long_call(), "to 10.0.0.1:80");
    assert_eq!(one.long_call(), "to 10.0.0.1:80");
    assert_eq!(other.long_call(), "to 10.0.0.1:80");
    let refused = "drop: cluster `x` has 3 calls under way, which is its limit";
    assert_eq!((one.long_call().as_str(), other.call().as_str()), (refused, refused));
    assert_eq!(*sink.0.drops.lock().expect("no panic"), [None, None]);
    one.permits.pop();
    assert_eq!(in_flight.count(), 2);
    assert_eq!(other.call(), "to 10.0.0.1:80");
    other.update_to(&limited(2));
    assert!(other.call().starts_with("drop: "));
    other.update_to(&limited(4));
    assert_eq!(other.call(), "to 10.0.0.1:80");
    other.down("1");
    assert!(other.call().starts_with("fail: "), "a call that goes nowhere holds nothing");
    drop((one, other));
    assert_eq!(in_flight.count(), 0);
}

/// C-119: the clusters of an aggregate are used in order, each with its own policy; one without
/// endpoints says why.
#[test]
fn an_aggregate_goes_on_to_the_next_cluster() {
    let mut play = Play::<Priority<Cluster>>::of(1);
    let missing = ClusterTarget {
        problem: Some("no such resource".into()),
        ..target("a", &Assignment::default())
    };
    let b = target("b", &assignment(&[(0, "a", 1, "1"), (1, "b", 1, "2")]));
    let c = target("c", &assignment(&[(0, "a", 1, "3")]));
    let all = vec![("a".into(), missing.clone()), ("b".into(), b), ("c".into(), c)];
    play.up("1 2 3").update_to(&all);
    assert_eq!(play.spread(10), [(address("1"), 10)].into());
    play.down("1");
    assert_eq!(play.spread(10), [(address("2"), 10)].into(), "first its other priorities");
    play.down("2");
    assert_eq!(play.spread(10), [(address("3"), 10)].into());
    play.update_to(&vec![("a".into(), missing)]);
    assert_eq!(play.call(), "fail: cluster `a`: no such resource");
}
