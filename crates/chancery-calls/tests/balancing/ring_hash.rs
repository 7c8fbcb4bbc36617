//! `ring_hash`: affinity, connections when they are needed, and what it tells its parent (C-114).

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_calls::balancing::{
    Connectivity, Endpoint, PolicyConfig, RingHashConfig, RingHashError,
};
use xxhash_rust::xxh64::xxh64;

use crate::support::{BACKOFF, Play, address, endpoints, in_locality};

fn ring_hash() -> PolicyConfig {
    PolicyConfig::RingHash(RingHashConfig::default())
}

fn by_header() -> PolicyConfig {
    let config = RingHashConfig::default().with_request_hash_header("x-user");
    PolicyConfig::RingHash(config.expect("a header"))
}

fn hash(text: &str) -> u64 {
    xxh64(text.as_bytes(), 0)
}

/// Sends one call for each of `count` users, once there is a connection for each.
fn homes(play: &mut Play, count: usize) -> BTreeMap<usize, String> {
    let mut one = |user: usize| {
        let hash = hash(&format!("user-{user}"));
        let first = play.call_by(hash);
        if first == "queue" { (user, play.call_by(hash)) } else { (user, first) }
    };
    (0..count).map(&mut one).collect()
}

/// C-114: the same key goes to the same backend as from grpc-go. The expected ones were computed by its
/// algorithm for the same endpoints.
#[test]
fn a_key_has_the_backend_that_it_has_in_grpc_go() {
    let weighted = [in_locality("a", 3, "1 2*2 3*3 4*4"), in_locality("b", 1, "5 6 7 v6.7*5")];
    let many: Vec<_> = (1..=200).map(|i| format!("{i}*{i}")).collect();
    for (all, expected) in [
        (endpoints("1 2 3"), "2 2 3 2 1 2"),
        (weighted.concat(), "4 5 3 v6.7 4 v6.7"),
        (endpoints(&many.join(" ")), "121 199 139 111 129 182"),
    ] {
        let mut play = Play::new();
        play.up(expected).update(&ring_hash(), &all);
        for (user, name) in (1..).zip(expected.split_whitespace()) {
            let hash = hash(&format!("user-{user}"));
            play.call_by(hash);
            assert_eq!(play.call_by(hash), format!("to {}", address(name)), "user-{user}");
        }
    }
}

/// C-114: lazy connect.
#[test]
fn an_endpoint_is_connected_for_the_first_call_that_needs_it() {
    let mut play = Play::new();
    play.up("1 2 3").update(&ring_hash(), &endpoints("1 2 3"));
    assert_eq!((play.state(), play.dialled()), (Connectivity::Idle, vec![]));
    assert_eq!(play.call_by(hash("user-1")), "queue");
    assert_eq!(play.dialled(), [address("2")]);
    assert_eq!(play.state(), Connectivity::Ready);
    assert_eq!(play.call_by(hash("user-1")), "to 10.0.0.2:80");
    assert_eq!(play.call_by(hash("user-3")), "queue", "this one needs another endpoint");
    assert_eq!(play.dialled(), [address("3")]);
    play.down("2");
    assert_eq!(play.dialled(), [], "nobody needs it now");
    play.up("2");
    assert_eq!(play.call_by(hash("user-1")), "queue");
    assert_eq!(play.call_by(hash("user-1")), "to 10.0.0.2:80");
}

/// C-114: affinity under removal. Of twenty endpoints one goes, with a twentieth of all users. Others move
/// only because those that stay have a few entries more on a ring of the same size.
#[test]
fn few_users_move_when_endpoints_come_and_go() {
    let names: Vec<_> = (1..=21).map(|i| i.to_string()).collect();
    let mut play = Play::new();
    play.up(&names.join(" ")).update(&ring_hash(), &endpoints(&names[..20].join(" ")));
    let before = homes(&mut play, 1_000);
    let gone = before.values().filter(|to| *to == "to 10.0.0.20:80").count();
    let moved = |play: &mut Play| {
        homes(play, 1_000).iter().filter(|(user, to)| before[user] != **to).count()
    };
    play.update(&ring_hash(), &endpoints(&names[..19].join(" ")));
    let after_one_went = moved(&mut play);
    assert!((gone..gone + 60).contains(&after_one_went), "{after_one_went}, and {gone} had to");
    play.update(&ring_hash(), &endpoints(&names[..20].join(" ")));
    assert_eq!(moved(&mut play), 0, "it came back");
    play.update(&ring_hash(), &endpoints(&names.join(" ")));
    let after_one_came = moved(&mut play);
    assert!((20..150).contains(&after_one_came), "{after_one_came}");
}

/// C-114: the ring is weighted by locality and endpoint. The bound is wide, because a ring of 1,024
/// entries is not even.
#[test]
fn users_are_divided_by_weight() {
    let mut play = Play::new();
    let all = [in_locality("a", 3, "1*1 2*2"), in_locality("b", 1, "3 4 5")].concat();
    play.up("1 2 3 4 5").update(&ring_hash(), &all);
    let mut counts = BTreeMap::<_, usize>::new();
    homes(&mut play, 4_000).into_values().for_each(|to| *counts.entry(to).or_default() += 1);
    let counts: Vec<_> = counts.into_values().collect();
    let expected = [1_000, 2_000, 333, 333, 333];
    for (count, expected) in counts.iter().zip(expected) {
        assert!(count.abs_diff(expected) < expected / 3, "{counts:?}");
    }
}

/// C-114: TF after two failures; before that the policy is connecting, and tries others by itself.
#[test]
fn two_failures_speak_for_all_endpoints() {
    let mut play = Play::new();
    play.silent("1 3").update(&ring_hash(), &endpoints("1 2 3"));
    play.call_by(hash("user-1"));
    assert_eq!(play.dialled(), [address("2"), address("1")], "the one has failed");
    assert_eq!(play.state(), Connectivity::Connecting);
    let mut play = Play::new();
    play.silent("3").update(&ring_hash(), &endpoints("1 2 3"));
    play.call_by(hash("user-1"));
    assert_eq!(play.state(), Connectivity::TransientFailure);
    assert_eq!(play.call_by(hash("user-1")), "queue", "the third may still answer");
    let mut play = Play::new();
    play.update(&ring_hash(), &endpoints("1 2 3"));
    play.call_by(hash("user-3"));
    assert_eq!(play.dialled().len(), 3, "each is tried, although no call needs it");
    assert_eq!(
        play.call_by(hash("user-3")),
        "fail: 10.0.0.3:80 refuses",
        "as its own endpoint says"
    );
    play.up("1").pass(BACKOFF);
    assert_eq!(play.state(), Connectivity::Ready);
    assert_eq!(play.call_by(hash("user-3")), "to 10.0.0.1:80");
}

/// C-114: defined states for failover under priority: one endpoint, and none.
#[test]
fn one_endpoint_that_fails_is_a_failure() {
    let mut play = Play::new();
    play.update(&ring_hash(), &endpoints("1"));
    assert_eq!(play.call_by(7), "queue");
    assert_eq!(play.state(), Connectivity::TransientFailure);
    play.up("1").pass(BACKOFF);
    assert_eq!(play.call_by(7), "to 10.0.0.1:80");
    play.update(&ring_hash(), &[]);
    assert_eq!(play.state(), Connectivity::TransientFailure);
    assert_eq!(play.call_by(7), "fail: there are no endpoints");
}

/// C-114: a call walks past endpoints that have failed, and waits for the first that may work.
#[test]
fn a_call_takes_the_next_endpoint_while_its_own_has_failed() {
    let mut play = Play::new();
    play.up("1 3").update(&ring_hash(), &endpoints("1 2 3"));
    play.call_by(hash("user-1"));
    let other = play.call_by(hash("user-1"));
    assert!(["to 10.0.0.1:80", "to 10.0.0.3:80", "queue"].contains(&&*other), "{other}");
    if other == "queue" {
        assert_ne!(play.call_by(hash("user-1")), "queue");
    }
    play.up("2").pass(BACKOFF);
    assert_eq!(play.call_by(hash("user-1")), "to 10.0.0.2:80", "and goes back to its own");
}

/// C-114: a ring under localities is asked by its parent, which knows no hashes.
#[test]
fn a_ring_below_another_policy_wakes_when_its_parent_asks() {
    let mut play = Play::new();
    play.up("1 2").update(&PolicyConfig::WrrLocality(Arc::new(ring_hash())), &endpoints("1 2"));
    assert_eq!(play.call_by(7), "queue");
    assert_eq!((play.state(), play.dialled().len()), (Connectivity::Ready, 1));
    assert_ne!(play.call_by(hash("user-1")), "fail");
}

/// C-114, gRFC A76: the header is the key of the hash, and several values are one.
#[test]
fn the_key_of_a_call_may_come_from_a_header() {
    let mut play = Play::new();
    play.up("1 2 3").update(&by_header(), &endpoints("1 2 3"));
    for (values, joined) in [(&["user-1"][..], "user-1"), (&["a", "b", "c"], "a,b,c")] {
        play.call_with("x-user", values);
        let to = play.call_with("x-user", values);
        let mut other = Play::new();
        other.up("1 2 3").update(&ring_hash(), &endpoints("1 2 3"));
        other.call_by(hash(joined));
        assert_eq!(to, other.call_by(hash(joined)));
        assert!(to.starts_with("to "), "{to}");
    }
}

/// C-114, gRFC A76: random walk without it. Such calls take what is connected, and connect one more at a
/// time.
#[test]
fn a_call_without_the_header_takes_what_is_ready() {
    let mut play = Play::new();
    play.up("1 2 3").update(&by_header(), &endpoints("1 2 3"));
    assert_eq!(play.call(), "queue");
    assert_eq!(play.dialled().len(), 1);
    let mut spread = BTreeMap::<_, usize>::new();
    for _ in 0..3_000 {
        let to = play.call_with("x-user", &[""]);
        assert!(play.dialled().len() <= 1);
        *spread.entry(to).or_default() += 1;
    }
    assert!(spread.len() == 3 && spread.values().all(|count| *count > 700), "{spread:?}");
    let mut play = Play::new();
    play.silent("1 2 3").update(&by_header(), &endpoints("1 2 3"));
    assert_eq!((play.call(), play.call()), ("queue".to_owned(), "queue".to_owned()));
    assert_eq!(play.dialled().len(), 1, "while one is connecting, no other one is");
}

/// C-114: without a header, it is the route that gives the hash.
#[test]
fn a_call_that_its_route_gave_no_hash_fails() {
    let mut play = Play::new();
    play.up("1").update(&ring_hash(), &endpoints("1"));
    assert_eq!(play.call(), "fail: the route gave the call no hash");
}

/// C-114, gRFC A76: endpoint hash key. An endpoint that has moved to another address keeps its place.
#[test]
fn a_key_of_its_own_keeps_the_place_of_an_endpoint() {
    let named = |text: &str| -> Vec<Arc<Endpoint>> {
        let keys = ["pod-0", "pod-1", "pod-2"].into_iter();
        let all = endpoints(text).into_iter().zip(keys);
        all.map(|(it, key)| Arc::new(Endpoint { hash_key: Some(key.into()), ..(*it).clone() }))
            .collect()
    };
    let mut play = Play::new();
    play.up("1 2 3 4 5 6").update(&ring_hash(), &named("1 2 3"));
    let before = homes(&mut play, 100);
    play.update(&ring_hash(), &named("4 5 6"));
    let moved = |to: &str| to.replace(".1:", ".4:").replace(".2:", ".5:").replace(".3:", ".6:");
    for (user, to) in homes(&mut play, 100) {
        assert_eq!(to, moved(&before[&user]), "user-{user}");
    }
    assert_eq!(play.open(), 3);
}

/// C-114: sizes up to 8M, else NACK; the names of headers by gRFC A76.
#[test]
fn a_configuration_that_cannot_be_is_refused() {
    const M8: u64 = 8 * 1024 * 1024;
    assert!(RingHashConfig::new(Some(M8), Some(M8)).is_ok());
    let large = RingHashError::TooLarge { size: M8 + 1 };
    assert_eq!(RingHashConfig::new(Some(M8 + 1), None), Err(large.clone()));
    assert_eq!(RingHashConfig::new(None, Some(M8 + 1)), Err(large));
    let (min, max) = (1024, 1023);
    assert_eq!(RingHashConfig::new(None, Some(1023)), Err(RingHashError::MinAboveMax { min, max }));
    for name in ["x-bin", "X-Bin", "with space", "näme"] {
        let refused = RingHashConfig::default().with_request_hash_header(name);
        assert!(matches!(refused, Err(RingHashError::Header { .. })), "{name}");
    }
}
