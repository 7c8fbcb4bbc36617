//! Load reports: what is counted, when it is told, and that nothing is told twice or forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::client::Settings;
use chancery_core::client::load::{
    ClusterCounters, ClusterSelection, ClusterStats, LoadEvent, LoadKey, LoadMessage, LoadReport,
    LoadReporter, LoadResponse, LocalityCounters, MetricStats, OrcaReport, ReportedMetrics,
};
use chancery_core::{ErrorDetail, Locality, Node, Time};

fn at(seconds: u64) -> Time {
    Time(Duration::from_secs(seconds))
}

fn key(cluster: &str, service: &str) -> LoadKey {
    LoadKey { cluster: cluster.into(), service: service.into() }
}

fn zone(zone: &str) -> Locality {
    Locality { zone: zone.to_owned(), ..Locality::default() }
}

fn reporter() -> LoadReporter {
    let node = Node { id: "n".to_owned(), ..Node::default() };
    let settings = Settings { jitter: 0.0, ..Settings::default() };
    LoadReporter::new(Arc::new(node), settings, 0)
}

fn all(seconds: u64) -> LoadResponse {
    LoadResponse {
        clusters: ClusterSelection::All,
        interval: Some(Duration::from_secs(seconds)),
        by_endpoint: false,
    }
}

fn only(clusters: &[&str], seconds: u64) -> LoadResponse {
    let clusters = clusters.iter().map(|&cluster| cluster.into()).collect();
    let interval = Some(Duration::from_secs(seconds));
    LoadResponse { clusters: ClusterSelection::Named(clusters), interval, by_endpoint: false }
}

fn broken() -> ErrorDetail {
    ErrorDetail { code: ErrorDetail::UNAVAILABLE, message: "cut".to_owned() }
}

/// Opens the stream, and says what is said first.
#[track_caller]
fn open(reporter: &mut LoadReporter, now: Time) {
    assert!(reporter.is_due(now));
    reporter.opened(now);
    let first = report(reporter, now);
    assert_eq!(first.node.map(|node| node.id.clone()).as_deref(), Some("n"));
    assert_eq!(first.clusters, []);
    assert_eq!(reporter.next_message(now), None);
}

#[track_caller]
fn report(reporter: &mut LoadReporter, now: Time) -> LoadReport {
    match reporter.next_message(now) {
        Some(LoadMessage::Report(report)) => report,
        other => panic!("no report: {other:?}"),
    }
}

/// The only cluster in the next report.
#[track_caller]
fn told(reporter: &mut LoadReporter, now: Time) -> ClusterStats {
    let mut clusters = report(reporter, now).clusters;
    assert_eq!(clusters.len(), 1, "{clusters:?}");
    clusters.remove(0)
}

fn calls(tally: &LocalityCounters, succeeded: u64, errored: u64) {
    for number in 0..succeeded + errored {
        tally.started();
        tally.ended(number < succeeded, None);
    }
}

/// C-130
#[test]
fn a_stream_is_there_while_a_cluster_needs_it() {
    let mut reporter = reporter();
    assert!(!reporter.is_due(at(0)));
    assert_eq!(reporter.deadline(), None);
    let _tally = reporter.add_cluster(at(1), key("a", ""));
    open(&mut reporter, at(1));
    assert!(!reporter.is_due(at(1)), "one stream for each server");
    let _other = reporter.add_cluster(at(2), key("b", ""));
    assert!(!reporter.is_due(at(2)));
    reporter.remove_cluster(&key("a", ""));
    assert_eq!(reporter.next_message(at(3)), None);
    reporter.remove_cluster(&key("b", ""));
    assert_eq!(reporter.next_message(at(3)), Some(LoadMessage::End));
    assert_eq!(reporter.next_message(at(3)), None, "it is said once");
    // Another one comes while the stream ends: it waits for the next.
    let _late = reporter.add_cluster(at(4), key("c", ""));
    assert_eq!(reporter.next_message(at(4)), None);
    assert!(!reporter.is_due(at(4)));
    reporter.ended(at(5), ErrorDetail::default());
    let again = reporter.deadline().unwrap();
    open(&mut reporter, again);
}

/// C-130: the last cluster goes before there is a stream.
#[test]
fn a_stream_that_nobody_needs_any_more_is_not_opened_again() {
    let mut reporter = reporter();
    let tally = reporter.add_cluster(at(0), key("a", ""));
    tally.dropped(None);
    assert!(reporter.is_due(at(0)));
    reporter.remove_cluster(&key("a", ""));
    assert!(!reporter.is_wanted());
    reporter.ended(at(1), broken());
    assert_eq!(reporter.deadline(), None);
    assert!(!reporter.is_due(at(1000)) && reporter.is_at_rest());
    // Nothing is lost in silence.
    let events = reporter.take_events();
    assert!(events.contains(&LoadEvent::Lost { calls: 1 }), "{events:?}");
    assert!(matches!(events[0], LoadEvent::Ended { is_trouble: false, .. }), "{events:?}");
}

/// C-131
#[test]
fn the_server_says_which_clusters_and_how_often() {
    let mut reporter = reporter();
    let (a, b) =
        (reporter.add_cluster(at(0), key("a", "")), reporter.add_cluster(at(0), key("b", "")));
    open(&mut reporter, at(0));
    a.dropped(None);
    b.dropped(None);
    assert_eq!(reporter.deadline(), None, "nothing is told before it is asked for");
    reporter.answered(at(5), only(&["a", "nobody"], 10));
    assert_eq!(reporter.deadline(), Some(at(15)));
    assert_eq!(reporter.next_message(at(14)), None);
    assert_eq!(&*told(&mut reporter, at(15)).key.cluster, "a");
    assert_eq!(reporter.deadline(), Some(at(25)));
    // Sooner, and the other one: what it counted is there.
    reporter.answered(at(16), only(&["b"], 2));
    assert_eq!(reporter.deadline(), Some(at(17)));
    a.dropped(None);
    let b_stats = told(&mut reporter, at(17));
    assert_eq!((&*b_stats.key.cluster, b_stats.dropped), ("b", 1));
    // Later, and all.
    reporter.answered(at(18), all(100));
    assert_eq!(reporter.next_message(at(116)), None);
    let a_stats = told(&mut reporter, at(117));
    assert_eq!((&*a_stats.key.cluster, a_stats.dropped), ("a", 1));
    assert_eq!(a_stats.interval, Duration::from_secs(117 - 15));
}

/// C-131: an interval that is none is not obeyed, and one that is too small is not either.
#[test]
fn an_interval_has_to_be_one() {
    for interval in [None, Some(Duration::ZERO)] {
        let mut reporter = reporter();
        let _tally = reporter.add_cluster(at(0), key("a", ""));
        open(&mut reporter, at(0));
        reporter.answered(
            at(0),
            LoadResponse { clusters: ClusterSelection::All, interval, by_endpoint: false },
        );
        assert!(matches!(reporter.take_events()[..], [.., LoadEvent::Unusable { .. }]));
        assert_eq!(reporter.next_message(at(1)), Some(LoadMessage::End));
        reporter.ended(at(1), ErrorDetail::default());
        assert_eq!(reporter.deadline(), Some(at(2)), "it was no answer");
    }
    for (asked, had) in [(1, 10), (9, 10), (10, 10), (11, 11)] {
        let mut reporter = reporter();
        let _tally = reporter.add_cluster(at(0), key("a", ""));
        open(&mut reporter, at(0));
        let interval = Some(Duration::from_millis(asked));
        reporter.answered(
            at(0),
            LoadResponse { clusters: ClusterSelection::All, interval, by_endpoint: false },
        );
        assert_eq!(reporter.deadline(), Some(Time(Duration::from_millis(had))));
    }
}

/// C-132
#[test]
fn calls_are_counted_by_cluster_service_and_locality() {
    let mut reporter = reporter();
    let one = reporter.add_cluster(at(0), key("a", "one"));
    let two = reporter.add_cluster(at(3), key("a", "two"));
    // The same again is the same.
    let same = reporter.add_cluster(at(4), key("a", "one"));
    let (east, west) = (one.locality(&zone("east")), one.locality(&zone("west")));
    calls(&east, 5, 2);
    calls(&west, 1, 0);
    calls(&same.locality(&zone("east")), 1, 0);
    calls(&two.locality(&zone("east")), 0, 7);
    east.started();
    for category in [Some("throttle"), Some("throttle"), Some("lb"), None] {
        one.dropped(category);
    }
    open(&mut reporter, at(5));
    reporter.answered(at(5), all(10));
    let clusters = report(&mut reporter, at(15)).clusters;
    let [first, second] = &clusters[..] else { panic!("{clusters:?}") };
    assert_eq!((&first.key, &second.key), (&key("a", "one"), &key("a", "two")));
    let counts = |stats: &ClusterStats, of: &str| {
        let stats = &stats.localities[&zone(of)];
        (stats.issued, stats.succeeded, stats.errored, stats.in_progress)
    };
    assert_eq!(counts(first, "east"), (9, 6, 2, 1));
    assert_eq!(counts(first, "west"), (1, 1, 0, 0));
    assert_eq!(counts(second, "east"), (7, 0, 7, 0));
    // A request that a circuit breaker drops is in the total alone (A32).
    assert_eq!(first.drops, BTreeMap::from([("throttle".into(), 2), ("lb".into(), 1)]));
    assert_eq!((first.dropped, second.dropped), (4, 0));
    // Since each of them began to count.
    assert_eq!(first.interval, Duration::from_secs(15));
    assert_eq!(second.interval, Duration::from_secs(12));
}

/// C-132, C-133
#[test]
fn what_was_told_is_not_told_again_and_what_goes_on_is() {
    let mut reporter = reporter();
    let tally = reporter.add_cluster(at(0), key("a", ""));
    let east = tally.locality(&zone("east"));
    calls(&east, 3, 0);
    east.started();
    tally.dropped(Some("lb"));
    open(&mut reporter, at(0));
    reporter.answered(at(0), all(10));
    assert_eq!(told(&mut reporter, at(10)).localities[&zone("east")].issued, 4);
    // Late by two seconds: the interval is the true one.
    let next = told(&mut reporter, at(22));
    assert_eq!(next.interval, Duration::from_secs(12));
    assert_eq!((next.dropped, next.drops.len()), (0, 0));
    let stats = &next.localities[&zone("east")];
    assert_eq!((stats.issued, stats.succeeded, stats.in_progress), (0, 0, 1));
    east.ended(true, None);
    let stats = told(&mut reporter, at(32)).localities[&zone("east")].clone();
    assert_eq!((stats.issued, stats.succeeded, stats.in_progress), (0, 1, 0));
    // Nothing happened: the report says that the client is there.
    assert_eq!(report(&mut reporter, at(42)).clusters, []);
}

/// C-133
#[test]
fn what_is_counted_without_a_stream_is_told_on_the_next_one() {
    let mut reporter = reporter();
    let tally = reporter.add_cluster(at(0), key("a", ""));
    let east = tally.locality(&zone("east"));
    open(&mut reporter, at(0));
    reporter.answered(at(0), all(10));
    calls(&east, 1, 0);
    told(&mut reporter, at(10));
    calls(&east, 2, 0);
    reporter.ended(at(15), broken());
    calls(&east, 4, 0);
    open(&mut reporter, at(20));
    assert_eq!(reporter.next_message(at(40)), None, "a new stream is a new question");
    reporter.answered(at(40), all(10));
    let stats = told(&mut reporter, at(50));
    assert_eq!(stats.localities[&zone("east")].succeeded, 6);
    assert_eq!(stats.interval, Duration::from_secs(40));
}

/// C-133: what could not be written is as if it had never been taken.
#[test]
fn a_report_that_could_not_be_written_is_told_again() {
    let mut reporter = reporter();
    let tally = reporter.add_cluster(at(0), key("a", ""));
    let east = tally.locality(&zone("east"));
    calls(&east, 3, 1);
    east.started();
    tally.dropped(Some("lb"));
    open(&mut reporter, at(0));
    reporter.answered(at(0), all(10));
    let report = report(&mut reporter, at(10));
    calls(&east, 1, 0);
    reporter.not_sent(at(10), &report);
    reporter.ended(at(10), broken());
    let again = reporter.deadline().unwrap();
    open(&mut reporter, again);
    reporter.answered(again, all(10));
    let stats = told(&mut reporter, again + Duration::from_secs(10));
    let east = &stats.localities[&zone("east")];
    assert_eq!((east.issued, east.succeeded, east.errored, east.in_progress), (6, 4, 1, 1));
    assert_eq!((stats.dropped, stats.drops["lb"]), (1, 1));
    assert_eq!(stats.interval, again.0 + Duration::from_secs(10));
}

/// C-133
#[test]
fn waits_grow_until_the_server_answers() {
    let mut reporter = reporter();
    let _tally = reporter.add_cluster(at(0), key("a", ""));
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..200 {
        assert!(reporter.is_due(now));
        reporter.ended(now, broken());
        let next = reporter.deadline().unwrap();
        waits.push(next.0 - now.0);
        assert!(!reporter.is_due(now));
        now = next;
    }
    assert!(waits.is_sorted() && waits[0] < waits[3], "{waits:?}");
    assert_eq!(waits[199], Settings::default().backoff_max);
    // A stream without an answer is no success, and one with an answer is.
    open(&mut reporter, now);
    reporter.ended(now, broken());
    assert_eq!(reporter.deadline(), Some(now + Settings::default().backoff_max));
    now = reporter.deadline().unwrap();
    open(&mut reporter, now);
    reporter.answered(now, all(10));
    now = now + Duration::from_secs(100);
    reporter.ended(now, broken());
    assert_eq!(reporter.deadline(), Some(now), "a stream that lived is opened again at once");
    reporter.is_due(now);
    reporter.ended(now, broken());
    assert_eq!(reporter.deadline(), Some(now + Settings::default().backoff));
    let trouble = |event: &LoadEvent| matches!(event, LoadEvent::Ended { is_trouble: true, .. });
    assert_eq!(reporter.take_events().iter().filter(|event| trouble(event)).count(), 202);
}

/// C-133: at the end of a cluster, and at the end of the client.
#[test]
fn the_last_word_tells_what_is_left() {
    for closes in [false, true] {
        let mut reporter = reporter();
        let tally = reporter.add_cluster(at(0), key("a", ""));
        open(&mut reporter, at(0));
        reporter.answered(at(0), all(10));
        tally.dropped(None);
        if closes {
            reporter.close();
        } else {
            reporter.remove_cluster(&key("a", ""));
        }
        let stats = told(&mut reporter, at(4));
        assert_eq!((stats.dropped, stats.interval), (1, Duration::from_secs(4)));
        // Whoever counts on does not put it off.
        tally.dropped(None);
        assert_eq!(reporter.next_message(at(4)), Some(LoadMessage::End));
        assert_eq!(reporter.deadline(), None);
        reporter.ended(at(5), ErrorDetail::default());
        assert!(reporter.is_at_rest() && !reporter.is_due(at(1000)));
    }
}

/// C-133: a cluster goes while the server is away and another one still needs it.
#[test]
fn a_cluster_that_has_gone_is_told_of_all_the_same() {
    let mut reporter = reporter();
    let gone = reporter.add_cluster(at(0), key("gone", ""));
    let _stays = reporter.add_cluster(at(0), key("stays", ""));
    gone.dropped(None);
    drop(gone);
    reporter.remove_cluster(&key("gone", ""));
    open(&mut reporter, at(100));
    reporter.answered(at(100), all(10));
    assert_eq!(told(&mut reporter, at(110)).dropped, 1);
    assert_eq!(report(&mut reporter, at(120)).clusters, []);
}

/// C-133: clusters that come and go while a server is away for ever.
#[test]
fn so_many_that_have_gone_are_kept_and_no_more() {
    let mut reporter = reporter();
    let _stays = reporter.add_cluster(at(0), key("stays", ""));
    let (limit, more) = (1000, 3);
    for number in 0..limit + more {
        let key = key(&format!("c{number}"), "");
        reporter.add_cluster(at(number), key.clone()).dropped(None);
        assert_eq!(reporter.take_events(), []);
        reporter.remove_cluster(&key);
        let lost = reporter.take_events();
        assert_eq!(lost.len(), usize::from(number >= limit), "{number}");
    }
    open(&mut reporter, at(5000));
    reporter.answered(at(5000), all(10));
    let told = report(&mut reporter, at(5010)).clusters;
    assert_eq!(told.len() as u64, limit);
    // The oldest were dropped.
    let gone = |name: &str| !told.iter().any(|stats| &*stats.key.cluster == name);
    assert!(gone("c0") && gone("c2") && !gone("c3") && !gone("c1002"));
}

/// C-135: the worked example of A64, by the names of A85.
#[test]
fn metrics_of_endpoints_are_told_as_far_as_the_cluster_lets_them() {
    let named = |pairs: &[(&str, f64)]| OrcaReport {
        cpu_utilization: Some(0.5),
        application_utilization: Some(0.25),
        named_metrics: pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        ..OrcaReport::default()
    };
    let reports = [
        named(&[("key1", 1.0), ("key2", 2.0)]),
        named(&[("key2", 3.0), ("key3", 4.0)]),
        named(&[]),
    ];
    let count = |texts: &[&str]| {
        let metrics = ReportedMetrics::new(texts);
        let mut reporter = reporter();
        let tally = reporter.add_cluster(at(0), key("a", ""));
        let east = tally.locality(&zone("east"));
        for report in &reports {
            east.started();
            east.ended(true, Some((report, &metrics)));
        }
        open(&mut reporter, at(0));
        reporter.answered(at(0), all(1));
        let stats = told(&mut reporter, at(1)).localities[&zone("east")].clone();
        assert_eq!(report(&mut reporter, at(2)).clusters, [], "metrics are told once");
        let named = stats.named.iter();
        let text = |(name, stats): (&Arc<str>, &MetricStats)| {
            format!("{name} {} {}", stats.requests, stats.total)
        };
        let named: Vec<_> = named.map(text).collect();
        (named.join(", "), stats.cpu, stats.mem, stats.application)
    };
    let of = |requests, total| MetricStats { requests, total };
    let (named, cpu, mem, application) = count(&["named_metrics.*", "cpu_utilization"]);
    assert_eq!(named, "named_metrics.key1 1 1, named_metrics.key2 2 5, named_metrics.key3 1 4");
    assert_eq!((cpu, mem, application), (of(3, 1.5), of(0, 0.0), of(0, 0.0)));
    // One of them; what the endpoint did not say is not counted.
    let texts = ["named_metrics.key2", "mem_utilization", "application_utilization", "unheard_of"];
    let (named, cpu, mem, application) = count(&texts);
    assert_eq!(named, "named_metrics.key2 2 5");
    assert_eq!((cpu, mem, application), (of(0, 0.0), of(0, 0.0), of(3, 0.75)));
    // Unset, nothing at all.
    assert_eq!(count(&[]), (String::new(), of(0, 0.0), of(0, 0.0), of(0, 0.0)));
}

/// C-133: over any history of streams, what was counted is what was told and what is still held.
#[test]
fn nothing_is_told_twice_or_forgotten() {
    for seed in 1..500 {
        History::new(seed).run();
    }
}

/// A history, by chance.
struct History {
    seed: u64,
    chance: u64,
    now: Time,
    reporter: LoadReporter,
    tally: Arc<ClusterCounters>,
    east: Arc<LocalityCounters>,
    open: u64,
    counted: Sum,
    told: Sum,
}

/// Calls begun, ended well, ended otherwise, and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum([u64; 4]);

impl History {
    fn new(seed: u64) -> Self {
        let mut reporter = reporter();
        let tally = reporter.add_cluster(at(0), key("a", ""));
        let east = tally.locality(&zone("east"));
        let (counted, told) = (Sum::default(), Sum::default());
        Self { seed, chance: seed, now: at(0), reporter, tally, east, open: 0, counted, told }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance % limit
    }

    fn run(mut self) {
        for _ in 0..200 {
            match self.below(8) {
                0 | 1 => self.begin(),
                2 | 3 => self.end(),
                4 => {
                    self.tally.dropped(None);
                    self.counted.0[3] += 1;
                }
                5 => self.now = self.now + Duration::from_secs(self.below(40)),
                6 => self.stream(),
                _ => self.reporter.answered(self.now, all(1)),
            }
            self.say(true);
        }
        // At last there is a server that stays.
        self.reporter.ended(self.now, broken());
        self.now = self.reporter.deadline().unwrap_or(self.now).max(self.now);
        assert!(self.reporter.is_due(self.now), "seed {}", self.seed);
        self.reporter.opened(self.now);
        self.say(false);
        self.reporter.answered(self.now, all(1));
        self.now = self.now + Duration::from_secs(1);
        self.say(false);
        assert_eq!(self.told, self.counted, "seed {}", self.seed);
        assert_eq!(self.counted.0[0], self.counted.0[1] + self.counted.0[2] + self.open);
    }

    fn begin(&mut self) {
        self.east.started();
        self.open += 1;
        self.counted.0[0] += 1;
    }

    fn end(&mut self) {
        if self.open == 0 {
            return;
        }
        let succeeded = self.below(2) == 0;
        self.east.ended(succeeded, None);
        self.open -= 1;
        self.counted.0[if succeeded { 1 } else { 2 }] += 1;
    }

    fn stream(&mut self) {
        if self.reporter.is_due(self.now) {
            return self.reporter.opened(self.now);
        }
        self.reporter.ended(self.now, broken());
    }

    /// Writes what is to be said; now and then it cannot be written.
    fn say(&mut self, may_fail: bool) {
        while let Some(LoadMessage::Report(report)) = self.reporter.next_message(self.now) {
            if may_fail && self.below(4) == 0 {
                self.reporter.not_sent(self.now, &report);
                self.reporter.ended(self.now, broken());
                return;
            }
            for stats in &report.clusters {
                let east = &stats.localities.get(&zone("east")).cloned().unwrap_or_default();
                assert_eq!(east.in_progress, self.open, "seed {}", self.seed);
                let said = [east.issued, east.succeeded, east.errored, stats.dropped];
                self.told.0.iter_mut().zip(said).for_each(|(sum, more)| *sum += more);
            }
        }
    }
}
