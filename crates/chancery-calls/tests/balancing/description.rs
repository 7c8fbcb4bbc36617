//! Descriptions of trees, and choices that nobody hears of.

use std::sync::Arc;

use chancery_calls::SeededDice;
use chancery_calls::balancing::{
    ChildName, Cluster, ClusterTarget, Detection, DetectionTarget, DropCategory, FailurePercentage,
    OutlierDetection, Percent, Pick, PickArgs, PolicyConfig, PolicyTarget, Priority, TreePart,
    Turn,
};
use http::HeaderMap;

use crate::support::{Play, address, end, endpoints, in_locality};

fn priority(config: &PolicyConfig, text: &[(&str, u32, &str)]) -> PolicyTarget {
    let endpoints = text.iter().flat_map(|(zone, weight, text)| in_locality(zone, *weight, text));
    PolicyTarget { config: config.clone(), endpoints: endpoints.collect(), note: None }
}

fn cluster(priorities: Vec<PolicyTarget>) -> ClusterTarget {
    let named = priorities.into_iter().enumerate();
    ClusterTarget {
        name: "orders".into(),
        priorities: named.map(|(place, it)| (place.to_string().into(), it)).collect(),
        problem: None,
        drops: Arc::from([DropCategory { name: "throttle".into(), per_million: 25_000 }]),
        in_flight: Arc::default(),
        max_requests: 2,
        load: None,
        sessions: None,
    }
}

/// Asks where a call would go, often.
fn previews<N: chancery_calls::balancing::Node>(play: &mut Play<N>) -> Vec<Pick> {
    let picker = play.tree.picker().expect("there was an update");
    let (metadata, mut dice) = (HeaderMap::new(), SeededDice(7));
    let mut preview = || {
        let dice = &mut dice;
        let mut call = PickArgs {
            path: "/s/m",
            metadata: &metadata,
            hash: Some(1),
            session: None,
            dice,
            wake: None,
            permit: None,
            by_session: false,
        };
        let pick = picker.preview(&mut call);
        assert!(call.permit.is_none(), "it is no call");
        pick
    };
    (0..100).map(|_| preview()).collect()
}

/// C-110, C-111, C-118, C-147: which takes the calls, which does not, and why.
#[test]
fn a_tree_says_who_takes_calls_and_who_does_not() {
    let config = PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin));
    let first = priority(&config, &[("a", 3, "1 2")]);
    let second = priority(&config, &[("b", 1, "3*5 4"), ("c", 9, "5"), ("d", 2, "7")]);
    let third = priority(&config, &[("d", 1, "6")]);
    let mut play = Play::<Cluster>::of(1);
    play.up("3 6 7").update_to(&cluster(vec![first, second, third]));
    let text = play.tree.describe().expect("there was an update").to_string();
    assert_eq!(
        text,
        "cluster `orders` is READY, 0 of 2 calls under way, drops 2.5% of its calls for `throttle`
  priority 0 is passed over: wrr_locality, TRANSIENT_FAILURE
    locality /a, weight 3 of 3: round_robin, TRANSIENT_FAILURE
      10.0.0.1:80 TRANSIENT_FAILURE: 10.0.0.1:80 refuses
      10.0.0.2:80 TRANSIENT_FAILURE: 10.0.0.2:80 refuses
  priority 1: wrr_locality, READY
    locality /b, weight 1 of 3: round_robin, READY
      10.0.0.3:80 READY, weight 5
      10.0.0.4:80 TRANSIENT_FAILURE: 10.0.0.4:80 refuses
    locality /c, weight 9 is passed over: round_robin, TRANSIENT_FAILURE
      10.0.0.5:80 TRANSIENT_FAILURE: 10.0.0.5:80 refuses
    locality /d, weight 2 of 3: round_robin, READY
      10.0.0.7:80 READY
  priority 2: not connected, as a better one takes the calls"
    );
}

/// The way to an endpoint leads through its priority and locality.
#[test]
fn the_way_to_an_endpoint_is_found() {
    let config = PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin));
    let mut play = Play::<Cluster>::of(1);
    play.up("2").update_to(&cluster(vec![
        priority(&config, &[("a", 1, "1")]),
        priority(&config, &[("b", 4, "2")]),
    ]));
    let Some(Pick::To(picked)) = previews(&mut play).pop() else { panic!("one is ready") };
    assert_eq!((picked.address, picked.cluster.as_deref()), (address("2"), Some("orders")));
    let description = play.tree.describe().expect("there was an update");
    assert!(matches!(&description.part, TreePart::Cluster { name, .. } if **name == *"orders"));
    let way = description.way_to(&picked.endpoint).expect("it is there");
    assert!(matches!(way[0].name, ChildName::Priority { place: 1, .. }), "{way:?}");
    let ChildName::Locality(locality) = &way[1].name else { panic!("{way:?}") };
    assert_eq!((locality.to_string().as_str(), locality.weight), ("/b", 4));
    assert_eq!(description.children[0].turn, Turn::PassedOver);
    assert!(description.way_to(&endpoints("9")[0]).is_none());
}

/// C-113, C-118, C-147: whoever asks uses up no turn, drops no call and counts none.
#[test]
fn a_preview_changes_nothing() {
    let mut play = Play::<Cluster>::of(1);
    let mut target = cluster(vec![priority(&PolicyConfig::RoundRobin, &[("a", 1, "1 2")])]);
    target.drops = Arc::from([DropCategory { name: "most".into(), per_million: 999_999 }]);
    play.up("1 2").update_to(&target);
    let first = previews(&mut play);
    let Some(Pick::To(next)) = first.first() else { panic!("{first:?}") };
    let stays = |pick: &Pick| matches!(pick, Pick::To(picked) if picked.address == next.address);
    assert!(first.iter().all(stays), "the turn is the same");
    // A part that is all is no chance.
    target.drops = Arc::from([DropCategory { name: "all".into(), per_million: 1_000_000 }]);
    play.update_to(&target);
    assert!(matches!(previews(&mut play).pop(), Some(Pick::Drop(_))));
    target.drops = Arc::default();
    play.update_to(&target);
    let Some(Pick::To(next)) = previews(&mut play).pop() else { panic!("both are ready") };
    assert_eq!(play.long_call(), format!("to {}", next.address), "the preview was right");
    play.long_call();
    let full = previews(&mut play).pop();
    assert!(matches!(full, Some(Pick::Drop(_))), "two calls are under way: {full:?}");
}

/// C-149: an endpoint that outlier detection has taken out says so.
#[test]
fn an_ejected_endpoint_is_told() {
    let node = priority(&PolicyConfig::RoundRobin, &[("", 1, "1 2")]);
    let everyone = Percent::new(100).expect("a percentage");
    let failures = FailurePercentage {
        threshold: Percent::new(50).expect("one"),
        enforcement: everyone,
        minimum_hosts: 1,
        request_volume: 1,
    };
    let detection = Detection {
        failure_percentage: Some(failures),
        max_ejection_percent: Percent::new(50).expect("one"),
        ..Detection::default()
    };
    let target = DetectionTarget {
        cluster: "orders".into(),
        endpoints: Arc::clone(&node.endpoints),
        detection: Arc::new(detection.clone()),
        node,
    };
    let mut play = Play::<OutlierDetection<chancery_calls::balancing::Switch>>::of(1);
    play.up("1 2").update_to(&target);
    for _ in 0..20 {
        let Pick::To(picked) = play.pick() else { panic!("both are ready") };
        picked.started();
        picked.ended(&end(picked.address != address("1")));
    }
    play.pass(detection.interval);
    let description = play.tree.describe().expect("there was an update");
    let out: Vec<_> = description.endpoints.iter().map(|it| it.is_ejected).collect();
    assert_eq!(out, [true, false]);
    assert!(
        description.to_string().contains(
            "10.0.0.1:80 TRANSIENT_FAILURE: the endpoint is ejected by outlier detection"
        ),
        "{description}"
    );
}

/// C-117: `pick_first` describes each endpoint, and a policy for some of them the one below it.
#[test]
fn policies_describe_what_they_have() {
    let mut play = Play::new();
    play.up("2").update(&PolicyConfig::PickFirst { shuffle: false }, &endpoints("1 2+3 4"));
    play.call();
    let text = play.tree.describe().expect("there was an update").to_string();
    assert_eq!(
        text,
        "pick_first, READY\n  10.0.0.1:80 IDLE: it had failed when another one was connected\n  \
         10.0.0.2:80 READY\n  10.0.0.4:80 IDLE"
    );
    let child = Arc::new(PolicyConfig::RingHash(Default::default()));
    let some = PolicyConfig::RandomSubsetting { size: std::num::NonZeroU32::MIN, child };
    play.update(&some, &endpoints("2"));
    let text = play.tree.describe().expect("there was an update").to_string();
    assert_eq!(text, "random_subsetting, IDLE\n  ring_hash, IDLE\n    10.0.0.2:80 IDLE");
    let mut orders = Play::<Priority<Cluster>>::of(1);
    orders.update_to(&Vec::new());
    let none = orders.tree.describe().expect("there was an update");
    assert_eq!(none.to_string(), "in this order, TRANSIENT_FAILURE");
}

/// Many endpoints make a text of a bounded size.
#[test]
fn a_long_list_is_cut() {
    let many: Vec<_> = (1..=100).map(|it| it.to_string()).collect();
    let mut play = Play::new();
    play.update(&PolicyConfig::RoundRobin, &endpoints(&many.join(" ")));
    let description = play.tree.describe().expect("there was an update");
    assert_eq!(description.endpoints.len(), 100);
    let text = description.to_string();
    assert_eq!(text.lines().count(), 1 + 32 + 1);
    assert!(text.ends_with("\n  and 68 more endpoints"), "{text}");
}
