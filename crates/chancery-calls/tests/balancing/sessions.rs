//! Sessions: a call goes to the endpoint that it has a session with, as long as that works (C-106, C-109).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chancery_calls::balancing::{
    AssignedLocality, Assignment, CallEnd, CallObserver, Cluster, ClusterTarget, Connectivity,
    Detection, DetectionTarget, DropCategory, Endpoint, FailurePercentage, Health, InFlight,
    LoadSink, OutlierDetection, Percent, Pick, PolicyConfig, Priority, PriorityNames,
    SessionEndpoints, SessionHealth,
};
use chancery_core::Locality;

use crate::support::{Play, address, end, in_locality};

const MINUTE: Duration = Duration::from_secs(60);
const ALL: [Health; 3] = [Health::Unknown, Health::Healthy, Health::Draining];

/// A cluster of these priorities with sessions. The health of an endpoint precedes it: `d:` is DRAINING, `h:` HEALTHY.
fn cluster(priorities: &[&str], health: impl IntoIterator<Item = Health>) -> ClusterTarget {
    let of = |(priority, text): (u32, &&str)| {
        let endpoints = text.split_whitespace().map(|word| endpoint(word, priority));
        let endpoints: Vec<_> = endpoints.collect();
        let locality = Arc::clone(&endpoints.first().expect("an endpoint").locality);
        AssignedLocality { locality, priority, endpoints: endpoints.into() }
    };
    let assignment = Assignment { localities: (0..).zip(priorities).map(of).collect() };
    let policy = PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin));
    ClusterTarget {
        name: "x".into(),
        priorities: assignment.priorities(&policy, None, &mut PriorityNames::default()),
        problem: None,
        drops: Arc::default(),
        in_flight: Arc::default(),
        max_requests: 1024,
        load: None,
        sessions: Some(SessionEndpoints {
            endpoints: assignment.of_sessions(health.into_iter().collect()),
            idle_timeout: 60 * MINUTE,
        }),
    }
}

/// Each priority is a zone.
fn endpoint(word: &str, zone: u32) -> Arc<Endpoint> {
    let (health, names) = match word.split_once(':') {
        Some(("d", names)) => (Health::Draining, names),
        Some(("h", names)) => (Health::Healthy, names),
        _ => (Health::Unknown, word),
    };
    let endpoint = in_locality(&zone.to_string(), 1, names).pop().expect("one");
    Arc::new(Endpoint { health, ..(*endpoint).clone() })
}

fn play(up: &str, target: &ClusterTarget) -> Play<Cluster> {
    let mut play = Play::of(1);
    play.up(up).update_to(target);
    play
}

/// C-106: the call after the first one finds the connection of its endpoint, and goes nowhere else.
#[test]
fn a_session_stays_with_its_endpoint() {
    let mut play = play("1 2 3", &cluster(&["1 2 3"], ALL));
    assert_eq!(play.call_of_session("2"), "queue", "it is held from now on");
    for _ in 0..10 {
        assert_eq!(play.call_of_session("2"), "to 10.0.0.2:80");
    }
    assert_eq!(play.spread(30).len(), 3, "calls without a session go to all");
    // The endpoint of a call that begins a session is held at once.
    let first = play.call_of_session("");
    let last = first.strip_prefix("to 10.0.0.").and_then(|it| it.strip_suffix(":80"));
    assert_eq!(play.call_of_session(last.expect("an address")), first);
    assert!(matches!(play.pick(), Pick::To(_)) && !play.by_session);
}

/// C-106, C-109: an endpoint that is draining takes the calls of its sessions alone, on the connection that it has.
#[test]
fn a_session_goes_on_while_its_endpoint_is_draining() {
    let mut play = play("1 2", &cluster(&["1 2"], ALL));
    play.call_of_session("1");
    play.dialled();
    play.update_to(&cluster(&["d:1 2"], ALL));
    assert_eq!(play.call_of_session("1"), "to 10.0.0.1:80");
    assert_eq!(play.spread(10), [(address("2"), 10)].into());
    assert_eq!(play.dialled(), [], "it was connected all the time");
    play.update_to(&cluster(&["2"], ALL));
    assert_eq!(play.call_of_session("1"), "to 10.0.0.2:80", "it is gone");
    assert_eq!(play.ready(), [address("2")].into());
    // All of a cluster is draining: others fail, and sessions go on.
    play.update_to(&cluster(&["d:2"], ALL));
    assert_eq!(play.state(), Connectivity::TransientFailure);
    assert!(play.call().starts_with("fail: "));
    assert_eq!(play.call_of_session("2"), "to 10.0.0.2:80");
}

/// C-106: only endpoints of the health that the cluster allows keep their sessions; by default those that are
/// UNKNOWN or HEALTHY.
#[test]
fn the_health_of_endpoints_decides_about_their_sessions() {
    for (word, healths, is_kept) in [
        ("1", vec![Health::Unknown], true),
        ("1", vec![Health::Healthy, Health::Draining], false),
        ("h:1", vec![Health::Healthy], true),
        ("h:1", vec![Health::Unknown], false),
        ("d:1", vec![Health::Draining], true),
        ("d:1", vec![Health::Unknown, Health::Healthy], false),
        ("h:1", vec![], false),
    ] {
        let mut play = play("1 2 3", &cluster(&[&format!("{word} 2 3")], healths.clone()));
        play.call_of_session("1");
        let to: Vec<_> = (0..6).map(|_| play.call_of_session("1")).collect();
        let kept = to.iter().all(|it| it == "to 10.0.0.1:80");
        assert_eq!(kept, is_kept, "{word} {healths:?}: {to:?}");
    }
    let default = SessionHealth::default();
    assert_eq!(ALL.map(|it| default.allows(it)), [true, true, false]);
}

/// C-106: a call waits for the endpoint of its session while that is being connected, and goes elsewhere when it
/// cannot be.
#[test]
fn a_session_waits_for_its_endpoint_and_leaves_one_that_fails() {
    let mut play = play("1 2", &cluster(&["1 2"], ALL));
    play.call_of_session("1");
    play.silent("1").down("1");
    assert_eq!(play.call_of_session("1"), "queue", "it is idle, and connected for the call");
    assert_eq!(play.call_of_session("1"), "queue", "it is being connected");
    play.refuse("1");
    assert_eq!(play.call_of_session("1"), "to 10.0.0.2:80", "it has failed");
    assert_eq!(play.call_of_session("9"), "to 10.0.0.2:80", "nobody knows that one");
    play.up("1").pass(MINUTE);
    assert_eq!(play.call_of_session("1"), "to 10.0.0.1:80");
}

/// C-106: one endpoint may have several addresses, of which one that works is used; it is the same endpoint while it
/// has one of them.
#[test]
fn a_session_outlives_an_address_of_its_endpoint() {
    let mut play = play("1 3", &cluster(&["1+2 3"], ALL));
    assert_eq!(play.call_of_session("1 2"), "queue");
    assert_eq!(play.call_of_session("1 2"), "to 10.0.0.1:80");
    assert_eq!(play.call_of_session("2"), "to 10.0.0.1:80", "each address stands for the endpoint");
    play.up("2").update_to(&cluster(&["2 3"], ALL));
    assert_eq!(play.call_of_session("1 2"), "to 10.0.0.2:80");
}

/// C-106, C-110: a session stays with an endpoint that moves to a priority which takes no other calls.
#[test]
fn a_session_goes_on_in_another_priority() {
    let mut play = play("1 2", &cluster(&["1 2"], ALL));
    play.call_of_session("2");
    play.update_to(&cluster(&["1", "2"], ALL));
    assert_eq!(play.call_of_session("2"), "to 10.0.0.2:80");
    assert_eq!(play.spread(4), [(address("1"), 4)].into());
    // One that was never connected is so for a session.
    let mut late = self::play("1 2", &cluster(&["1", "2"], ALL));
    assert_eq!((late.ready().len(), late.call_of_session("2").as_str()), (1, "queue"));
    assert_eq!(late.call_of_session("2"), "to 10.0.0.2:80");
}

/// C-106, C-119: a session is of the cluster of an aggregate that takes the calls.
#[test]
fn a_session_is_of_one_cluster_of_an_aggregate() {
    let leaves =
        |a: &str| vec![("a".into(), cluster(&[a], ALL)), ("b".into(), cluster(&["3"], ALL))];
    let mut play = Play::<Priority<Cluster>>::of(1);
    play.up("1 2 3").update_to(&leaves("1 2"));
    play.call_of_session("2");
    assert_eq!(play.call_of_session("2"), "to 10.0.0.2:80");
    play.down("1 2").pass(MINUTE);
    assert_eq!(play.call_of_session("2"), "to 10.0.0.3:80", "the next cluster does not have it");
    play.call_of_session("3");
    play.up("1").pass(MINUTE);
    assert_eq!(play.call_of_session("3"), "to 10.0.0.1:80", "nor has the first the other");
}

/// C-106: an endpoint is connected for as long after the last call of a session as the cluster says.
#[test]
fn a_connection_is_kept_for_the_idle_timeout() {
    let draining = cluster(&["d:1 2"], ALL);
    let mut play = play("1 2", &cluster(&["1 2"], ALL));
    play.call_of_session("1");
    play.update_to(&draining);
    for _ in 0..4 {
        play.pass(40 * MINUTE);
        assert_eq!(play.call_of_session("1"), "to 10.0.0.1:80", "it is used, and kept");
    }
    // Calls without the session are no use of it.
    play.pass(40 * MINUTE).spread(4);
    assert_eq!(play.ready().len(), 2);
    play.pass(40 * MINUTE);
    assert_eq!(play.ready(), [address("2")].into());
    assert_eq!(play.tree.deadline(), None, "there is nothing to look at any more");
    assert_eq!(play.call_of_session("1"), "queue", "it is connected again for a session");
    assert_eq!(play.call_of_session("1"), "to 10.0.0.1:80");
    // A cluster without sessions keeps nothing.
    play.update_to(&ClusterTarget { sessions: None, ..draining });
    assert_eq!(play.ready(), [address("2")].into());
    assert_eq!(play.call_of_session("1"), "to 10.0.0.2:80");
}

/// C-106: an endpoint that no session uses is let go however often the cluster changes.
#[test]
fn updates_do_not_keep_a_connection() {
    let draining = cluster(&["d:1 2"], ALL);
    let mut play = play("1 2", &cluster(&["1 2"], ALL));
    play.call_of_session("1");
    for _ in 0..18 {
        play.update_to(&draining).pass(10 * MINUTE);
    }
    assert_eq!(play.ready(), [address("2")].into());
}

/// C-106: the attempt to connect an endpoint comes to its end, however short the idle timeout is: calls wait for it.
#[test]
fn an_endpoint_that_calls_wait_for_is_not_let_go() {
    let mut draining = cluster(&["d:1 2"], ALL);
    draining.sessions.as_mut().expect("sessions").idle_timeout = Duration::from_secs(5);
    let mut play = play("2", &draining);
    play.silent("1");
    for _ in 0..4 {
        assert_eq!(play.call_of_session("1"), "queue");
        play.pass(Duration::from_secs(10));
    }
    let dialled = play.dialled.iter().filter(|it| **it == address("1")).count();
    assert_eq!(dialled, 1, "it is one attempt");
    play.refuse("1");
    assert_eq!(play.call_of_session("1"), "to 10.0.0.2:80");
}

/// C-106, C-118, C-147: calls of sessions are dropped, limited and counted as others are, and one that waits for its
/// endpoint rolls no dice.
#[test]
fn sessions_are_limited_as_other_calls_are() {
    let in_flight = Arc::<InFlight>::default();
    let limited = |max_requests, drops: Arc<[DropCategory]>| {
        let target = cluster(&["d:1"], ALL);
        ClusterTarget { in_flight: Arc::clone(&in_flight), max_requests, drops, ..target }
    };
    let mut play = play("1", &limited(0, Arc::default()));
    assert_eq!(play.call_of_session("1"), "queue");
    let full = "drop: cluster `x` has 0 calls under way, which is its limit";
    assert_eq!(play.call_of_session("1"), full, "also where nothing else is ready");
    let all = [DropCategory { name: "all".into(), per_million: 1_000_000 }];
    play.update_to(&limited(1, all.into()));
    assert_eq!(play.call_of_session("1"), "drop: cluster `x` drops this part of its calls: `all`");
    play.silent("1").down("1");
    assert_eq!(play.call_of_session("1"), "queue");
    play.up("1").refuse("1").pass(MINUTE).update_to(&limited(1, Arc::default()));
    assert_eq!(play.call_of_session("1"), "to 10.0.0.1:80");
    assert_eq!(in_flight.count(), 1, "it is counted until it ends");
}

/// C-106, C-132: calls of sessions are counted for their locality, also where all of it is draining.
#[test]
fn sessions_count_for_their_locality() {
    let sink = Arc::<Sink>::default();
    let target = ClusterTarget {
        load: Some(Arc::clone(&sink) as Arc<dyn LoadSink>),
        ..cluster(&["1", "d:2"], ALL)
    };
    let mut play = play("1 2", &target);
    play.call_of_session("2");
    for name in ["1", "2", "2"] {
        play.pick_of_session(name);
        play.picked_of_session(name).started();
    }
    assert_eq!(*sink.0.lock().expect("no panic"), ["0", "1", "1"]);
}

/// Notes the zone of each call.
#[derive(Debug, Default)]
struct Sink(Arc<Mutex<Vec<String>>>);

#[derive(Debug)]
struct Zone(String, Arc<Mutex<Vec<String>>>);

impl LoadSink for Sink {
    fn locality(&self, locality: &Locality) -> Arc<dyn CallObserver> {
        Arc::new(Zone(locality.zone.clone(), Arc::clone(&self.0)))
    }

    fn dropped(&self, _: Option<&str>) {}
}

impl CallObserver for Zone {
    fn started(&self) {
        self.1.lock().expect("no panic").push(self.0.clone());
    }

    fn ended(&self, _: &CallEnd<'_>) {}
}

/// C-106, C-149: an endpoint that was taken out for its errors loses its sessions until it is let in again.
#[test]
fn a_session_leaves_an_endpoint_that_is_ejected() {
    let target = cluster(&["1 2 3 4 5"], ALL);
    let all = |percent| Percent::new(percent).expect("a percentage");
    let detection = Detection {
        failure_percentage: Some(FailurePercentage {
            threshold: all(50),
            enforcement: all(100),
            minimum_hosts: 1,
            request_volume: 1,
        }),
        max_ejection_percent: all(100),
        ..Detection::default()
    };
    let target = DetectionTarget {
        cluster: "x".into(),
        detection: Arc::new(detection),
        endpoints: target.sessions.as_ref().expect("sessions").endpoints.clone(),
        node: target,
    };
    let mut play = Play::<OutlierDetection<Cluster>>::of(1);
    play.up("1 2 3 4 5").update_to(&target);
    play.call_of_session("1");
    for _ in 0..10 {
        let picked = play.picked_of_session("1");
        picked.started();
        picked.ended(&end(false));
    }
    play.pass(Duration::from_secs(11));
    assert_eq!(play.ejections.len(), 1);
    assert_ne!(play.call_of_session("1"), "to 10.0.0.1:80");
    play.pass(10 * MINUTE);
    assert_eq!(play.call_of_session("1"), "to 10.0.0.1:80");
}

/// C-106: whoever asks where a call of a session would go changes nothing, and hears of the endpoints that are kept.
#[test]
fn the_endpoints_of_sessions_are_described() {
    let mut play = play("1 2", &cluster(&["1 2"], ALL));
    play.call_of_session("1");
    play.update_to(&cluster(&["d:1 2"], ALL));
    let text = play.tree.describe().expect("an update").to_string();
    assert!(text.ends_with("\n  sessions: READY\n    10.0.0.1:80 READY, draining"), "{text}");
}

/// C-106: sessions cost no work for each endpoint when one of them is held.
#[test]
fn endpoints_are_held_one_by_one() {
    let names: Vec<_> = (1..=250).map(|it| it.to_string()).collect();
    let mut play = play(&names.join(" "), &cluster(&[&names.join(" ")], ALL));
    for name in &names {
        assert_eq!(play.call_of_session(name), "queue");
        assert_eq!(play.call_of_session(name), format!("to 10.0.0.{name}:80"));
    }
    assert_eq!(play.open(), 500);
}
