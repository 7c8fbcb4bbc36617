//! `pick_first`: happy eyeballs, what is kept, and what is tried again (C-117, C-120).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{Connectivity, PolicyConfig};

use crate::support::{BACKOFF, Play, address, endpoints, in_locality};

const PICK_FIRST: PolicyConfig = PolicyConfig::PickFirst { shuffle: false };

fn addresses(names: &str) -> Vec<std::net::SocketAddr> {
    names.split_whitespace().map(address).collect()
}

/// C-117: nothing is connected before there is a call.
#[test]
fn a_channel_is_idle_until_it_is_used() {
    let mut play = Play::new();
    play.up("1").update(&PICK_FIRST, &endpoints("1 2"));
    assert_eq!(play.state(), Connectivity::Idle);
    assert!(play.dialled().is_empty());
    assert_eq!(play.call(), "queue");
    assert_eq!(play.call(), "to 10.0.0.1:80");
    assert_eq!(play.dialled(), addresses("1"));
}

/// C-117: the families take turns, and an address that refuses costs no wait.
#[test]
fn an_address_that_refuses_is_followed_by_the_next_one_at_once() {
    let mut play = Play::new();
    play.up("2").update(&PICK_FIRST, &endpoints("v6.1 v6.2 1 2"));
    play.call();
    assert_eq!(play.dialled(), addresses("v6.1 1 v6.2 2"));
    assert_eq!(play.call(), "to 10.0.0.2:80");
    assert_eq!(play.open(), 1, "all others are given up");
}

/// C-117: an address that says nothing is tried further, beside the next one.
#[test]
fn an_address_that_says_nothing_has_250_ms_for_itself() {
    let mut play = Play::new();
    play.silent("1 2").up("3").update(&PICK_FIRST, &endpoints("1 2 3"));
    play.call();
    assert_eq!(play.dialled(), addresses("1"));
    play.pass(Duration::from_millis(249));
    assert_eq!(play.dialled(), []);
    play.pass(Duration::from_millis(1));
    assert_eq!(play.dialled(), addresses("2"));
    assert_eq!(play.state(), Connectivity::Connecting);
    play.pass(Duration::from_millis(250));
    assert_eq!(play.call(), "to 10.0.0.3:80");
}

/// C-117: an update with the same addresses does not begin the pass anew.
#[test]
fn the_next_address_is_tried_although_updates_come_all_the_time() {
    let mut play = Play::new();
    play.silent("1").up("2").update(&PICK_FIRST, &endpoints("1 2"));
    play.call();
    for weight in 1..10 {
        play.pass(Duration::from_millis(50));
        play.update(&PICK_FIRST, &endpoints(&format!("1*{weight} 2")));
    }
    assert_eq!(play.call(), "to 10.0.0.2:80");
}

/// C-117: only the failure of the newest attempt brings the next one on at once.
#[test]
fn an_older_attempt_that_fails_late_changes_nothing() {
    let mut play = Play::new();
    play.silent("1 2 3").update(&PICK_FIRST, &endpoints("1 2 3"));
    play.call();
    play.pass(Duration::from_millis(250)).refuse("1");
    assert_eq!(play.dialled(), addresses("1 2"));
    play.refuse("2");
    assert_eq!(play.dialled(), addresses("3"));
    assert_eq!(play.state(), Connectivity::Connecting);
    play.refuse("3");
    assert_eq!(play.state(), Connectivity::TransientFailure);
}

/// C-117: TRANSIENT_FAILURE comes when all have failed, stays until one is connected, and each
/// address is tried again when its backoff ends.
#[test]
fn failure_stays_until_something_is_connected() {
    let mut play = Play::new();
    play.update(&PICK_FIRST, &endpoints("1 2"));
    play.call();
    assert_eq!(play.state(), Connectivity::TransientFailure);
    assert_eq!(play.resolutions, 1);
    assert_eq!(play.call(), "fail: 10.0.0.2:80 refuses");
    play.pass(BACKOFF);
    assert_eq!(play.dialled(), addresses("1 2 1 2"));
    assert_eq!(play.state(), Connectivity::TransientFailure);
    assert_eq!(play.resolutions, 2, "once for each round");
    play.silent("1 2").pass(BACKOFF);
    assert_eq!(play.state(), Connectivity::TransientFailure, "although it is connecting");
    let mut play = Play::new();
    play.update(&PICK_FIRST, &endpoints("1 2"));
    play.call();
    play.up("2").pass(BACKOFF);
    assert_eq!(play.call(), "to 10.0.0.2:80");
}

/// C-117: a connection that is lost is made again for the next call, from the first address on.
#[test]
fn a_connection_that_is_lost_leaves_the_channel_idle() {
    let mut play = Play::new();
    play.up("1").update(&PICK_FIRST, &endpoints("1 2"));
    play.call();
    play.down("1").up("2");
    assert_eq!((play.state(), play.resolutions), (Connectivity::Idle, 1));
    assert_eq!(play.call(), "queue");
    assert_eq!(play.call(), "to 10.0.0.2:80");
}

/// C-120: an update with the address that is connected changes nothing.
#[test]
fn a_connection_is_kept_as_long_as_its_address_is_there() {
    let mut play = Play::new();
    play.up("1 2 3").update(&PICK_FIRST, &endpoints("1"));
    play.call();
    play.dialled();
    play.update(&PICK_FIRST, &endpoints("2 3 1"));
    assert_eq!(play.call(), "to 10.0.0.1:80");
    assert_eq!(play.dialled(), []);
    play.update(&PICK_FIRST, &endpoints("2 3"));
    assert_eq!(play.state(), Connectivity::Idle);
    play.call();
    assert_eq!(play.call(), "to 10.0.0.2:80");
    play.update(&PICK_FIRST, &[]);
    assert_eq!(play.call(), "fail: there are no addresses");
    assert_eq!(play.open(), 0);
    play.update(&PICK_FIRST, &endpoints("3"));
    assert_eq!(play.call(), "to 10.0.0.3:80", "a failure goes on until it is over");
}

/// C-120: an endpoint with two families, one of which is down.
#[test]
fn an_endpoint_may_have_several_addresses() {
    let mut play = Play::new();
    play.up("1 v6.2").update(&PolicyConfig::RoundRobin, &endpoints("1+v6.1 2+v6.2"));
    let spread = play.spread(10);
    assert_eq!(spread[&address("1")], 5);
    assert_eq!(spread[&address("v6.2")], 5);
}

/// C-117: an endpoint with thrice the weight is first thrice as often. The bound is five standard
/// deviations.
#[test]
fn a_shuffle_is_by_weight() {
    let mut first = 0;
    let mut play = Play::new();
    play.up("1 2");
    for _ in 0..4_000 {
        play.update(&PolicyConfig::PickFirst { shuffle: true }, &[]);
        play.update(&PolicyConfig::PickFirst { shuffle: true }, &endpoints("1 2*3"));
        first += usize::from(play.call() == "to 10.0.0.2:80");
    }
    assert!((2_863..3_137).contains(&first), "{first}");
}

/// C-117: with normalised weights. A locality with three endpoints is first no more often than one of
/// the same weight that has one. The bound is five standard deviations.
#[test]
fn a_shuffle_gives_a_locality_its_weight_whatever_it_has() {
    let all = [in_locality("a", 1, "1 2 3"), in_locality("b", 1, "4")].concat();
    let mut first = 0;
    let mut play = Play::new();
    play.up("1 2 3 4");
    for _ in 0..2_000 {
        play.update(&PolicyConfig::PickFirst { shuffle: true }, &[]);
        play.update(&PolicyConfig::PickFirst { shuffle: true }, &all);
        first += usize::from(play.call() == "to 10.0.0.4:80");
    }
    assert!((888..1_112).contains(&first), "{first}");
}

/// C-111, C-117: a policy with one connection in each locality, whose endpoint is replaced or lost while another
/// locality takes all calls.
#[test]
fn a_locality_connects_again_while_another_one_is_ready() {
    let policy = PolicyConfig::WrrLocality(Arc::new(PolicyConfig::PickFirst { shuffle: false }));
    let both = |one: &str| [in_locality("a", 1, one), in_locality("b", 1, "9")].concat();
    let mut play = Play::new();
    play.up("1 2 9").update(&policy, &both("1"));
    assert!(play.dialled().is_empty(), "nobody calls so far");
    play.call();
    assert_eq!(play.spread(100).len(), 2);
    play.update(&policy, &both("2"));
    assert!(play.spread(100).contains_key(&address("2")), "its endpoint is another one");
    play.down("2").up("2").pass(BACKOFF);
    assert!(play.spread(100).contains_key(&address("2")), "its connection was lost");
    let third = [both("2"), in_locality("c", 1, "1")].concat();
    play.update(&policy, &third);
    assert!(play.spread(100).contains_key(&address("1")), "there is one more locality");
}
