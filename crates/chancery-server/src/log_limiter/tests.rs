//! Tests of the limiter: the lines of noisy and of honest peers.

use super::*;

/// The address behind which everybody is, as behind a balancer.
const BALANCER: &str = "192.0.2.1";

fn origin<'a>(port: u16, node: &'a str, version: &'a str) -> LineOrigin<'a> {
    let peer = Some(SocketAddr::new(BALANCER.parse().unwrap(), port));
    LineOrigin { peer, proven: false, node, of: "cds", detail: version }
}

fn limiter() -> (LogLimiter, Instant) {
    let now = Instant::now();
    (LogLimiter::new(now), now)
}

#[test]
fn the_first_line_of_a_node_type_and_version_passes_and_repeats_are_counted() {
    let (limiter, now) = limiter();
    let rejected = |origin| limiter.admits(PeerLine::Rejected, &origin, now);
    let one = origin(1, "a", "v1");
    assert!(rejected(one));
    for _ in 0..1000 {
        assert!(!rejected(one));
    }
    assert!(rejected(origin(1, "b", "v1")), "another node");
    assert!(rejected(origin(1, "a", "v2")), "another version");
    assert!(rejected(LineOrigin { of: "eds", ..one }), "another type");
    assert!(limiter.admits(PeerLine::StreamRefused, &one, now), "another line");
    assert!(!rejected(origin(2, "a", "v1")), "the same node on another connection");
    assert_eq!(limiter.summaries(now, false), []);
    let of = "rejected, node a, peer 192.0.2.1:1, cds, v1".into();
    assert_eq!(limiter.summaries(now + INTERVAL, false), [Summary { more: 1001, of }]);
    assert_eq!(limiter.summaries(now + INTERVAL, true), []);
    assert!(!rejected(one), "a summary begins nothing anew");
    assert_eq!(limiter.summaries(now, true).len(), 1);
}

#[test]
fn looks_from_one_address_are_told_once_in_a_while() {
    let (limiter, now) = limiter();
    let peer = |port| origin(port, "", "").peer;
    assert!(limiter.admits_look(peer(1), now));
    assert!(!limiter.admits_look(peer(2), now), "another connection of the same look");
    assert!(limiter.admits_look(None, now), "a socket");
    assert!(limiter.admits_look(peer(3), now + INTERVAL));
    assert_eq!(limiter.summaries(now + INTERVAL, true), [], "nothing is missed");
}

#[test]
fn clients_without_a_name_are_known_by_their_connection() {
    let (limiter, now) = limiter();
    for port in [1, 2, 3] {
        assert!(limiter.admits(PeerLine::StreamRefused, &origin(port, "", "why"), now));
        assert!(!limiter.admits(PeerLine::StreamRefused, &origin(port, "", "why"), now));
    }
}

#[test]
fn a_node_that_calls_itself_anything_hides_nobody_behind_the_same_balancer() {
    let (limiter, now) = limiter();
    let noisy = (0..100_000)
        .filter(|name: &u32| {
            limiter.admits(PeerLine::Rejected, &origin(1, &name.to_string(), "v1"), now)
        })
        .count();
    assert_eq!(noisy, 1000, "a half of what a connection may");
    for port in 2..1000 {
        let node = format!("honest-{port}");
        assert!(limiter.admits(PeerLine::Rejected, &origin(port, &node, "v1"), now), "{node}");
    }
    let left_out = limiter.summaries(now, true);
    let of = "any line of peers at 192.0.2.1".into();
    assert_eq!(left_out, [Summary { more: 99_000, of }]);
}

#[test]
fn a_flood_of_connections_hides_nobody_who_has_acknowledged_something() {
    let (limiter, now) = limiter();
    for port in 0..60_000 {
        limiter.admits(PeerLine::Rejected, &origin(port, &port.to_string(), "v1"), now);
    }
    for node in ["a", "b", "c"] {
        let origin = LineOrigin { proven: true, ..origin(60_001, node, "v1") };
        assert!(limiter.admits(PeerLine::Rejected, &origin, now));
    }
}

#[test]
fn streams_that_come_and_go_hide_no_trouble() {
    let (limiter, now) = limiter();
    let opened =
        (0..100_000).filter(|_| limiter.admits(PeerLine::StreamChanged, &origin(1, "a", ""), now));
    assert_eq!(opened.count(), 1000);
    assert!(limiter.admits(PeerLine::Rejected, &origin(1, "a", "v1"), now));
}

#[test]
fn summaries_are_few_and_lose_no_line() {
    let (limiter, now) = limiter();
    let nodes: Vec<String> = (0..400).map(|node| node.to_string()).collect();
    for node in &nodes {
        limiter.admits(PeerLine::Rejected, &origin(1, node, "v1"), now);
        limiter.admits(PeerLine::Rejected, &origin(1, node, "v1"), now);
    }
    let summaries = limiter.summaries(now, true);
    assert_eq!(summaries.len(), SUMMARIES + 1);
    assert_eq!(summaries.iter().map(|summary| summary.more).sum::<u64>(), 400);
}

#[test]
fn what_is_forgotten_is_in_a_summary_too() {
    let (limiter, mut now) = limiter();
    for number in 0..REMEMBERED * 3 {
        let node = number.to_string();
        let origin = LineOrigin { proven: true, ..origin(1, &node, "v1") };
        now += Duration::from_secs(1);
        assert!(limiter.admits(PeerLine::Rejected, &origin, now));
        assert!(!limiter.admits(PeerLine::Rejected, &origin, now));
    }
    let counted: u64 = limiter.summaries(now, true).iter().map(|summary| summary.more).sum();
    assert_eq!(counted, REMEMBERED as u64 * 3);
}

#[test]
fn the_description_of_a_line_is_short() {
    let long = "x".repeat(1 << 20);
    assert!(describe(PeerLine::Rejected, &origin(1, &long, &long)).len() < 1000);
}
