//! The output of `status NODE` and `status --resource`.

use std::time::Duration;

use chancery_core::printable::Printable;

use super::reasons::{ago, away, rejected, short};
use crate::admin::{
    EventKind, EventRow, HeldResource, NodeDocument, ResourceDocument, ResourceState, StreamRow,
    TypeRow,
};
use crate::config::Span;
use crate::state::utc;
use crate::table::table;

pub(super) fn node(document: &NodeDocument) -> String {
    let NodeDocument { load, node, not_live, streams, gone, history } = document;
    let group = node.group.as_deref().unwrap_or("none");
    let landed = if node.landed == 0 { "none".to_owned() } else { node.landed.to_string() };
    let mut text = format!(
        "node {}, cluster {}, group {}\n{} for {}; the last load is {load}, and {landed} has landed here\n",
        Printable(&node.id),
        Printable(&node.cluster),
        Printable(group),
        node.state.word(),
        ago(node.since),
    );
    text.extend(not_live.iter().map(|line| super::overview::not_live(line)));
    if let Some(awaited) = &node.awaited {
        text += &format!("load {} waits for a stream of it that {}\n", awaited.load, away(awaited));
    }
    if node.claims_differ.is_some() {
        text += "its streams state different clusters, localities or metadata\n";
    }
    if node.several_peers.is_some() {
        text += "its streams come from several addresses: two nodes may have one id\n";
    }
    for stream in streams {
        text += &format!("\n{}", stream_text(stream));
    }
    for gone in gone {
        let of = gone.r#type.as_deref().unwrap_or("all types");
        text += &format!(
            "\nstream {} from {} of {of}: gone for {}{}\n",
            gone.number,
            Printable(&gone.peer),
            ago(gone.at),
            gone.code.map(|code| format!(", ended with code {code}")).unwrap_or_default()
        );
        for rejection in &gone.rejections {
            text += &format!("  rejected: {}\n", rejected(rejection, usize::MAX));
        }
    }
    if !history.is_empty() {
        text += "\nhistory, the newest first:\n";
        text.extend(history.iter().take(MOST_EVENTS).map(event));
    }
    text
}

fn stream_text(stream: &StreamRow) -> String {
    let of = stream.r#type.as_deref().unwrap_or("all types");
    let audience = stream.audience.as_deref().unwrap_or("no audience yet");
    let mut text = format!(
        "stream {} from {}: {} of {of}, {}, {} for {}, opened {} ago\n",
        stream.number,
        Printable(&stream.peer),
        stream.protocol,
        Printable(audience),
        stream.state.word(),
        ago(stream.since),
        ago(stream.opened),
    );
    if let Some(since) = stream.unanswered_since {
        text += &format!("  no answer for {}\n", ago(since));
    }
    for rejection in &stream.rejections {
        text += &format!(
            "  rejected {} ago: {}\n",
            ago(rejection.since),
            rejected(rejection, usize::MAX)
        );
    }
    if !stream.answered {
        return text + "  the stream could not say more in time\n";
    }
    let head = ["TYPE", "WANTS", "SENT", "ACKNOWLEDGED", "REJECTED", "STATE"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(stream.types.iter().map(type_cells));
    for line in table(&lines, 0..0).lines() {
        text += &format!("  {line}\n");
    }
    for of in &stream.types {
        text += &notes(of);
    }
    text
}

fn type_cells(of: &TypeRow) -> Vec<String> {
    let wants = match (of.everything, of.name_count) {
        (true, 0) => "all".to_owned(),
        (true, names) => format!("all and {names}"),
        (false, names) => names.to_string(),
    };
    let version = |version: &Option<String>| match version.as_deref() {
        None | Some("") => "-".to_owned(),
        Some(version) => Printable(short(version)).to_string(),
    };
    let state = if of.landed { "in step" } else { "not in step" };
    let [sent, acknowledged, rejected] = [&of.sent, &of.acknowledged, &of.rejected].map(version);
    vec![Printable(&of.r#type).to_string(), wants, sent, acknowledged, rejected, state.to_owned()]
}

/// All that is not as it should be with a type.
fn notes(of: &TypeRow) -> String {
    let mut text = String::new();
    let name = Printable(&of.r#type);
    for wait in &of.waits {
        text += &format!("  {name} waits {}\n", Printable(wait));
    }
    if !of.suspects.is_empty() {
        let one_of = if of.suspects.len() > 1 { "one of " } else { "" };
        text += &format!("  {name}: at fault is {one_of}{}\n", Printable(of.suspects.join(", ")));
    }
    for resource in &of.resources {
        text += &format!("  {name}/{}\n", held(resource));
    }
    if of.more {
        text += &format!("  {name}: and more; --limit shows more of them\n");
    }
    text
}

fn held(resource: &HeldResource) -> String {
    let HeldResource { name, state, wanted, held } = resource;
    format!("{}: {}", Printable(name), versions(*state, wanted.as_deref(), held.as_deref()))
}

fn versions(state: ResourceState, wanted: Option<&str>, held: Option<&str>) -> String {
    let some = |version: Option<&str>| version.map_or("nothing", short).to_owned();
    let (wanted, held) = (some(wanted), some(held));
    match state == ResourceState::Acknowledged && wanted == held {
        true => format!("acknowledged {}", Printable(held)),
        false => Printable(format_args!("{}, wants {wanted}, was given {held}", state.word()))
            .to_string(),
    }
}

fn event(event: &EventRow) -> String {
    let mut text = format!("  {} {}", utc(event.at), event.event.word());
    if let Some(rejection) = &event.rejection {
        text += &format!(" {}", rejected(rejection, SHORT_REASON));
    }
    if let Some(of) = &event.r#type {
        text += &format!(" {}", Printable(of));
    }
    if let Some(from) = &event.from {
        text += &format!(" from {}", Printable(from));
    }
    if let Some(audience) = &event.audience {
        text += &format!(" {}", Printable(audience));
    }
    if let Some(after) = event.after_ms.filter(|_| event.event == EventKind::Answered) {
        text += &format!(" after {}", Span(Duration::from_secs(after / 1000)));
    }
    if let Some(stream) = event.stream {
        text += &format!(" (stream {stream})");
    }
    text + "\n"
}

pub(super) fn resource(document: &ResourceDocument) -> String {
    let ResourceDocument { r#type, name, origins, wanted_by, versions: all, .. } = document;
    let mut text = format!("{}/{}\n", Printable(r#type), Printable(name));
    for origin in origins {
        let edit = origin.edit.as_ref().map(|edit| format!(" ({edit})")).unwrap_or_default();
        let version = origin.version.as_deref().map(short);
        let version = version.map(|version| format!(", version {version}")).unwrap_or_default();
        let place = match origin.line {
            0 => origin.file.clone(),
            line => format!("{}:{line}", origin.file),
        };
        let line = format!("  {}{edit}: {place}{version}", origin.layer);
        text += &format!("{}\n", Printable(line));
    }
    if *wanted_by == 0 {
        return text + "no client wants it\n";
    }
    for version in all {
        let what = version.version.as_deref().map_or_else(
            || "no such resource".to_owned(),
            |version| format!("version {}", short(version)),
        );
        text += &format!(
            "{} for {}: rejected by {}, accepted by {}, pending on {}\n",
            Printable(what),
            streams_of(version.wanted_by),
            version.rejected,
            version.acknowledged,
            version.pending
        );
    }
    if document.unanswered > 0 {
        text += &format!("{} could not answer in time\n", streams_of(document.unanswered));
    }
    let mut lines = vec![["NODE", "AUDIENCE", "STATE", "WHY"].map(str::to_owned).to_vec()];
    for row in &document.nodes {
        let id = if row.node.is_empty() { "-" } else { &row.node };
        let state = versions(row.state, row.wanted.as_deref(), row.held.as_deref());
        let why = row.rejection.as_ref().map(|it| rejected(it, SHORT_REASON));
        let cells = [Printable(id).to_string(), Printable(&row.audience).to_string(), state];
        lines.push([cells.to_vec(), vec![why.unwrap_or_default()]].concat());
    }
    text += &format!("\n{}", table(&lines, 0..0));
    match document.count.saturating_sub(document.nodes.len()) {
        0 => text,
        more => text + &format!("and {more} more\n"),
    }
}

fn streams_of(count: usize) -> String {
    match count {
        1 => "1 stream".to_owned(),
        count => format!("{count} streams"),
    }
}

/// The number of events that are shown.
const MOST_EVENTS: usize = 20;

/// The bytes of the words of a client in a line among others.
const SHORT_REASON: usize = 200;
