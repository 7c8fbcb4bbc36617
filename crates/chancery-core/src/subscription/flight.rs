//! Responses under way: sent and not yet answered.
//!
//! At most one response of a type is under way at a time, so that a client is never more than one
//! answer behind; the rest waits as state (S-042). A request that changes names lets the next one
//! go, and so does time, because some clients forget to answer (T-03).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::interest::Spelling;
use crate::Time;

/// Responses under way, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    out: VecDeque<Sent>,
    released: bool,
}

/// One response under way.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) nonce: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) at: Time,
    pub(crate) contents: Contents,
}

/// Which names a response spoke of.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    /// All that the client is subscribed to.
    All,
    /// These keys.
    Keys(Box<[Spelling]>),
}

impl Flight {
    pub(crate) fn push(&mut self, sent: Sent) {
        self.released = false;
        if self.out.len() == MAX_OUT {
            self.out.pop_front(); // Its answer will count as stale.
        }
        self.out.push_back(sent);
    }

    /// Lets the next response go although the last was not answered.
    pub(crate) fn release(&mut self) {
        self.released = true;
    }

    /// Whether the next response may go.
    pub(crate) fn is_clear(&self, now: Time, wait: Duration) -> bool {
        self.released || self.deadline(wait).is_none_or(|until| now >= until)
    }

    /// Whether every response was answered.
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// When the next response may go without an answer to the last.
    pub(crate) fn deadline(&self, wait: Duration) -> Option<Time> {
        self.out.back().map(|sent| sent.at + wait)
    }

    /// Takes out the response with that nonce and the older ones, which were superseded. With
    /// `last_only`, the nonce must be that of the newest one (S-037).
    pub(crate) fn answered(&mut self, nonce: &str, last_only: bool) -> Option<Sent> {
        let at = self.out.iter().position(|sent| *sent.nonce == *nonce)?;
        if last_only && at + 1 != self.out.len() {
            return None;
        }
        self.out.drain(..=at).next_back()
    }
}

impl Contents {
    /// Whether the response spoke of this name.
    pub(crate) fn contains(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Keys(keys) => keys.iter().any(|found| **found == *key),
        }
    }
}

/// A client that changes names and never answers could otherwise make the list grow for ever.
const MAX_OUT: usize = 32;
