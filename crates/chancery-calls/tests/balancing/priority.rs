//! Priorities: failover, what is made when, and what is kept (C-110).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{Connectivity, PolicyConfig, PolicyTarget, Priority, Switch};

use crate::support::{BACKOFF, Play, address, endpoints, target};

type Config = Vec<(Arc<str>, PolicyTarget)>;

/// Returns priorities with names, as `a: 1 2; b: 3`.
fn priorities(text: &str) -> Config {
    text.split(';')
        .map(|priority| {
            let (name, all) = priority.split_once(':').expect("a name and endpoints");
            (name.trim().into(), target(&PolicyConfig::RoundRobin, &endpoints(all)))
        })
        .collect()
}

fn play() -> Play<Priority<Switch>> {
    Play::of(1)
}

/// C-110: nothing of a lower priority is connected, and nothing goes there, while the best one works.
#[test]
fn a_lower_priority_gets_nothing_while_the_best_one_works() {
    let mut play = play();
    play.up("1 2 3").update_to(&priorities("a: 1 2; b: 3"));
    assert_eq!(play.spread(100), [(address("1"), 50), (address("2"), 50)].into());
    assert_eq!(play.dialled().len(), 2);
    play.down("1");
    assert_eq!(play.spread(100), [(address("2"), 100)].into(), "as long as one is left");
}

/// C-110: fails over, and back.
#[test]
fn calls_go_to_the_next_one_while_the_best_one_has_failed() {
    let mut play = play();
    play.up("1 2").update_to(&priorities("a: 1; b: 2; c: 3"));
    play.down("1");
    assert_eq!(play.spread(10), [(address("2"), 10)].into());
    play.up("1").pass(BACKOFF);
    assert_eq!(play.spread(10), [(address("1"), 10)].into());
    assert_eq!(play.open(), 2, "the lower one is kept for a while");
    play.dialled();
    play.down("1");
    assert_eq!(play.spread(10), [(address("2"), 10)].into());
    assert_eq!(play.dialled(), [address("1")], "it had its connection");
    play.up("1").pass(BACKOFF).pass(Duration::from_secs(15 * 60 - 1));
    assert_eq!(play.open(), 2);
    play.pass(Duration::from_secs(1));
    assert_eq!(play.open(), 1);
}

/// C-110: one that says nothing has ten seconds; its attempts go on beside the next one.
#[test]
fn one_that_only_connects_has_ten_seconds() {
    let mut play = play();
    play.silent("1").up("2").update_to(&priorities("a: 1; b: 2"));
    assert_eq!((play.call().as_str(), play.dialled().len()), ("queue", 1));
    play.pass(Duration::from_millis(9_999));
    assert_eq!(play.call(), "queue");
    play.pass(Duration::from_millis(1));
    assert_eq!(play.spread(10), [(address("2"), 10)].into());
}

/// C-110: one that was connected and connects again has ten seconds once more; one that has failed
/// has none.
#[test]
fn one_that_has_failed_is_not_waited_for_again() {
    let mut play = play();
    play.up("1 2").update_to(&priorities("a: 1; b: 2"));
    play.silent("1").down("1");
    assert_eq!(play.call(), "queue", "it was well, and has time to connect again");
    play.pass(Duration::from_secs(10));
    assert_eq!(play.call(), "to 10.0.0.2:80");
    let mut play = self::play();
    play.up("2").update_to(&priorities("a: 1; b: 2"));
    play.silent("1").pass(BACKOFF);
    assert_eq!(play.call(), "to 10.0.0.2:80", "it connects, but has failed before");
    play.silent("4").update_to(&priorities("a: 1 4; b: 2"));
    assert_eq!(play.call(), "to 10.0.0.2:80", "a new endpoint of it makes no difference");
}

/// C-110: a name that moves keeps its connections; one that goes is given up at once (A115).
#[test]
fn a_child_that_moves_keeps_its_connections() {
    let mut play = play();
    play.up("2 3").update_to(&priorities("a: 1; b: 2 3"));
    play.dialled();
    play.update_to(&priorities("b: 2; c: 4"));
    assert_eq!((play.spread(10), play.dialled()), ([(address("2"), 10)].into(), vec![]));
    assert_eq!(play.open(), 1);
    play.update_to(&Vec::new());
    assert_eq!((play.open(), play.state()), (0, Connectivity::TransientFailure));
    assert_eq!(play.call(), "fail: there are no priorities");
}

/// C-110: if nothing works, the error is that of the last one; one that still connects is waited for.
#[test]
fn without_one_that_works_calls_wait_for_one_that_may() {
    let mut play = play();
    play.silent("2").update_to(&priorities("a: 1; b: 2; c: 3"));
    play.pass(Duration::from_secs(10));
    assert_eq!((play.state(), play.call().as_str()), (Connectivity::Connecting, "queue"));
    play.update_to(&priorities("a: 1; c: 3"));
    assert_eq!(play.call(), "fail: 10.0.0.3:80 refuses");
}
