//! Outlier detection with a clock and counters of the test's own (C-149).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    Connectivity, Detection, DetectionMethod, DetectionTarget, Ejection, Endpoint,
    FailurePercentage, OutlierDetection, Percent, Pick, PolicyConfig, PolicyTarget, Priority,
    RingHashConfig, SuccessRate, Switch, Unenforced, WeightedRoundRobinConfig,
};
use chancery_core::client::load::OrcaReport;

use crate::support::{BACKOFF, Play, address, end, endpoints, target};

const SECOND: Duration = Duration::from_secs(1);

type Detecting = Play<OutlierDetection<Switch>>;

fn percent(percent: u32) -> Percent {
    Percent::new(percent).expect("at most 100")
}

/// Returns a detection that takes out one of however few endpoints that fail more than half of ten calls.
fn by_failures() -> Detection {
    let threshold = percent(50);
    let config = FailurePercentage {
        threshold,
        minimum_hosts: 1,
        request_volume: 10,
        ..FailurePercentage::default()
    };
    let max_ejection_percent = percent(50);
    Detection { failure_percentage: Some(config), max_ejection_percent, ..Detection::default() }
}

fn detecting<C>(detection: &Detection, all: &[Arc<Endpoint>], node: C) -> DetectionTarget<C> {
    DetectionTarget {
        cluster: "orders".into(),
        detection: Arc::new(detection.clone()),
        endpoints: all.into(),
        node,
    }
}

fn round_robin(detection: &Detection, all: &[Arc<Endpoint>]) -> DetectionTarget<PolicyTarget> {
    detecting(detection, all, target(&PolicyConfig::RoundRobin, all))
}

/// Makes calls, of which those to these addresses fail. Returns how many went to each.
fn calls<N: chancery_calls::balancing::Node>(
    play: &mut Play<N>,
    count: usize,
    failing: &str,
) -> BTreeMap<std::net::SocketAddr, usize> {
    let failing: BTreeSet<_> = failing.split_whitespace().map(address).collect();
    let mut counts = BTreeMap::new();
    for _ in 0..count {
        let Pick::To(picked) = play.pick() else { panic!("a call went nowhere") };
        let to = play.address_of(&picked);
        picked.started();
        picked.ended(&end(!failing.contains(&to)));
        *counts.entry(to).or_default() += 1;
    }
    counts
}

fn used(play: &mut Detecting) -> String {
    let used = play.spread(40).into_keys();
    let name = |address: std::net::SocketAddr| {
        address.ip().to_string().rsplit(['.', ':']).next().expect("a part").to_owned()
    };
    used.map(name).collect::<Vec<_>>().join(" ")
}

fn of_four() -> Detecting {
    let mut play = Detecting::of(1);
    play.up("1 2 3 4").update_to(&round_robin(&by_failures(), &endpoints("1 2 3 4")));
    play.dialled();
    play
}

/// C-149: the per-interval sweep, and the ejection multiplier. An endpoint is out for 30 s, the next time
/// for 60 s, and for less again when it was in for an interval. Its connection stays.
#[test]
fn an_endpoint_that_fails_is_out_for_longer_each_time() {
    let mut play = of_four();
    calls(&mut play, 40, "2");
    play.pass(9 * SECOND);
    assert_eq!(used(&mut play), "1 2 3 4", "the interval has not ended");
    play.pass(SECOND);
    assert_eq!(used(&mut play), "1 3 4");
    play.pass(29 * SECOND);
    assert_eq!(used(&mut play), "1 3 4");
    play.pass(SECOND);
    assert_eq!(used(&mut play), "1 2 3 4");
    calls(&mut play, 40, "2");
    play.pass(10 * SECOND);
    assert_eq!(used(&mut play), "1 3 4");
    play.pass(59 * SECOND);
    assert_eq!(used(&mut play), "1 3 4");
    play.pass(SECOND);
    assert_eq!(used(&mut play), "1 2 3 4");
    play.pass(20 * SECOND);
    calls(&mut play, 40, "2");
    play.pass(10 * SECOND);
    play.pass(30 * SECOND);
    assert_eq!(used(&mut play), "1 2 3 4", "two good intervals took two from three");
    assert_eq!((play.dialled(), play.open()), (vec![], 4));
}

/// C-149: the greatest time, which is not less than the base.
#[test]
fn a_time_out_has_a_limit() {
    for (base, most, expected) in [(30, 45, [30, 50]), (30, 10, [30, 30])] {
        let detection = Detection {
            base_ejection_time: base * SECOND,
            max_ejection_time: most * SECOND,
            ..by_failures()
        };
        let mut play = Detecting::of(1);
        play.up("1 2").update_to(&round_robin(&detection, &endpoints("1 2")));
        for seconds in expected {
            calls(&mut play, 20, "2");
            play.pass(10 * SECOND);
            play.pass(seconds * SECOND - SECOND);
            assert_eq!(used(&mut play), "1");
            play.pass(SECOND);
            assert_eq!(used(&mut play), "1 2");
        }
    }
}

/// C-149: success rate, beside others that are well.
#[test]
fn an_endpoint_with_fewer_successes_than_the_others_is_out() {
    let all = endpoints("1 2 3 4 5 6");
    let detection = Detection {
        success_rate: Some(SuccessRate { request_volume: 10, ..SuccessRate::default() }),
        ..Detection::default()
    };
    let mut play = Detecting::of(1);
    play.up("1 2 3 4 5 6").update_to(&round_robin(&detection, &all));
    calls(&mut play, 60, "6");
    calls(&mut play, 60, "");
    play.pass(10 * SECOND);
    assert_eq!(used(&mut play), "1 2 3 4 5");
    let ejection = Ejection {
        cluster: "orders".into(),
        method: DetectionMethod::SuccessRate,
        unenforced: None,
    };
    assert_eq!(play.ejections, [ejection]);
}

/// C-149: max ejection percent. Of ten endpoints four fail, and two may be out; the others are counted.
#[test]
fn no_more_are_out_than_may_be() {
    let names = "1 2 3 4 5 6 7 8 9 10";
    let counted = |most| {
        let detection = Detection { max_ejection_percent: percent(most), ..by_failures() };
        let mut play = Detecting::of(1);
        play.up(names).update_to(&round_robin(&detection, &endpoints(names)));
        calls(&mut play, 100, "1 2 3 4");
        play.pass(10 * SECOND);
        let overflow = Some(Unenforced::MaxEjectionOverflow);
        let over = play.ejections.iter().filter(|it| it.unenforced == overflow).count();
        (play.ejections.len() - over, over, used(&mut play).split(' ').count())
    };
    assert_eq!(counted(20), (2, 2, 8));
    assert_eq!(counted(1), (1, 3, 9), "one may be out of however few");
    assert_eq!(counted(0), (0, 4, 10));
    assert_eq!(counted(100), (4, 0, 6));
}

/// C-149: enforcement by chance. Of 400 outliers half are taken out; the bound is five standard
/// deviations.
#[test]
fn an_outlier_is_out_by_chance() {
    let config = |enforcement| {
        let mut detection = by_failures();
        let failures = detection.failure_percentage.take().expect("it is by failures");
        let enforcement = percent(enforcement);
        Detection {
            failure_percentage: Some(FailurePercentage { enforcement, ..failures }),
            base_ejection_time: Duration::ZERO,
            max_ejection_time: Duration::ZERO,
            ..detection
        }
    };
    for (chance, expected) in [(0, 0..1), (50, 150..251), (100, 400..401)] {
        let mut play = Detecting::of(chance.into());
        play.up("1 2").update_to(&round_robin(&config(chance), &endpoints("1 2")));
        for _ in 0..400 {
            calls(&mut play, 20, "2");
            play.pass(10 * SECOND);
        }
        let out = play.ejections.iter().filter(|it| it.unenforced.is_none()).count();
        assert!(expected.contains(&out), "{out} with {chance}");
        assert_eq!(play.ejections.len(), 400);
    }
}

/// C-149: zero-config disables and un-ejects, and forgets how often.
#[test]
fn without_a_way_to_tell_outliers_all_are_in() {
    let all = endpoints("1 2 3 4");
    let mut play = of_four();
    calls(&mut play, 40, "2");
    play.pass(10 * SECOND);
    assert_eq!(used(&mut play), "1 3 4");
    play.update_to(&round_robin(&Detection::default(), &all));
    assert_eq!(used(&mut play), "1 2 3 4");
    assert_eq!(play.tree.deadline(), None);
    calls(&mut play, 40, "2");
    play.update_to(&round_robin(&by_failures(), &all));
    play.pass(10 * SECOND);
    assert_eq!(used(&mut play), "1 2 3 4", "calls of before do not count");
    calls(&mut play, 40, "2");
    play.pass(10 * SECOND);
    play.pass(30 * SECOND);
    assert_eq!(used(&mut play), "1 2 3 4", "it is out for the first time again");
}

/// C-149: another configuration goes on with the interval that has begun.
#[test]
fn an_interval_that_is_shorter_now_may_be_over() {
    let all = endpoints("1 2 3 4");
    let mut play = of_four();
    calls(&mut play, 40, "2");
    play.pass(6 * SECOND);
    let shorter = Detection { interval: 5 * SECOND, ..by_failures() };
    play.update_to(&round_robin(&shorter, &all)).pass(Duration::ZERO);
    assert_eq!(used(&mut play), "1 3 4");
    let zero = Detection { interval: Duration::ZERO, ..by_failures() };
    play.update_to(&round_robin(&zero, &all)).pass(SECOND);
    assert_eq!(used(&mut play), "1 3 4", "it looks often, and comes to an end");
}

/// C-149, gRFC A61: an endpoint is out with all its addresses, also when it is connected to another one
/// of them. Calls to each count.
#[test]
fn an_endpoint_is_out_with_all_its_addresses() {
    let all = endpoints("1 2+v6.2 3");
    let mut play = Detecting::of(1);
    play.up("1 2 3").update_to(&round_robin(&by_failures(), &all));
    calls(&mut play, 21, "2");
    play.up("v6.2").down("2").pass(Duration::ZERO);
    let counts = calls(&mut play, 21, "v6.2");
    assert_eq!(counts[&address("v6.2")], 7, "it is connected to the other address");
    play.pass(10 * SECOND);
    assert_eq!(used(&mut play), "1 3", "7 and 7 calls are more than 10");
    play.up("2").down("v6.2").pass(BACKOFF);
    assert_eq!(used(&mut play), "1 3", "it is connected anew, and out");
    assert_eq!(play.open(), 3);
    play.pass(30 * SECOND);
    assert_eq!(used(&mut play), "1 2 3");
}

/// C-149: an endpoint that leaves and comes back is a new one, and one that stays is not.
#[test]
fn an_update_lets_in_only_what_was_gone() {
    let mut play = of_four();
    calls(&mut play, 40, "2 3");
    play.pass(10 * SECOND);
    assert_eq!(used(&mut play), "1 4");
    play.update_to(&round_robin(&by_failures(), &endpoints("4 3 1")));
    assert_eq!(used(&mut play), "1 4");
    play.update_to(&round_robin(&by_failures(), &endpoints("1 2 3 4")));
    assert_eq!(used(&mut play), "1 2 4");
    // The address is that of another endpoint now, which has done nothing wrong.
    play.up("5").update_to(&round_robin(&by_failures(), &endpoints("1 2 3+5 4")));
    assert_eq!(used(&mut play), "1 2 3 4");
}

/// C-149, gRFC A61: a connection that stays counts for the endpoint that has its address now.
#[test]
fn calls_count_for_the_endpoint_that_has_the_address() {
    let pick_first = PolicyConfig::PickFirst { shuffle: false };
    let mut play = Detecting::of(1);
    for text in ["1 2", "1+v6.1 2"] {
        let all = endpoints(text);
        play.up("1").update_to(&detecting(&by_failures(), &all, target(&pick_first, &all)));
        play.call();
    }
    assert_eq!(play.dialled(), [address("1")]);
    calls(&mut play, 20, "1");
    play.pass(10 * SECOND);
    assert_eq!(play.ejections.len(), 1);
    assert_eq!(play.call(), "to 10.0.0.1:80", "but there is nothing else for pick_first");
}

/// C-116, C-149: an endpoint that is out and is connected again is asked for its load, which counts when
/// it is in again.
#[test]
fn an_endpoint_that_is_out_goes_on_to_report() {
    let all = endpoints("1 2 3");
    let config = WeightedRoundRobinConfig { out_of_band: Some(SECOND), ..Default::default() };
    let policy = PolicyConfig::WeightedRoundRobin(Arc::new(config));
    let mut play = Detecting::of(1);
    play.up("1 2 3").update_to(&detecting(&by_failures(), &all, target(&policy, &all)));
    calls(&mut play, 30, "2");
    play.pass(10 * SECOND);
    assert_eq!(used(&mut play), "1 3");
    play.down("2").up("2").pass(BACKOFF);
    assert_eq!(used(&mut play), "1 3");
    assert_eq!(play.report("2", &OrcaReport::default()), Some(SECOND));
}

/// C-149: an ejection is a failure for the policy below: a ring walks on, and comes back.
#[test]
fn a_ring_walks_past_an_endpoint_that_is_out() {
    let all = endpoints("1 2 3");
    let ring = PolicyConfig::RingHash(RingHashConfig::default());
    let mut play = Detecting::of(1);
    play.up("1 2 3").update_to(&detecting(&by_failures(), &all, target(&ring, &all)));
    play.call_by(7);
    let home = play.call_by(7);
    for _ in 0..20 {
        let Pick::To(picked) = play.pick_with(Some(7), &http::HeaderMap::new()) else { panic!() };
        picked.ended(&end(false));
    }
    play.pass(10 * SECOND);
    play.call_by(7);
    let other = play.call_by(7);
    assert!(other.starts_with("to ") && other != home, "{other}, not {home}");
    play.pass(30 * SECOND);
    assert_eq!(play.call_by(7), home);
}

/// C-149, gRFC A75: above the priorities of a cluster. When all endpoints of one are out, calls go to the
/// next.
#[test]
fn a_priority_whose_endpoints_are_out_has_failed() {
    let (first, second) = (endpoints("1 2"), endpoints("3 4"));
    let all = [first.clone(), second.clone()].concat();
    let order = vec![
        (Arc::from("first"), target(&PolicyConfig::RoundRobin, &first)),
        (Arc::from("second"), target(&PolicyConfig::RoundRobin, &second)),
    ];
    let mut play = Play::<OutlierDetection<Priority<Switch>>>::of(1);
    play.up("1 2 3 4").update_to(&detecting(&by_failures(), &all, order));
    assert_eq!(calls(&mut play, 40, "1 2").len(), 2);
    play.pass(10 * SECOND);
    assert_eq!(play.state(), Connectivity::Ready);
    let used = calls(&mut play, 40, "");
    assert_eq!(used, [(address("3"), 20), (address("4"), 20)].into());
    play.pass(30 * SECOND);
    let used = calls(&mut play, 40, "");
    assert_eq!(used, [(address("1"), 20), (address("2"), 20)].into());
}
