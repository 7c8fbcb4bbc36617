//! `least_request`: calls go where few are under way (C-115).

use std::collections::BTreeMap;

use chancery_calls::balancing::{ChoiceCount, Connectivity, Pick, Picked, PolicyConfig};

use crate::support::{Play, address, end, endpoints, in_locality};

fn least_request(choices: u32) -> PolicyConfig {
    PolicyConfig::LeastRequest(ChoiceCount::new(choices).expect("at least 2"))
}

fn begin(play: &mut Play) -> Picked {
    let Pick::To(picked) = play.pick() else { panic!("a call went nowhere") };
    picked.started();
    picked
}

/// C-115: a backend with skewed latency gets fewer RPCs. Calls to one of three endpoints take ten times
/// as long as to the others.
#[test]
fn a_slow_endpoint_gets_fewer_calls() {
    let mut play = Play::new();
    play.up("1 2 3").update(&least_request(2), &endpoints("1 2 3"));
    let mut under_way = Vec::<(usize, Picked)>::new();
    let mut counts = BTreeMap::<_, usize>::new();
    for now in 0..3_000 {
        let goes_on = |(at, picked): &(usize, Picked)| {
            let is_over = *at <= now;
            if is_over {
                picked.ended(&end(true));
            }
            !is_over
        };
        under_way.retain(goes_on);
        let picked = begin(&mut play);
        let is_slow = picked.endpoint.addresses[0] == address("3");
        *counts.entry(picked.endpoint.addresses[0]).or_default() += 1;
        under_way.push((now + if is_slow { 50 } else { 5 }, picked));
    }
    let slow = counts[&address("3")];
    assert!((60..600).contains(&slow), "{counts:?}");
    assert!(counts[&address("1")].abs_diff(counts[&address("2")]) < 150, "{counts:?}");
}

/// C-115: sample `choice_count` over ready endpoints. With ten choices of three, each call that begins
/// goes to one that has the fewest, but for the chance that it is never among them: 3 × (2/3)^10.
#[test]
fn more_choices_find_the_least_more_often() {
    let mut play = Play::new();
    play.up("1 2 3").update(&least_request(10), &endpoints("1 2 3 4"));
    assert_eq!(play.state(), Connectivity::Ready, "one refuses, and is not chosen");
    let mut counts = BTreeMap::<_, usize>::new();
    for _ in 0..300 {
        *counts.entry(begin(&mut play).endpoint.addresses[0]).or_default() += 1;
    }
    assert!(counts.values().all(|count| count.abs_diff(100) <= 3), "{counts:?}");
}

/// C-115: per-instance counters, which stay with an endpoint that stays.
#[test]
fn an_update_forgets_no_calls() {
    let mut play = Play::new();
    play.up("1 2 3").update(&least_request(10), &endpoints("1"));
    let first: Vec<_> = (0..50).map(|_| begin(&mut play)).collect();
    play.update(&least_request(10), &endpoints("1 2"));
    let to = |play: &mut Play| begin(play).endpoint.addresses[0];
    let others = (0..40).filter(|_| to(&mut play) == address("2")).count();
    assert!(others > 35, "{others}: the first one has 50");
    first.iter().for_each(|picked| picked.ended(&end(true)));
    let back = (0..30).filter(|_| to(&mut play) == address("1")).count();
    assert!(back > 25, "{back}: it has none left");
}

/// C-115: below 2 is a NACK, above 10 is clamped; weights are ignored.
#[test]
fn the_number_of_choices_is_from_2_to_10() {
    assert_eq!((ChoiceCount::new(0), ChoiceCount::new(1)), (None, None));
    assert_eq!(ChoiceCount::new(2), Some(ChoiceCount::default()));
    assert_eq!(ChoiceCount::new(u32::MAX), ChoiceCount::new(10));
    assert_ne!(ChoiceCount::new(9), ChoiceCount::new(10));
    let mut play = Play::new();
    play.up("1 2").update(&least_request(2), &in_locality("a", 1, "1*100 2"));
    let spread = play.spread(2_000);
    assert!(spread[&address("2")] > 850, "{spread:?}");
}
