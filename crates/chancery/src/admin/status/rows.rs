//! The parts of documents that are made from what the server knows of streams, in bounded texts.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_catalog::Audience;
use chancery_core::printable::cut;
use chancery_core::{TypeUrl, percent, server as core};
use chancery_server::{RejectionNote, StreamState};

use super::document::{NodeState, RejectionRow, ResourceState};
use crate::admin::nodes::MAX_TEXT_BYTES;

/// A text of a client or a file, as far as it is shown.
pub(super) fn shown(text: impl AsRef<str>) -> String {
    cut(text.as_ref(), MAX_TEXT_BYTES).into_owned()
}

/// The short name of a type, or its URL.
pub(super) fn type_name(url: &TypeUrl) -> String {
    let short = url.short();
    if short.is_empty() { shown(url.as_str()) } else { shown(short) }
}

/// The seconds since 1970 at a time that is so long ago.
pub(super) fn before(age: Duration) -> u64 {
    seconds(SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH))
}

/// The seconds since 1970 at a time.
pub(super) fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn rejection(note: &RejectionNote) -> RejectionRow {
    RejectionRow {
        r#type: type_name(&note.type_url),
        version: shown(&note.version),
        reason: cut(&note.error.message, MAX_REASON_BYTES).into_owned(),
        named: note.named.iter().take(MOST_NAMED).map(shown).collect(),
        suspects: note.suspects.iter().take(MOST_NAMED).map(shown).collect(),
        since: before(note.age),
    }
}

/// The group in the name of an audience: `groups/NAME+nodes/ID`.
pub(super) fn group_of(audience: &str) -> Option<String> {
    let group = audience.strip_prefix("groups/")?.split('+').next()?;
    percent::decode(group).ok()
}

/// Returns true for the name of this audience.
pub(super) fn is_name_of(name: &str, audience: &Audience) -> bool {
    let node = name.split('+').find_map(|part| part.strip_prefix("nodes/"));
    let node = node.and_then(|node| percent::decode(node).ok());
    group_of(name).as_deref() == audience.group.as_deref()
        && node.as_deref() == audience.node.as_deref()
}

/// Versions are shown as far as others are.
pub(super) fn version(version: Option<&Arc<str>>) -> Option<String> {
    version.map(shown)
}

impl From<StreamState> for NodeState {
    fn from(state: StreamState) -> Self {
        match state {
            StreamState::InStep => Self::InStep,
            StreamState::Silent => Self::Silent,
            StreamState::Rejected => Self::Rejected,
            _ => Self::Pending,
        }
    }
}

impl From<core::ResourceState> for ResourceState {
    fn from(state: core::ResourceState) -> Self {
        use core::ResourceState as Core;
        match state {
            Core::NotSent => Self::NotSent,
            Core::Unanswered => Self::Unanswered,
            Core::PassedOver => Self::PassedOver,
            Core::Acknowledged => Self::Acknowledged,
            Core::Rejected => Self::Rejected,
            Core::RemovalWaits => Self::RemovalWaits,
            Core::Missing => Self::Missing,
            _ => Self::Undecided,
        }
    }
}

/// The bytes of the words of a client that are shown.
const MAX_REASON_BYTES: usize = 1024;

/// The number of resources that are named of those in the words of a client.
const MOST_NAMED: usize = 20;
