//! `weighted_round_robin` with reports that come at the ends of calls, or by themselves (C-116).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    CallEnd, ErrorPenalty, Pick, PolicyConfig, UtilizationMetrics, WeightedRoundRobinConfig,
};
use chancery_core::client::load::OrcaReport;

use crate::support::{BACKOFF, Play, address, endpoints};

const SECOND: Duration = Duration::from_secs(1);

fn policy(config: WeightedRoundRobinConfig) -> PolicyConfig {
    PolicyConfig::WeightedRoundRobin(Arc::new(config))
}

fn by_default() -> PolicyConfig {
    policy(WeightedRoundRobinConfig::default())
}

/// Returns what a server says that has so many calls in a second, for which it needs this part of what
/// it has.
fn load(rate: f64, utilization: f64) -> OrcaReport {
    OrcaReport {
        rps_fractional: Some(rate),
        application_utilization: Some(utilization),
        cpu_utilization: Some(1.0),
        ..OrcaReport::default()
    }
}

/// Makes calls, each of which ends with the report of its server, if that has one. Returns how many went
/// to each of `1 2 3 4`.
fn calls(play: &mut Play, count: usize, reports: &[(&str, OrcaReport)]) -> [usize; 4] {
    let mut counts = BTreeMap::new();
    for _ in 0..count {
        let Pick::To(picked) = play.pick() else { panic!("a call went nowhere") };
        let to = picked.endpoint.addresses[0];
        picked.started();
        let report = reports.iter().find(|(name, _)| address(name) == to).map(|(_, it)| it);
        picked.ended(&CallEnd { succeeded: true, now: play.now, report });
        *counts.entry(to).or_default() += 1;
    }
    ["1", "2", "3", "4"].map(|name| counts.get(&address(name)).copied().unwrap_or_default())
}

/// Makes calls for a time, some each second.
fn calls_for(play: &mut Play, seconds: u32, reports: &[(&str, OrcaReport)]) {
    for _ in 0..seconds {
        calls(play, 8, reports);
        play.pass(SECOND);
    }
}

fn assert_near(counts: [usize; 4], expected: [usize; 4]) {
    let is_near = counts.iter().zip(expected).all(|(one, other)| one.abs_diff(other) <= 2);
    assert!(is_near, "{counts:?} and not {expected:?}");
}

/// C-116: blackout 10 s. Until then the calls are even, and then they are by weight.
#[test]
fn a_weight_is_used_after_ten_seconds_of_reports() {
    let reports = [("1", load(100.0, 0.5)), ("2", load(100.0, 0.25)), ("3", load(300.0, 0.5))];
    let mut play = Play::new();
    play.up("1 2 3").update(&by_default(), &endpoints("1 2 3"));
    calls_for(&mut play, 9, &reports);
    assert_near(calls(&mut play, 300, &reports), [100, 100, 100, 0]);
    calls_for(&mut play, 2, &reports);
    assert_near(calls(&mut play, 600, &reports), [100, 200, 300, 0]);
}

/// C-116: update period. New weights are used with the next second, or as often as configured.
#[test]
fn weights_are_used_when_their_time_has_come() {
    let config = WeightedRoundRobinConfig {
        blackout_period: Duration::ZERO,
        weight_update_period: Duration::from_millis(1),
        ..WeightedRoundRobinConfig::default()
    };
    for (period, config) in [
        (SECOND, WeightedRoundRobinConfig { weight_update_period: SECOND, ..config.clone() }),
        (Duration::from_millis(100), config),
    ] {
        let mut play = Play::new();
        play.up("1 2").update(&policy(config), &endpoints("1 2"));
        let reports = [("1", load(10.0, 0.1)), ("2", load(10.0, 0.3))];
        assert_eq!(calls(&mut play, 100, &reports), [50, 50, 0, 0]);
        play.pass(period - Duration::from_millis(1));
        assert_eq!(calls(&mut play, 100, &reports), [50, 50, 0, 0]);
        play.pass(Duration::from_millis(1));
        assert_near(calls(&mut play, 100, &reports), [75, 25, 0, 0]);
    }
}

/// C-116: expiry 3 min, and a new blackout after it.
#[test]
fn a_weight_without_reports_is_forgotten_after_three_minutes() {
    let reports = [("1", load(10.0, 0.1)), ("2", load(10.0, 0.3))];
    let mut play = Play::new();
    play.up("1 2").update(&by_default(), &endpoints("1 2"));
    calls_for(&mut play, 11, &reports);
    play.pass(178 * SECOND);
    assert_near(calls(&mut play, 100, &[]), [75, 25, 0, 0]);
    play.pass(2 * SECOND);
    assert_near(calls(&mut play, 100, &[]), [50, 50, 0, 0]);
    calls_for(&mut play, 9, &reports);
    assert_near(calls(&mut play, 100, &reports), [50, 50, 0, 0]);
    calls_for(&mut play, 2, &reports);
    assert_near(calls(&mut play, 100, &reports), [75, 25, 0, 0]);
}

/// C-116: error penalty. Half of the calls of one end with an error, which counts as half of what it has.
#[test]
fn errors_count_as_load() {
    let failing = OrcaReport { eps: Some(5.0), ..load(10.0, 0.5) };
    let reports = [("1", load(10.0, 0.5)), ("2", failing)];
    let penalty = |factor| WeightedRoundRobinConfig {
        error_utilization_penalty: ErrorPenalty::new(factor).expect("a factor"),
        ..WeightedRoundRobinConfig::default()
    };
    for (factor, expected) in
        [(1.0, [200, 100, 0, 0]), (3.0, [240, 60, 0, 0]), (0.0, [150, 150, 0, 0])]
    {
        let mut play = Play::new();
        play.up("1 2").update(&policy(penalty(factor)), &endpoints("1 2"));
        calls_for(&mut play, 11, &reports);
        assert_near(calls(&mut play, 300, &reports), expected);
    }
}

/// C-116: falls back to round robin under two weights; with two, the others have their mean.
#[test]
fn endpoints_that_say_nothing_get_the_mean() {
    let empty = OrcaReport { rps_fractional: None, ..load(1.0, 0.5) };
    let one = [("1", load(100.0, 0.5)), ("2", OrcaReport::default()), ("3", empty)];
    let mut play = Play::new();
    play.up("1 2 3 4").update(&by_default(), &endpoints("1 2 3 4"));
    calls_for(&mut play, 11, &one);
    assert_eq!(calls(&mut play, 400, &one), [100; 4]);
    let two = [("1", load(100.0, 0.5)), ("2", load(300.0, 0.5))];
    calls_for(&mut play, 11, &two);
    assert_near(calls(&mut play, 400, &two), [50, 150, 100, 100]);
    play.update(&by_default(), &endpoints("4 2 1"));
    assert_near(calls(&mut play, 300, &two), [50, 150, 0, 100]);
}

/// C-116: blackout after a new connection, because it may be a new program.
#[test]
fn a_connection_that_is_lost_takes_its_weight_along() {
    let reports = [("1", load(100.0, 0.5)), ("2", load(300.0, 0.5)), ("3", load(800.0, 0.5))];
    let mut play = Play::new();
    play.up("1 2 3").update(&by_default(), &endpoints("1 2 3"));
    calls_for(&mut play, 11, &reports);
    play.down("3");
    assert_near(calls(&mut play, 400, &reports), [100, 300, 0, 0]);
    play.up("3").pass(BACKOFF);
    assert_near(calls(&mut play, 600, &reports), [100, 300, 200, 0]);
    calls_for(&mut play, 11, &reports);
    assert_near(calls(&mut play, 1_200, &reports), [100, 300, 800, 0]);
}

/// C-116: out-of-band reports are asked for, and then those of calls do not count.
#[test]
fn reports_may_come_by_themselves() {
    let every = |period| WeightedRoundRobinConfig {
        out_of_band: period,
        ..WeightedRoundRobinConfig::default()
    };
    let of_calls = [("1", load(1.0, 0.1)), ("2", load(1.0, 0.1))];
    let mut play = Play::new();
    play.up("1 2").update(&policy(every(Some(5 * SECOND))), &endpoints("1 2"));
    for _ in 0..11 {
        assert_eq!(play.report("1", &load(10.0, 0.1)), Some(5 * SECOND));
        assert_eq!(play.report("2", &load(10.0, 0.3)), Some(5 * SECOND));
        calls_for(&mut play, 1, &of_calls);
    }
    assert_near(calls(&mut play, 400, &of_calls), [300, 100, 0, 0]);
    play.update(&policy(every(Some(7 * SECOND))), &endpoints("1 2"));
    assert_eq!(play.report("1", &load(10.0, 0.1)), Some(7 * SECOND));
    play.down("1").up("1").pass(BACKOFF);
    assert_eq!(play.report("1", &load(10.0, 0.1)), Some(7 * SECOND), "on the new connection too");
    play.update(&policy(every(None)), &endpoints("1 2"));
    assert_eq!(play.report("1", &load(10.0, 0.1)), None);
    calls_for(&mut play, 11, &of_calls);
    assert_near(calls(&mut play, 400, &of_calls), [200, 200, 0, 0]);
}

/// C-116: each look at the weights is counted, for the metrics of gRFC A78.
#[test]
fn what_is_known_of_weights_is_counted() {
    let mut play = Play::new();
    play.up("1 2 3").update(&by_default(), &endpoints("1 2 3 4"));
    let two = [("1", load(10.0, 0.1)), ("2", load(30.0, 0.1))];
    play.pass(5 * SECOND);
    calls(&mut play, 9, &two);
    play.pass(11 * SECOND);
    calls(&mut play, 9, &two[..1]);
    play.pass(170 * SECOND);
    let looks = std::mem::take(&mut play.weights);
    assert_eq!(looks.len(), 186, "each second");
    let look = |second: usize| {
        let of = &looks[second - 1];
        (of.weights.clone(), of.not_yet_usable, of.stale, of.is_fallback())
    };
    assert_eq!(look(1), (vec![0.0; 3], 3, 0, true));
    assert_eq!(look(14), (vec![0.0; 3], 3, 0, true));
    assert_eq!(look(15), (vec![100.0, 300.0, 0.0], 1, 0, false));
    assert_eq!(look(185), (vec![100.0, 0.0, 0.0], 1, 1, true), "one of them is too old");
    assert!(looks[0].locality.is_some());
}

/// C-116: metric names by gRFC A114.
#[test]
fn the_utilization_may_be_what_a_program_says() {
    let config = WeightedRoundRobinConfig {
        metrics: UtilizationMetrics::new(["named_metrics.queue"]),
        ..WeightedRoundRobinConfig::default()
    };
    let queue = |length| OrcaReport {
        named_metrics: [("queue".to_owned(), length)].into(),
        ..load(10.0, 0.5)
    };
    let reports = [("1", queue(1.0)), ("2", queue(4.0))];
    let mut play = Play::new();
    play.up("1 2").update(&policy(config), &endpoints("1 2"));
    calls_for(&mut play, 11, &reports);
    assert_near(calls(&mut play, 500, &reports), [400, 100, 0, 0]);
}
