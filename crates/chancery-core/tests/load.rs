//! Load reports as a server takes them: what a client is told to report, and what becomes of its reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::server::load::{
    ClusterSelection, ClusterStats, EndpointStats, InvalidInterval, LeftOut, LoadBook, LoadBounds,
    LoadCounts, LoadInterval, LoadKey, LoadReporting, LoadStream, LocalityStats, MetricStats,
    SeriesView, Slot,
};
use chancery_core::{Locality, Node, Time};
use proptest::prelude::*;

const FEATURE: &str = "envoy.lrs.supports_send_all_clusters";

fn node(features: &[&str]) -> Option<Arc<Node>> {
    let client_features = features.iter().map(ToString::to_string).collect();
    Some(Arc::new(Node { id: "n".to_owned(), client_features, ..Node::default() }))
}

fn interval(seconds: u64) -> LoadInterval {
    LoadInterval::new(Duration::from_secs(seconds)).unwrap()
}

fn every(seconds: u64) -> Option<LoadReporting> {
    Some(LoadReporting { interval: interval(seconds), by_endpoint: false })
}

fn names(names: &[&str]) -> std::collections::BTreeSet<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn at(seconds: u64) -> Time {
    Time(Duration::from_secs(seconds))
}

fn zone(zone: &str) -> Locality {
    Locality { zone: zone.to_owned(), ..Locality::default() }
}

fn calls(issued: u64, failed: u64, in_progress: u64) -> LocalityStats {
    let succeeded = issued - failed;
    LocalityStats { issued, succeeded, errored: failed, in_progress, ..LocalityStats::default() }
}

fn cluster(name: &str, localities: &[(&str, LocalityStats)]) -> ClusterStats {
    let localities = localities.iter().map(|(name, stats)| (zone(name), stats.clone())).collect();
    let key = LoadKey { cluster: name.into(), service: "".into() };
    ClusterStats { key, localities, interval: Duration::from_secs(10), ..ClusterStats::default() }
}

/// Adds a report of somebody who may hold everything.
fn add(book: &mut LoadBook, now: u64, reporter: u64, stats: &ClusterStats) -> LeftOut {
    book.record(at(now), reporter, stats, &mut |_| true)
}

fn all(book: &LoadBook, now: u64) -> Vec<SeriesView> {
    book.series_after(at(now), None, usize::MAX)
}

fn book_of(reporters: u64) -> LoadBook {
    let mut book = LoadBook::new(LoadBounds::default());
    (1..=reporters).for_each(|reporter| book.open(at(0), reporter, node(&[])));
    book
}

#[test]
fn a_client_is_answered_as_soon_as_it_has_spoken() {
    // S-130
    let mut stream = LoadStream::default();
    assert_eq!(stream.poll(), None);
    assert!(stream.receive(node(&[])));
    stream.want(every(10), || Some(names(&["a"])));
    assert!(stream.poll().is_some());
    assert_eq!(stream.poll(), None, "it is said once");
    assert!(!stream.receive(node(&[])));
    assert_eq!(stream.poll(), None);
}

#[test]
fn an_interval_is_always_positive_and_at_most_an_hour() {
    // S-131
    for interval in [None, every(1), every(3600)] {
        let mut stream = LoadStream::default();
        stream.receive(node(&[FEATURE]));
        stream.want(interval, || Some(names(&[])));
        let told = stream.poll().unwrap().interval.unwrap();
        assert!(told > Duration::ZERO && told <= Duration::from_secs(3600), "{told:?}");
    }
    for millis in [0, 999, 3_600_001] {
        let time = Duration::from_millis(millis);
        assert_eq!(LoadInterval::new(time), Err(InvalidInterval(time)));
    }
}

#[test]
fn all_clusters_are_asked_for_only_where_a_client_can_be_asked_so() {
    // S-132
    let told = |features: &[&str]| {
        let mut stream = LoadStream::default();
        stream.receive(node(features));
        stream.want(every(10), || Some(names(&["a", "b"])));
        stream.poll().unwrap().clusters
    };
    assert_eq!(told(&["other", FEATURE]), ClusterSelection::All);
    assert_eq!(told(&["other"]), ClusterSelection::Named(names(&["a", "b"])));
}

#[test]
fn another_choice_is_told_later_and_the_same_one_is_not() {
    // S-132, S-133
    let mut stream = LoadStream::default();
    stream.receive(node(&[]));
    stream.want(every(10), || Some(names(&["a"])));
    stream.poll().unwrap();
    stream.want(every(10), || Some(names(&["a"])));
    assert_eq!(stream.poll(), None);
    stream.want(every(10), || None);
    assert_eq!(stream.poll(), None);
    stream.want(every(10), || Some(names(&["a", "b"])));
    assert_eq!(stream.poll().unwrap().clusters, ClusterSelection::Named(names(&["a", "b"])));
    stream.want(every(20), || Some(names(&["a", "b"])));
    assert_eq!(stream.poll().unwrap().interval, Some(Duration::from_secs(20)));
    stream.want(None, || panic!("nothing is asked for"));
    assert_eq!(stream.poll().unwrap().clusters, ClusterSelection::Named(names(&[])));
    assert_eq!(stream.told(), Some(Duration::from_secs(3600)));
}

#[test]
fn a_client_that_does_not_say_who_it_is_reports_too() {
    let mut stream = LoadStream::default();
    assert!(stream.receive(Some(Arc::default())));
    assert_eq!(stream.node(), None);
    stream.want(every(10), || Some(names(&["a"])));
    assert!(stream.poll().is_some());
}

#[test]
fn reports_are_summed_by_cluster_service_and_locality() {
    // S-133
    let mut book = book_of(2);
    add(&mut book, 10, 1, &cluster("a", &[("x", calls(10, 1, 3)), ("y", calls(5, 0, 0))]));
    add(&mut book, 12, 2, &cluster("a", &[("x", calls(7, 2, 2))]));
    add(&mut book, 20, 1, &cluster("a", &[("x", calls(1, 0, 1))]));
    let mut other = cluster("a", &[("x", calls(100, 0, 0))]);
    other.key.service = "s".into();
    add(&mut book, 20, 1, &other);
    let found: Vec<_> = all(&book, 20)
        .iter()
        .map(|it| {
            let zone = it.key.locality.as_ref().unwrap().zone.clone();
            (it.key.cluster.service.to_string(), zone, it.totals.issued, it.in_progress)
        })
        .collect();
    let expected = [("", "x", 18, 3), ("", "y", 5, 0), ("s", "x", 100, 0)];
    assert_eq!(found, expected.map(|(s, z, n, p)| (s.to_owned(), z.to_owned(), n, p)));
    let one = book.reporter_after(None).unwrap();
    assert_eq!((one.id, one.totals.issued, one.totals.failed), (1, 116, 1));
    assert_eq!(one.rows.len(), 3);
    assert_eq!(book.reporter_after(Some(1)).unwrap().totals.issued, 7);
    assert!(book.reporter_after(Some(2)).is_none());
}

#[test]
fn drops_are_summed_by_category_and_metrics_by_name() {
    // S-133
    let mut book = book_of(1);
    for _ in 0..2 {
        let mut stats = calls(1, 0, 0);
        stats.cpu = MetricStats { requests: 1, total: 0.5 };
        stats.named.insert("queue".into(), MetricStats { requests: 2, total: 8.0 });
        let mut stats = cluster("a", &[("x", stats)]);
        stats.drops = [("lb".into(), 3), ("throttle".into(), 1)].into();
        stats.dropped = 5;
        add(&mut book, 10, 1, &stats);
    }
    let [drops, x] = &all(&book, 10)[..] else { panic!("two series") };
    assert_eq!((drops.key.locality.is_none(), drops.totals.dropped), (true, 10));
    assert_eq!(drops.drops, BTreeMap::from([("lb".into(), 6), ("throttle".into(), 2)]));
    assert_eq!(x.metrics["cpu_utilization"], MetricStats { requests: 2, total: 1.0 });
    assert_eq!(x.metrics["queue"], MetricStats { requests: 4, total: 16.0 });
    assert_eq!(x.totals, LoadCounts { issued: 2, succeeded: 2, ..LoadCounts::default() });
}

#[test]
fn series_stay_for_a_while_when_their_reporters_are_gone() {
    let mut book = book_of(2);
    add(&mut book, 10, 1, &cluster("a", &[("x", calls(10, 0, 4))]));
    add(&mut book, 10, 2, &cluster("a", &[("x", calls(10, 0, 2))]));
    book.close(1);
    assert_eq!((all(&book, 10)[0].totals.issued, all(&book, 10)[0].in_progress), (20, 2));
    book.close(2);
    assert_eq!((all(&book, 10)[0].totals.issued, all(&book, 10)[0].in_progress), (20, 0));
    assert_eq!(book.size(), (0, 1));
    book.open(at(20), 3, None);
    add(&mut book, 20, 3, &cluster("a", &[("x", calls(1, 0, 1))]));
    assert_eq!((all(&book, 20)[0].totals.issued, all(&book, 20)[0].in_progress), (21, 1));
}

#[test]
fn of_series_without_reporters_the_last_are_kept() {
    // The limit is the size of two of them, and then a byte less.
    let of = |name: &str| cluster(name, &[("x", calls(1, 0, 0))]);
    let left = |max_left_bytes| {
        let mut book = LoadBook::new(LoadBounds { max_left_bytes, ..LoadBounds::default() });
        for (reporter, name) in [(1, "b"), (2, "a"), (3, "c")] {
            book.open(at(0), reporter, None);
            add(&mut book, 1, reporter, &of(name));
        }
        (1..=3).for_each(|reporter| book.close(reporter));
        let names = all(&book, 1).into_iter().map(|it| it.key.cluster.cluster.to_string());
        names.collect::<Vec<_>>()
    };
    let mut book = book_of(1);
    let before = book.held_bytes(1);
    add(&mut book, 1, 1, &of("a"));
    let row = 160 + "ax".len();
    let series = book.held_bytes(1) - before - row;
    assert_eq!(left(2 * series), ["a", "c"]);
    assert_eq!(left(2 * series - 1), ["c"]);
    assert_eq!(left(0), [""; 0]);
}

#[test]
fn a_reporter_has_so_many_rows_and_no_more() {
    let bounds = LoadBounds { max_rows: 3, ..LoadBounds::default() };
    let mut book = LoadBook::new(bounds);
    book.open(at(0), 1, None);
    let one = || calls(1, 0, 0);
    let full = cluster("a", &[("x", one()), ("y", one()), ("z", one())]);
    assert!(add(&mut book, 1, 1, &full).is_nothing());
    let left_out = add(&mut book, 2, 1, &cluster("b", &[("x", one()), ("y", one())]));
    assert_eq!(left_out, LeftOut { rows: 2, ..LeftOut::default() });
    assert!(add(&mut book, 3, 1, &full).is_nothing(), "those it has go on");
    assert_eq!(book.reporter_after(None).unwrap().totals.issued, 6);
    assert_eq!(book.size(), (1, 3));
}

#[test]
fn calls_to_an_endpoint_are_counted_once_and_shown_apart() {
    // S-133
    let mut book = book_of(2);
    let to = |issued| EndpointStats { issued, succeeded: issued, ..EndpointStats::default() };
    let metric = MetricStats { requests: 1, total: 0.5 };
    let one = EndpointStats { named: [("queue".into(), metric)].into(), ..to(2) };
    let endpoints = [("192.0.2.1:80".into(), one), ("192.0.2.2:80".into(), to(3))].into();
    let stats = cluster("a", &[("x", LocalityStats { endpoints, ..calls(5, 0, 0) })]);
    assert!(add(&mut book, 1, 1, &stats).is_nothing());
    assert!(add(&mut book, 1, 2, &stats).is_nothing());
    assert_eq!(book.reporter_after(None).unwrap().totals.issued, 5);
    let found = all(&book, 1);
    let shown = found.iter().map(|it| (it.key.endpoint.as_deref(), it.totals.issued));
    let expected = [(None, 10), (Some("192.0.2.1:80"), 4), (Some("192.0.2.2:80"), 6)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!(found[1].metrics["queue"].requests, 2);
    let mut wrong = stats.clone();
    let place = wrong.localities.get_mut(&zone("x")).unwrap();
    place.endpoints.insert("192.0.2.1:80".into(), to(u64::MAX));
    assert_eq!(add(&mut book, 2, 1, &wrong).numbers, 1);
    assert_eq!(all(&book, 2)[0].totals.issued, 15);
}

#[test]
fn a_client_that_keeps_to_its_first_interval_is_waited_for_so_long() {
    // S-132, S-133
    let mut book = book_of(1);
    let covers = |seconds| ClusterStats {
        interval: Duration::from_secs(seconds),
        ..cluster("a", &[("x", calls(1, 0, 0))])
    };
    book.is_to_report(1, interval(60));
    add(&mut book, 60, 1, &covers(60));
    book.is_to_report(1, interval(10));
    assert_eq!(book.longest_interval(), interval(60), "its last report covers a minute");
    add(&mut book, 120, 1, &covers(60));
    assert_eq!(book.longest_interval(), interval(60));
    add(&mut book, 130, 1, &covers(10));
    assert_eq!(book.longest_interval(), interval(10));
    add(&mut book, 140, 1, &covers(3_000));
    assert_eq!(book.longest_interval(), interval(60), "it was never told more");
}

#[test]
fn whoever_may_hold_no_more_takes_nothing_from_others() {
    let mut book = book_of(2);
    add(&mut book, 1, 1, &cluster("a", &[("x", calls(1, 0, 0))]));
    let mut room = 20_000_usize;
    let mut asked = |bytes: usize| {
        room.checked_sub(bytes).is_some_and(|rest| {
            room = rest;
            true
        })
    };
    let mut left_out = 0;
    for number in 0..1_000 {
        let stats = cluster(&format!("hostile-{number}"), &[("x", calls(1, 0, 0))]);
        left_out += book.record(at(2), 2, &stats, &mut asked).memory;
    }
    assert!((900..1_000).contains(&left_out), "{left_out}");
    assert!(book.held_bytes(2) <= 20_000 + 1_000);
    assert_eq!(all(&book, 2)[0].totals.issued, 1);
    assert!(add(&mut book, 3, 1, &cluster("b", &[("x", calls(1, 0, 0))])).is_nothing());
}

#[test]
fn names_in_the_series_of_others_have_a_bound_together() {
    let bounds = LoadBounds { max_lent_bytes: 2_000, ..LoadBounds::default() };
    let mut book = LoadBook::new(bounds);
    book.open(at(0), 1, None);
    let names = ["a", "b", "c"];
    for name in names {
        add(&mut book, 1, 1, &cluster(name, &[("x", calls(1, 0, 0))]));
    }
    let mut kept = 0;
    for reporter in 2..50 {
        book.open(at(1), reporter, None);
        for name in names {
            let metric = MetricStats { requests: 1, total: 1.0 };
            let named = [(reporter.to_string().into(), metric)].into();
            let stats = cluster(name, &[("x", LocalityStats { named, ..calls(1, 0, 0) })]);
            kept += u64::from(add(&mut book, 1, reporter, &stats).is_nothing());
        }
        book.close(reporter);
    }
    assert!((10..25).contains(&kept), "{kept}");
    let found = all(&book, 1);
    let metrics = found.iter().map(|series| series.metrics.len() as u64).sum::<u64>();
    assert_eq!((metrics, found[0].totals.issued), (kept, 49), "calls are counted all the same");
    let named = [("own".into(), MetricStats { requests: 1, total: 1.0 })].into();
    let stats = cluster("a", &[("x", LocalityStats { named, ..calls(1, 0, 0) })]);
    assert!(add(&mut book, 2, 1, &stats).is_nothing(), "its owner has a share of its own");
    // Whoever takes over a series is charged for all of it, so that others may add names again.
    book.close(1);
    book.open(at(3), 60, None);
    assert!(add(&mut book, 3, 60, &stats).is_nothing());
    assert!(book.held_bytes(60) > 3_000);
    book.open(at(3), 61, None);
    let named = [("other".into(), MetricStats { requests: 1, total: 1.0 })].into();
    let stats = cluster("a", &[("x", LocalityStats { named, ..calls(1, 0, 0) })]);
    assert!(add(&mut book, 3, 61, &stats).is_nothing());
}

#[test]
fn what_no_client_counts_is_left_out_and_the_rest_is_taken() {
    let mut book = book_of(1);
    let most = 1_000_000_000_000;
    let mut stats = cluster("a", &[("most", calls(most, 0, 0)), ("more", calls(most + 1, 0, 0))]);
    stats
        .localities
        .insert(zone("minus"), LocalityStats { in_progress: u64::MAX, ..calls(1, 0, 0) });
    let metric = |total| MetricStats { requests: 1, total };
    let x = stats.localities.get_mut(&zone("most")).unwrap();
    x.named = [("nan", f64::NAN), ("inf", f64::INFINITY), ("big", f64::MAX), ("fine", 1.0)]
        .map(|(name, total)| (name.into(), metric(total)))
        .into();
    assert_eq!(add(&mut book, 1, 1, &stats).numbers, 4);
    assert_eq!(add(&mut book, 1, 1, &stats).numbers, 5, "the sum of `big` has no end");
    let found = all(&book, 1);
    assert_eq!((found.len(), found[0].totals.issued), (1, 2 * most));
    assert_eq!(found[0].metrics.keys().map(|name| &**name).collect::<Vec<_>>(), ["big", "fine"]);
    let dropped = ClusterStats { dropped: u64::MAX, ..cluster("a", &[]) };
    assert_eq!(add(&mut book, 1, 1, &dropped).numbers, 1);
}

#[test]
fn names_are_as_long_as_they_may_be_and_no_longer() {
    let long = |length: usize| "n".repeat(length);
    let taken = |stats: &ClusterStats| add(&mut book_of(1), 1, 1, stats);
    let one = || calls(1, 0, 0);
    assert!(taken(&cluster(&long(4096), &[(&long(4096), one())])).is_nothing());
    assert_eq!(taken(&cluster(&long(4097), &[("x", one())])).names, 1);
    assert_eq!(taken(&cluster("a", &[(&long(4097), one()), ("x", one())])).names, 1);
    let mut stats = cluster("a", &[]);
    stats.drops = [(long(256).into(), 1), (long(257).into(), 1)].into();
    assert_eq!(taken(&stats).names, 1);
    stats.drops = (0..33).map(|number| (number.to_string().into(), 1)).collect();
    assert_eq!(taken(&stats), LeftOut { rows: 1, ..LeftOut::default() });
}

proptest! {
    /// S-133: whatever intervals reports state, whatever order they come in, and whoever leaves meanwhile.
    #[test]
    fn reports_sum_up_to_the_calls_that_were_made(
        reports in proptest::collection::vec(
            (0..4_u64, 0..3_usize, 0..2_usize, 0..1_000_u64, 0..20_000_u64, any::<bool>()), 0..80,
        ),
    ) {
        let mut book = book_of(3);
        let (mut issued, mut now) = (BTreeMap::<_, u64>::new(), 1_000_000);
        for (reporter, name, place, count, millis, leaves) in reports {
            if reporter == 0 || leaves {
                book.close(reporter);
                book.open(at(now), reporter, None);
            }
            let (name, place) = (["a", "b", "c"][name], ["x", "y"][place]);
            let mut stats = cluster(name, &[(place, calls(count, count / 2, 1))]);
            stats.interval = Duration::from_millis(millis);
            prop_assert!(add(&mut book, now, reporter, &stats).is_nothing());
            *issued.entry((name.to_owned(), place.to_owned())).or_default() += count;
            now += millis / 10_000;
        }
        let found = all(&book, now);
        let sums = found.iter().map(|it| {
            let key = (it.key.cluster.cluster.to_string(), it.key.locality.clone().unwrap().zone.clone());
            (key, it.totals.issued)
        });
        prop_assert_eq!(sums.collect::<BTreeMap<_, _>>(), issued);
        for series in found {
            let slots = series.slots.iter().map(|slot: &Slot| slot.counts.issued).sum::<u64>();
            prop_assert_eq!(slots, series.totals.issued);
            prop_assert!(series.in_progress <= 4);
        }
    }
}
