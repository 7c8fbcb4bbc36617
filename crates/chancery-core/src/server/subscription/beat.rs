//! Heartbeats: what has a TTL is refreshed in time for two to be lost (S-087).

use std::sync::Arc;
use std::time::Duration;

use super::given_clusters::GivenClusters;
use super::respond::NextResponse;
use super::{Subscription, Variant};
use crate::server::{ResponseEntry, Segment};
use crate::{Resource, Time};

impl Subscription {
    /// The next heartbeat, if it is due.
    pub(crate) fn beat(&mut self, now: Time, nonce: u64) -> Option<NextResponse> {
        if self.beat_at.is_none_or(|at| now < at) {
            return None;
        }
        let entries = self.beat_entries();
        self.schedule_beat(now, true);
        if entries.is_empty() {
            return None;
        }
        let response = self.respond(now, nonce, entries, Vec::new());
        Some(NextResponse { response, given: GivenClusters::default() })
    }

    /// Puts the next heartbeat a third of the shortest TTL from now. A response that did not
    /// refresh everything may bring it forward, and never puts it off.
    pub(super) fn schedule_beat(&mut self, now: Time, refreshed_all: bool) {
        let shortest = self.timed().filter_map(|resource| resource.ttl()).min();
        let next = shortest.map(|ttl| now + (ttl / 3).max(SHORTEST_BEAT));
        let planned = self.beat_at.filter(|_| !refreshed_all);
        self.beat_at = next.map(|next| planned.map_or(next, |planned| planned.min(next)));
    }

    /// Whether TTLs are told to this client (S-086). No virtual host has one: without a body it
    /// would read as an alias that cannot be resolved (S-089).
    pub(super) fn sends_ttl(&self) -> bool {
        let carries = self.variant == Variant::Delta || self.features.wrapped_sotw;
        self.features.ttl && carries && !self.interest.is_by_host()
    }

    /// The body stays out, except where it must not: a full state deletes what it leaves out, and
    /// some clients take a SotW entry without a body for a deletion (S-057).
    fn beat_entries(&self) -> Vec<Segment> {
        if self.is_full_state() && self.timed().next().is_some() {
            return self.full_state();
        }
        let heartbeat = !self.beats_with_bodies();
        let entry =
            |resource| ResponseEntry { heartbeat, ttl: true, ..ResponseEntry::of(resource) };
        let entries = self.timed().map(|resource| Segment::Own(Arc::new(entry(resource))));
        let mut entries: Vec<_> = entries.collect();
        entries.sort_by(|one, other| one.name().cmp(other.name()));
        entries
    }

    fn beats_with_bodies(&self) -> bool {
        let sotw = self.variant == Variant::Sotw;
        sotw && (self.is_full_state() || self.features.bodies_in_beats)
    }

    /// The resources with a TTL that were delivered on this stream (S-088). Content that was rejected
    /// is not refreshed, nor are bodies sent that have been superseded. What the client holds while
    /// its successor waits is refreshed without a body: it must not expire meanwhile.
    fn timed(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let with_body = self.beats_with_bodies();
        let delivered = self.sends_ttl().then(|| self.ledger.held_with_ttl());
        delivered.into_iter().flatten().filter(move |resource| {
            let name = resource.name().as_str();
            let wanted =
                self.interest.includes_member(resource.name()) || self.interest.is_named(name);
            let current = !with_body || self.ledger.target().get(name) == Some(resource);
            wanted && current && !self.ledger.is_refused(name)
        })
    }
}

/// A TTL of nothing would make a stream beat without end.
const SHORTEST_BEAT: Duration = Duration::from_millis(100);
