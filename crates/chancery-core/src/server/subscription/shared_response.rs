//! Responses that all clients in the same state share.
//!
//! A client in this state has a plain wildcard, has acknowledged all it was sent, and is owed nothing
//! besides the difference of two sets. So its next response depends on these two sets alone. It is
//! worked out once for all such clients ([`Step`]), and their ledgers stay empty. A client that has
//! something of its own (a name, a rejection, a removal that waits) gets its response from
//! `respond.rs`, which gives the same response for the same difference.

use std::sync::Arc;

use super::Subscription;
use super::flight::Contents;
use super::given_clusters::GivenClusters;
use super::respond::NextResponse;
use crate::server::Settings;
use crate::step::Step;
use crate::{Api, Pending, Time};

impl Subscription {
    /// The step to the target, if it is the same for every client with the same set.
    pub(super) fn shared_step(&self, settings: &Settings) -> Option<Step> {
        let (sent, target) = (self.ledger.sent(), self.ledger.target());
        if Arc::ptr_eq(sent, target) || !settings.share_responses || !self.can_share_response() {
            return None;
        }
        let step = Step::between(sent, target);
        let fits = self.is_full_state() || step.bytes() <= settings.max_response_bytes;
        // A removal waits until nothing uses the resource (S-098), so it is no part of a shared
        // step.
        (fits && !step.removes() && step.len() > 0).then_some(step)
    }

    /// Responds with a shared step.
    pub(super) fn respond_with_step(&mut self, now: Time, nonce: u64, step: Step) -> NextResponse {
        self.has_unanswered_request = false;
        self.must_respond = false;
        self.is_cut = false;
        self.ledger.move_to_target();
        let full = self.is_full_state();
        let entries = if full { self.ledger.target().whole() } else { step.entries() };
        let entries = entries.clone();
        let reconnected = self.reconnected;
        let given = match self.api() {
            Api::Cds => GivenClusters::Shared { step: step.clone(), reconnected },
            _ => GivenClusters::default(),
        };
        let contents = Contents::Shared { step, reconnected };
        let response = self.start_response(now, nonce, entries, contents);
        self.schedule_beat(now, full);
        NextResponse { response, given }
    }

    /// Returns true if the next response depends on nothing but the sets.
    fn can_share_response(&self) -> bool {
        let expires = || self.sends_ttl() && self.ledger.target().timed().next().is_some();
        self.interest.is_everything()
            && !self.interest.is_by_host()
            && self.ledger.is_at_sent()
            && self.flight.is_empty()
            && *self.ledger.target().pending() == Pending::Nothing
            && !expires()
    }
}
