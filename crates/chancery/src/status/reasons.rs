//! The reasons for the states of nodes, in words, and times as people read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_core::printable::{Printable, cut};

use crate::admin::{AwaitedRow, NodeState, NodeStatusRow, RejectionRow};
use crate::config::Span;

/// The reason for the state of a node, in one line.
pub(crate) fn why(node: &NodeStatusRow) -> String {
    let mut parts = Vec::new();
    if let Some(rejection) = node.rejections.first() {
        parts.push(rejected(rejection, MOST_BYTES));
    }
    if node.rejections.len() > 1 {
        parts.push(format!("and {} more rejections", node.rejections.len() - 1));
    }
    if let (Some(since), NodeState::Silent | NodeState::Pending) =
        (node.unanswered_since, node.state)
    {
        parts.push(format!("no answer for {}", ago(since)));
    } else if node.state == NodeState::Silent {
        parts.push("takes nothing".to_owned());
    }
    if node.several_peers.is_some() {
        parts.push(format!("streams from {}", addresses(&node.peers)));
    }
    if node.claims_differ.is_some() {
        parts.push("its streams say different things of it".to_owned());
    }
    if let Some(awaited) = &node.awaited {
        parts.push(format!("a stream is waited for that {}", away(awaited)));
    }
    parts.join("; ")
}

/// The times of a stream that a load waits for.
pub(crate) fn away(awaited: &AwaitedRow) -> String {
    format!("went {} ago, {} more", ago(awaited.at), until(awaited.until))
}

/// A rejection, with so many bytes of the words of the client.
pub(crate) fn rejected(rejection: &RejectionRow, most: usize) -> String {
    let RejectionRow { r#type, version, reason, named, suspects, .. } = rejection;
    let reason = cut(reason, most);
    let named = match (&named[..], &suspects[..]) {
        ([], []) => String::new(),
        ([], [only]) => format!(" ({only})"),
        ([], [first, more @ ..]) => format!(" (one of {first} and {} more)", more.len()),
        (names, _) => format!(" ({})", names.join(", ")),
    };
    Printable(format_args!("{type}{named} {}: {reason}", short(version))).to_string()
}

/// The beginning of a version.
pub(crate) fn short(version: &str) -> &str {
    &version[..version.floor_char_boundary(SHORT)]
}

/// The addresses, without their ports.
fn addresses(peers: &[String]) -> String {
    let hosts = peers.iter().map(|peer| peer.rsplit_once(':').map_or(&**peer, |(host, _)| host));
    let hosts: std::collections::BTreeSet<_> = hosts.collect();
    Printable(hosts.into_iter().collect::<Vec<_>>().join(" and ")).to_string()
}

/// The time since then, in its two largest units.
pub(crate) fn ago(since: u64) -> String {
    let seconds = now().saturating_sub(since);
    let unit = match seconds {
        0..3600 => 1,
        3600..86_400 => 60,
        _ => 3600,
    };
    Span(Duration::from_secs(seconds - seconds % unit)).to_string()
}

/// The time until then.
fn until(then: u64) -> Span {
    Span(Duration::from_secs(then.saturating_sub(now())))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The number of characters of a version that are shown.
const SHORT: usize = 12;

/// The bytes of the words of a client that are shown in a line.
const MOST_BYTES: usize = 200;
