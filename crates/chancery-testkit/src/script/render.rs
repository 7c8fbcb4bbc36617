//! Responses and events as the text of a script.
//!
//! The entries of a response are sorted, in the script and in the transcript, because their order
//! means nothing to a client.

use chancery_core::server::{Event, Response, ResponseEntry};
use chancery_core::{ErrorDetail, NameError};

/// The labels of the conversation for nonces and versions.
pub(super) trait Labels {
    fn nonce(&self, nonce: &str) -> String;
    /// `None` if versions of this stream are not shown.
    fn version(&mut self, type_url: &str, version: &str) -> Option<String>;
}

/// The line of a response, as in `< cds v=1 n=1 a@1`.
pub(super) fn response(response: &Response, labels: &mut impl Labels) -> String {
    let mut words = Vec::new();
    if let Some(version) = labels.version(response.type_url.as_str(), &response.version) {
        words.push(format!("v={version}"));
    }
    words.push(format!("n={}", labels.nonce(&response.nonce)));
    // Delta entries always are wrapped, so that is not worth a word.
    if response.wrapped && response.variant == chancery_core::Variant::Sotw {
        words.push("wrapped".to_owned());
    }
    words.extend(response.entries.iter().map(|one| entry_text(&one)));
    words.extend(response.removed.iter().map(|name| format!("-{name}")));
    words.extend(response.errors.iter().map(error));
    sorted(response.type_url.short(), words)
}

/// A response line of a script, in the order of a transcript.
pub(super) fn normalized_response(text: &str) -> String {
    let mut words = text.split_whitespace();
    let short = words.next().unwrap_or_default();
    sorted(short, words.map(str::to_owned).collect())
}

/// The first word of an event line, and the rest.
pub(super) fn event(event: &Event, labels: &mut impl Labels) -> (&'static str, String) {
    match event {
        Event::Identified(node) => ("identified", node.id.clone()),
        Event::Anonymous => ("anonymous", String::new()),
        Event::ParametersChanged(node) => ("parameters", node.id.clone()),
        Event::IdentityIgnored { claimed } => ("ignored", claimed.clone()),
        Event::Subscribed { demand, names } => {
            let star = if demand.wildcard { " *" } else { "" };
            ("subscribed", format!("{}{star} {names}", demand.type_url.short()))
        }
        Event::Acked { type_url, version, nonce, after } => {
            let after = if after.is_zero() { String::new() } else { format!(" after={after:?}") };
            let of = answered(type_url, version, nonce, labels);
            ("acked", format!("{of}{after}"))
        }
        Event::Landed => ("landed", String::new()),
        Event::Nacked { type_url, version, nonce, error, .. } => {
            let of = answered(type_url, version, nonce, labels);
            ("nacked", format!("{of} error={}", error.message))
        }
        Event::Skipped { type_url, nonce } => {
            ("skipped", format!("{} n={}", type_url.short(), labels.nonce(nonce)))
        }
        Event::Unnamed { type_url, resources } => {
            ("unnamed", format!("{} {resources}", type_url.short()))
        }
        Event::Stale { type_url, nonce } => {
            ("stale", format!("{} n={}", type_url.short(), labels.nonce(nonce)))
        }
        other => ("event", format!("{other:?}")),
    }
}

/// A line with single blanks, except in the text of an error.
pub(super) fn spaced(line: &str) -> String {
    let (words, error) = split_error(line);
    let mut text = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(error) = error {
        text += " error=";
        text += error;
    }
    text
}

/// Cuts the text of an error off the end of a line.
pub(super) fn split_error(line: &str) -> (&str, Option<&str>) {
    match line.split_once(" error=") {
        Some((words, error)) => (words, Some(error)),
        None => (line, None),
    }
}

fn answered(
    type_url: &chancery_core::TypeUrl,
    version: &str,
    nonce: &str,
    labels: &mut impl Labels,
) -> String {
    let version = labels.version(type_url.as_str(), version);
    let version = version.map(|version| format!(" v={version}")).unwrap_or_default();
    format!("{}{version} n={}", type_url.short(), labels.nonce(nonce))
}

fn entry_text(entry: &ResponseEntry) -> String {
    let version = entry.resource.as_ref().map(|it| format!("@{}", it.version()));
    let mut flags: Vec<_> = entry.aliases.iter().map(|alias| format!("alias={alias}")).collect();
    let marks = [
        (entry.ttl, "ttl"),
        (entry.heartbeat, "heartbeat"),
        (entry.resource.is_none(), "unresolved"),
    ];
    flags.extend(marks.iter().filter(|(set, _)| *set).map(|(_, word)| (*word).to_owned()));
    let flags = if flags.is_empty() { String::new() } else { format!("({})", flags.join(",")) };
    format!("{}{}{flags}", entry.name, version.unwrap_or_default())
}

fn error(error: &NameError) -> String {
    format!("!{}={}", error.name, code(error.error.code))
}

fn sorted(short: &str, mut words: Vec<String>) -> String {
    words.sort_by_cached_key(|word| (rank(word), word.clone()));
    words.insert(0, short.to_owned());
    format!("< {}", words.join(" "))
}

fn rank(word: &str) -> u8 {
    match word {
        "wrapped" => 2,
        _ if word.starts_with("v=") => 0,
        _ if word.starts_with("n=") => 1,
        _ if word.starts_with('-') => 4,
        _ if word.starts_with('!') => 5,
        _ => 3,
    }
}

fn code(code: i32) -> String {
    ErrorDetail::name_of(code).map_or_else(|| code.to_string(), str::to_owned)
}
