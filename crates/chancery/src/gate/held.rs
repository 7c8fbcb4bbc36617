//! Changes that are held back, and their forms: for people, for the admin interface, and for those who confirm.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_catalog::{Audience, FilledValue, Unapplied};
use chancery_core::Snapshot;
use chancery_sources::BehindFaults;

use super::loss::{Counts, Listed, Reason};
use super::moves::Move;
use crate::admin::document;

/// A state that is held back from an audience.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The audience.
    pub(crate) audience: Audience,
    /// The reasons, at least one.
    pub(crate) reasons: Vec<Reason>,
    /// The edits that wait, those included that are the reason.
    pub(crate) edits: Listed,
    /// The digest of the state.
    pub(crate) token: Token,
    /// The most that the audience had when the first of its states was held. It does not shrink by
    /// waiting.
    pub(super) largest: Counts,
    /// The time since the beginning of the gate, from which on this content is held.
    pub(super) since: Duration,
    /// The same by the clock on the wall.
    pub(super) at: SystemTime,
}

/// A digest of what is held back from whom, by which whoever confirms says what they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token(u64);

document! {
    /// A state that is held back from an audience.
    struct HeldRow {
        /// The audience, in words.
        audience: String,
        /// The group of the audience, if it has one.
        group: Option<String> = default,
        /// The node of the audience, if it is for one.
        node: Option<String> = default,
        /// The reasons, in words.
        reasons: Vec<String>,
        /// The first of the edits that wait, in words.
        edits: Vec<String> = default,
        /// The number of all of them.
        edit_count: usize,
        /// The seconds since 1970 at which it was held.
        since: u64,
        /// The digest of the state, by which it is confirmed.
        token: String,
    }
}

impl Token {
    /// The token with these digits.
    pub(super) fn read(digits: &str) -> Option<Self> {
        u64::from_str_radix(digits, 16).ok().map(Self)
    }

    /// The token of a state of an audience. It is the same for the same content.
    pub(super) fn of(audience: &Audience, state: &Snapshot, has_own_layer: bool) -> Self {
        let mut hash = DefaultHasher::new();
        (&audience.group, &audience.node, has_own_layer).hash(&mut hash);
        for type_url in state.types() {
            type_url.as_str().hash(&mut hash);
            state.set(type_url).version().to_string().hash(&mut hash);
        }
        Self(hash.finish())
    }

    /// The token of this state with edits that are not applied, for which it has no resource.
    pub(super) fn with_edits<'a>(self, edits: impl Iterator<Item = &'a Unapplied>) -> Self {
        let mut edits = edits.peekable();
        if edits.peek().is_none() {
            return self;
        }
        let mut hash = DefaultHasher::new();
        self.0.hash(&mut hash);
        edits.for_each(|edit| edit.to_string().hash(&mut hash));
        Self(hash.finish())
    }

    /// The token of this state with the fields that are filled for each node.
    pub(super) fn with_values(self, values: &[FilledValue]) -> Self {
        if values.is_empty() {
            return self;
        }
        let mut hash = DefaultHasher::new();
        self.0.hash(&mut hash);
        for FilledValue { key, value, .. } in values {
            (key, &value.path, &value.template).hash(&mut hash);
        }
        Self(hash.finish())
    }

    /// The token of nodes that would move: which and how many, from where, to what, and all that is told of it.
    pub(super) fn of_moves(moves: &[Move], reasons: &[Reason]) -> Self {
        let mut hash = DefaultHasher::new();
        for Move { from, to, nodes, .. } in moves {
            let to = to.as_ref().map(|(audience, state)| Self::of(audience, state, true).0);
            (from, to, nodes.count, &nodes.first).hash(&mut hash);
        }
        reasons.iter().for_each(|reason| reason.to_string().hash(&mut hash));
        Self(hash.finish())
    }

    /// The token of edits that wait behind faults.
    pub(super) fn of_faults(behind: &BehindFaults) -> Self {
        let mut hash = DefaultHasher::new();
        let edits = behind.first.iter().map(|edit| (&edit.key, edit.after.is_some()));
        (&behind.layer, behind.digest, &behind.files, behind.count).hash(&mut hash);
        edits.for_each(|edit| edit.hash(&mut hash));
        Self(hash.finish())
    }

    /// The token of several held states together.
    pub(crate) fn of_all<'a>(held: impl IntoIterator<Item = &'a Held>) -> Self {
        let mut tokens = held.into_iter().map(|held| held.token).peekable();
        let Some(first) = tokens.next() else { return Self(0) };
        if tokens.peek().is_none() {
            return first;
        }
        let mut hash = DefaultHasher::new();
        first.0.hash(&mut hash);
        tokens.for_each(|token| token.0.hash(&mut hash));
        Self(hash.finish())
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Held {
    /// The reasons in one line.
    pub(crate) fn why(&self) -> String {
        self.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// The edits that wait, in one line; it is empty where none are known.
    pub(crate) fn waiting(&self) -> String {
        let Listed { count, first } = &self.edits;
        let more = match count - first.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more}", first.join(", "))
    }

    /// The form in which it is shown.
    pub(crate) fn row(&self) -> HeldRow {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        HeldRow {
            audience: self.audience.to_string(),
            group: self.audience.group.as_deref().map(str::to_owned),
            node: self.audience.node.as_deref().map(str::to_owned),
            reasons: self.reasons.iter().map(ToString::to_string).collect(),
            edits: self.edits.first.clone(),
            edit_count: self.edits.count,
            since: since.as_secs(),
            token: self.token.to_string(),
        }
    }
}
