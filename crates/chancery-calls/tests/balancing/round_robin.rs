//! `round_robin` and the division by localities (C-111, C-113, C-120).

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_calls::balancing::{ChoiceCount, Connectivity, PolicyConfig};
use chancery_calls::{Dice, SeededDice};

use crate::support::{BACKOFF, Play, address, endpoints, in_locality};

fn by_locality() -> PolicyConfig {
    PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin))
}

/// C-113
#[test]
fn all_endpoints_are_connected_and_used_in_turn() {
    let mut play = Play::new();
    play.up("1 2 3").update(&PolicyConfig::RoundRobin, &endpoints("1 2 3"));
    assert_eq!(play.dialled().len(), 3, "before there is a call");
    assert!(play.spread(300).values().all(|count| *count == 100));
}

/// C-113: one endpoint down.
#[test]
fn the_others_share_the_calls_of_one_that_is_down() {
    let mut play = Play::new();
    play.up("1 2 3").update(&PolicyConfig::RoundRobin, &endpoints("1 2 3"));
    play.down("2");
    assert_eq!(play.state(), Connectivity::Ready);
    assert_eq!(play.spread(100), [(address("1"), 50), (address("3"), 50)].into());
    play.down("1 3");
    assert_eq!(play.state(), Connectivity::TransientFailure);
    assert!(play.call().starts_with("fail: "), "{}", play.call());
    play.up("3").pass(BACKOFF);
    assert_eq!(play.spread(10), [(address("3"), 10)].into());
}

/// C-113: the states of endpoints add up.
#[test]
fn it_is_connecting_while_one_may_still_answer() {
    let mut play = Play::new();
    play.silent("1").update(&PolicyConfig::RoundRobin, &endpoints("1 2"));
    assert_eq!((play.state(), play.call()), (Connectivity::Connecting, "queue".to_owned()));
    play.update(&PolicyConfig::RoundRobin, &endpoints("2"));
    assert_eq!(play.state(), Connectivity::TransientFailure);
    play.update(&PolicyConfig::RoundRobin, &[]);
    assert_eq!(play.call(), "fail: there are no endpoints");
}

/// C-120: 1,000 endpoints, of which one changes at a time.
#[test]
fn endpoints_that_stay_keep_their_connections() {
    let names: Vec<_> = (0..1_100).map(|i| format!("v6.{i:x}")).collect();
    let mut play = Play::new();
    play.up(&names.join(" "));
    for first in 0..100 {
        play.update(&PolicyConfig::RoundRobin, &endpoints(&names[first..first + 1_000].join(" ")));
        let dialled = play.dialled().len();
        assert_eq!(dialled, if first == 0 { 1_000 } else { 1 });
        assert_eq!(play.open(), 1_000);
    }
}

/// Lets things happen to some of many endpoints, and checks after each what takes calls. `check` has the number of the
/// event.
fn after_every_event(policy: &PolicyConfig, check: impl Fn(usize, &mut Play)) {
    let mut dice = SeededDice(5);
    let mut number = |below: u64| usize::try_from(dice.below(below)).expect("a small number");
    let mut play = Play::new();
    let mut there: Vec<String> = (1..=150).map(|it| it.to_string()).collect();
    play.up(&there.join(" "));
    for round in 0..300 {
        match number(6) {
            0 => drop(there.remove(number(there.len() as u64))),
            1 => there.insert(number(there.len() as u64), format!("v6.{round:x}")),
            2 => {
                let (one, other) = (number(there.len() as u64), number(there.len() as u64));
                there.swap(one, other);
            }
            3 => drop(play.down(&there[number(there.len() as u64)])),
            4 => drop(play.up(&there[number(there.len() as u64)])),
            _ => drop(play.pass(BACKOFF)),
        }
        play.update(policy, &endpoints(&there.join(" ")));
        check(round, &mut play);
    }
}

/// C-113, C-120: among many endpoints each event concerns one, and all that are ready are used, each once in a round.
#[test]
fn each_that_is_ready_has_its_turn_after_every_event() {
    after_every_event(&PolicyConfig::RoundRobin, |round, play| {
        let ready = play.ready();
        let spread = play.spread(2 * ready.len());
        assert!(spread.values().all(|count| *count == 2), "{round}: {spread:?}");
        assert_eq!(spread.into_keys().collect::<BTreeSet<_>>(), ready, "{round}");
    });
}

/// C-115, C-120: the same where they are chosen at random. One of 150 is missed by 6,000 calls in one of 10^15 rounds.
#[test]
fn each_that_is_ready_is_compared_after_every_event() {
    let policy = PolicyConfig::LeastRequest(ChoiceCount::default());
    after_every_event(&policy, |round, play| {
        if round % 10 == 9 {
            let used: BTreeSet<_> = play.spread(6_000).into_keys().collect();
            assert_eq!(used, play.ready(), "{round}");
        }
    });
}

/// C-111: 99:1 over 10,000 calls. The bound is five standard deviations.
#[test]
fn localities_share_calls_by_weight_and_endpoints_by_turn() {
    let mut play = Play::new();
    let all = [in_locality("a", 99, "1 2"), in_locality("b", 1, "3")].concat();
    play.up("1 2 3").update(&by_locality(), &all);
    let spread = play.spread(10_000);
    assert!((50..150).contains(&spread[&address("3")]), "{spread:?}");
    assert!(spread[&address("1")].abs_diff(spread[&address("2")]) <= 1, "{spread:?}");
}

/// C-111: there is no overprovisioning.
#[test]
fn a_locality_keeps_its_part_until_nothing_of_it_works() {
    let mut play = Play::new();
    let all = [in_locality("a", 1, "1 2 3 4"), in_locality("b", 1, "5")].concat();
    play.up("1 2 3 4 5").update(&by_locality(), &all);
    play.down("2 3 4");
    let spread = play.spread(2_000);
    assert!((888..1_112).contains(&spread[&address("1")]), "{spread:?}");
    play.down("1");
    assert_eq!(play.spread(100), [(address("5"), 100)].into());
    play.update(&by_locality(), &in_locality("b", 1, "5"));
    assert_eq!((play.open(), play.spread(10)), (1, [(address("5"), 10)].into()));
}

/// C-112: another policy takes over when it can, and no call fails meanwhile.
#[test]
fn a_policy_is_replaced_when_the_new_one_is_ready() {
    let mut play = Play::new();
    let all = endpoints("1 2");
    play.up("1 2 3").update(&PolicyConfig::RoundRobin, &all);
    play.silent("1 2");
    play.update(&by_locality(), &all);
    assert_eq!(play.spread(10).len(), 2, "by the old connections");
    assert_eq!(play.open(), 4);
    play.update(&PolicyConfig::RoundRobin, &all);
    assert_eq!((play.open(), play.spread(10).len()), (2, 2), "back to what it was");
    play.update(&by_locality(), &all).down("1 2");
    assert_eq!(play.open(), 2, "the old one has nothing to give any more");
    assert_eq!((play.state(), play.call().as_str()), (Connectivity::Connecting, "queue"));
    play.up("1 2").refuse("1 2").pass(BACKOFF);
    assert_eq!(play.spread(10).len(), 2);
}

/// C-112: the old policy forgets the endpoints that go, although the new one is not ready.
#[test]
fn a_policy_that_is_being_replaced_hears_of_new_endpoints() {
    let mut play = Play::new();
    play.up("1 2 3").update(&PolicyConfig::RoundRobin, &endpoints("1 2"));
    play.silent("1 2");
    play.update(&by_locality(), &endpoints("1 2"));
    play.update(&by_locality(), &endpoints("2"));
    assert_eq!(play.spread(10), [(address("2"), 10)].into());
    play.update(&by_locality(), &endpoints("2 3"));
    assert_eq!(play.spread(10), [(address("3"), 10)].into(), "the new one is ready");
    assert_eq!(play.open(), 2);
}
