//! Whole conversations with one stream of a server, as text.
//!
//! A script is a list of lines. Some are inputs of the server or let time pass. The others are the
//! expected responses and events: *all* of them, in this order. [`check`] plays the first kind and
//! compares the outcome with the second.
//!
//! ```
//! use chancery_testkit::script;
//!
//! script::sotw("
//!     ## Two clusters exist; a client asks for everything and gets both.
//!     = cds a@1 b@1
//!     > cds
//!     < cds v=1 n=1 a@1 b@1
//!     > cds ack
//!     ## Nothing changes, so nothing is sent, however long we wait.
//!     ~ 10m
//!     ## One changes. SotW says the whole state again, and the client rejects it.
//!     = cds a@2
//!     < cds v=2 n=2 a@2 b@1
//!     > cds nack error=cluster a has no endpoints
//!     ! nacked cds v=2 n=2 error=cluster a has no endpoints
//! ");
//!
//! script::delta("
//!     = eds a@1 b@1
//!     > eds +a +gone
//!     < eds n=1 a@1 -gone !gone=NOT_FOUND
//!     > eds ack -gone
//!     > eds +b
//!     < eds n=2 b@1
//! ");
//! ```
//!
//! # Lines
//!
//! | line | meaning |
//! |---|---|
//! | `= cds a@1 -b; eds a@1` | one commit: `a` at version 1 is set, `b` is taken out, and so on. Types are separated by `;`. `[]` empties the type first, `v=text` states the version of the type. `?a,b` says that a source cannot tell yet of `a` and `b`, `?*` of all that is not there, `?` that it can |
//! | `> cds …` | the client sends a request, see below |
//! | `< cds v=1 n=1 a@1 -b !c=NOT_FOUND` | the server must send this response, see below |
//! | `! nacked cds …` | this event must come out, see below |
//! | `! closed text` | the server must close the stream, saying this |
//! | `~ 5s` | time passes (`ms`, `s`, `m`, `h`); the server's deadlines in between are honoured |
//! | `\| …` | the rest of the line happens while the wire is busy: nothing can be sent |
//! | `. 1` | the wire has room for one more response; `.` alone: for all |
//! | `---` | the stream ends and the client opens another one; nonces begin at 1 again |
//! | `% ack_wait=5s …` | settings, see below; they hold for streams that start later |
//! | `# …` | a remark |
//!
//! Types have their short names (`cds`, `eds`, …) or are full names of messages; `-` leaves the
//! type of a request empty. After each line without `|` the server is polled until it has nothing
//! more to send, so a line without `<` lines after it was met with silence.
//!
//! The current state is given to the server when the first request has identified the client, and
//! at each commit after that; before the first commit there is none.
//!
//! # Resources
//!
//! `name@version` is a resource whose version is stated and whose body is the version as text.
//! Facts that the server must know about the body follow:
//!
//! - `c@1->eds:c` refers to another resource on the same stream, `c@1~>sds:s` to one from another
//!   source; both may be repeated.
//! - `c@1(ttl=9s,alias=x,host=*.x.com,vhds=1,size=1000,secret)`: TTL, aliases, the hosts of a
//!   virtual host, the digest of a route configuration's `vhds` field, how many bytes the body has,
//!   and that it holds a secret.
//!
//! # Requests
//!
//! `> TYPE WORDS…`, and every word may be left out:
//!
//! - SotW: bare words are the names, `*` too. Without any, an answer (`ack`, `nack`) repeats the
//!   names of the last request, and another request has none; `[]` says that there are none.
//! - delta: `+a` subscribes, `-a` unsubscribes, `init=a:1` is an entry of the initial versions.
//! - `ack` and `nack` answer the latest response of the type, `ack=2` and `nack=2` the one with
//!   that nonce. The version is what a client would say: what it accepts, or accepted last.
//! - `n=2` and `v=1` state nonce and version literally instead; those that are no number of a
//!   response or version seen are sent as they are.
//! - `error=text to the end of the line` makes it a rejection.
//! - `node=id` states a node, `node=` one with an empty id, `node=-` none. The first request of a
//!   stream states a node without being told. `features=ttl,wrapped`, `agent=envoy/1.40.0` and
//!   `param=TYPE_URL:key:value` add to it.
//!
//! # Responses
//!
//! `< TYPE v=VERSION n=NONCE`, then the entries, `-name` for removed names and `!name=CODE` for
//! errors, each in any order. Nonces are numbered in order of sending on each stream. Versions of a
//! type that are hashes are numbered in order of appearance, `1` being the first one sent; stated
//! versions stand as they are. Delta responses show only stated ones.
//!
//! An entry is `name@version`, with `(ttl)`, `(ttl,heartbeat)` or `(alias=x)` after it; `name` with
//! `(alias=name,unresolved)` is an alias that cannot be resolved. The word `wrapped` stands in SotW
//! responses whose entries are wrapped.
//!
//! # Events
//!
//! `! identified ID`, `! anonymous`, `! parameters ID`, `! ignored ID`, `! subscribed cds * 2`
//! (wildcard and number of names), `! acked cds v=1 n=1 after=5s`, `! nacked cds v=1 n=1
//! error=text`, `! landed` (nothing is owed any more), `! skipped cds n=1`, `! stale cds n=1`, `! unnamed eds 2` (how many there are). A kind
//! of event is compared in scripts that have a line of that kind or name it in `% watch=acked,stale`.
//!
//! # Settings
//!
//! `ack_wait=5s`, `warm_wait=5s`, `removal_wait=5s`, `source_wait=5s`, `max_bytes=1000`, `max_names=2`,
//! `max_types=2`, `legacy_wildcard=eds:on`, `report_missing`, `secrets=off`, `watch=…`, and
//! `node=…`, `features=…`, `agent=…` for the node of first requests.

mod conversation;
mod duration;
mod line;
mod render;
mod resource;
mod watching;

use chancery_core::{Scope, TypeUrl, Variant};

use conversation::Conversation;
use line::ScriptLine;
pub use watching::client;

/// The error for a line that cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{line}`: {fault}")]
pub struct ScriptError {
    /// The line as it stands in the script.
    pub line: String,
    /// The fault of the line.
    pub fault: String,
}

/// Plays a script on an aggregated SotW stream.
///
/// # Panics
/// Panics if the conversation takes another course.
#[track_caller]
pub fn sotw(script: &str) {
    check(Variant::Sotw, Scope::Aggregated, script);
}

/// Plays a script on an aggregated delta stream.
///
/// # Panics
/// Panics if the conversation takes another course.
#[track_caller]
pub fn delta(script: &str) {
    check(Variant::Delta, Scope::Aggregated, script);
}

/// Plays a script on a stream of any kind.
///
/// # Panics
/// Panics if the conversation takes another course.
#[track_caller]
pub fn check(variant: Variant, scope: Scope, script: &str) {
    let played = match transcript(variant, scope, script) {
        Ok(played) => played,
        Err(fault) => panic!("{fault}"),
    };
    let wanted = normalized(script);
    assert!(
        played == wanted,
        "the conversation took another course\n{}",
        compare(&wanted, &played)
    );
}

/// The transcript of a script: its own inputs, with the responses and events that really came.
///
/// # Errors
/// Returns an error if a line cannot be understood, or makes no sense at its place.
pub fn transcript(variant: Variant, scope: Scope, script: &str) -> Result<String, ScriptError> {
    let mut conversation = Conversation::new(variant, scope, watched(script));
    for text in lines(script).filter(|text| !is_outcome(text)) {
        let fault = |fault| ScriptError { line: text.to_owned(), fault };
        let line = ScriptLine::parse(text, variant).map_err(fault)?;
        conversation.play(text, line).map_err(fault)?;
    }
    Ok(conversation.finish())
}

/// The type with this short name, or the one with this full name or URL.
pub fn type_url(word: &str) -> TypeUrl {
    TypeUrl::known().find(|known| known.short() == word).unwrap_or_else(|| TypeUrl::new(word))
}

/// The lines that count, without indentation and remarks.
fn lines(script: &str) -> impl Iterator<Item = &str> {
    script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns true if a line is an expected response or event.
fn is_outcome(line: &str) -> bool {
    line.starts_with(['<', '!'])
}

/// The kinds of events that a script compares.
fn watched(script: &str) -> Vec<String> {
    let stated = lines(script).filter_map(|line| line.strip_prefix('!'));
    let asked = lines(script).filter_map(|line| line.strip_prefix('%'));
    let asked = asked.flat_map(str::split_whitespace).filter_map(|it| it.strip_prefix("watch="));
    stated
        .filter_map(|line| line.split_whitespace().next())
        .chain(asked.flat_map(|kinds| kinds.split(',')))
        .map(str::to_owned)
        .collect()
}

/// The script in the form of a transcript.
fn normalized(script: &str) -> String {
    let lines = lines(script).map(|line| match line.strip_prefix('<') {
        Some(response) => render::normalized_response(response),
        None => render::spaced(line),
    });
    lines.map(|line| line + "\n").collect()
}

/// Both texts up to the first difference, and the different lines of each.
fn compare(wanted: &str, played: &str) -> String {
    let wanted: Vec<_> = wanted.lines().collect();
    let played: Vec<_> = played.lines().collect();
    let same = wanted.iter().zip(&played).take_while(|(one, other)| one == other).count();
    let mut text = String::new();
    for line in &played[..same] {
        text += &format!("    {line}\n");
    }
    for line in wanted[same..].iter().take_while(|line| is_outcome(line)) {
        text += &format!("  - {line}\n");
    }
    for line in played[same..].iter().take_while(|line| is_outcome(line)) {
        text += &format!("  + {line}\n");
    }
    text + "(- is what the script wants, + is what came)"
}
