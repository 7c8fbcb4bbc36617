//! `random_subsetting`: a part of the endpoints for each client (C-117).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use chancery_calls::balancing::{PolicyConfig, Switch};

use crate::support::{Play, endpoints, target};

fn subsetting(size: u32, child: PolicyConfig) -> PolicyConfig {
    let size = NonZeroU32::new(size).expect("a size");
    PolicyConfig::RandomSubsetting { size, child: Arc::new(child) }
}

fn names(range: std::ops::Range<usize>) -> String {
    range.map(|i| i.to_string()).collect::<Vec<_>>().join(" ")
}

fn client(seed: u64) -> Play<Switch> {
    Play::of(seed)
}

/// Returns the endpoints that a client uses of these.
fn used(
    client: &mut Play<Switch>,
    size: u32,
    range: std::ops::Range<usize>,
) -> BTreeSet<SocketAddr> {
    let names = names(range);
    let config = subsetting(size, PolicyConfig::RoundRobin);
    client.up(&names).update_to(&target(&config, &endpoints(&names)));
    client.spread(usize::try_from(size).expect("a size") * 2).into_keys().collect()
}

/// C-117: spread bounds. Each of 600 clients uses 5 of 50; each endpoint is used by 60 of them, and the
/// bound is five standard deviations, 5 × sqrt(600 × 0.1 × 0.9).
#[test]
fn clients_are_spread_over_all_endpoints() {
    let mut clients = BTreeMap::<_, usize>::new();
    for seed in 0..600 {
        let used = used(&mut client(seed), 5, 1..51);
        assert_eq!(used.len(), 5);
        used.into_iter().for_each(|address| *clients.entry(address).or_default() += 1);
    }
    assert_eq!(clients.len(), 50);
    assert!(clients.values().all(|count| (23..97).contains(count)), "{clients:?}");
}

/// C-117: churn bounds. One endpoint that comes or goes changes at most one connection of a client, and
/// of few clients at all.
#[test]
fn few_connections_change_when_endpoints_come_and_go() {
    let (mut after_one_went, mut after_one_came) = (0, 0);
    for seed in 0..200 {
        let mut client = client(seed);
        let before = used(&mut client, 5, 1..51);
        client.dialled();
        let without_the_first = used(&mut client, 5, 2..51);
        let kept = before.intersection(&without_the_first).count();
        assert_eq!(client.dialled().len(), 5 - kept);
        assert!(kept >= 4, "{before:?} {without_the_first:?}");
        after_one_went += 5 - kept;
        let with_one_more = used(&mut client, 5, 2..52);
        let kept = without_the_first.intersection(&with_one_more).count();
        assert!(kept >= 4);
        after_one_came += 5 - kept;
    }
    assert!(
        (1..42).contains(&after_one_went),
        "{after_one_went} of 200 clients, and 20 on average"
    );
    assert!((1..42).contains(&after_one_came), "{after_one_came}");
}

/// C-117: above any policy, which may change; and a subset of few endpoints is all of them.
#[test]
fn it_stands_above_any_policy() {
    let mut play = Play::new();
    play.up("1 2 3").update(&subsetting(2, PolicyConfig::RoundRobin), &endpoints("1 2 3"));
    let two: Vec<_> = play.spread(10).into_keys().collect();
    assert_eq!((two.len(), play.open()), (2, 2));
    play.update(&subsetting(2, PolicyConfig::PickFirst { shuffle: false }), &endpoints("1 2 3"));
    play.call();
    let one = play.spread(10);
    assert!(one.len() == 1 && two.contains(one.keys().next().expect("one")), "{one:?} of {two:?}");
    play.update(&subsetting(7, PolicyConfig::RoundRobin), &endpoints("1 2 3"));
    assert_eq!(play.spread(9).len(), 3);
}
