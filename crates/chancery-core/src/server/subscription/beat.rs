//! Heartbeats, which refresh resources with a TTL often enough for two to be lost (S-087, [TTL]).
//!
//! [TTL]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ttl

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

    /// Plans the next heartbeat, a third of the shortest TTL from now. A response that did not
    /// refresh everything may bring the heartbeat forward, and never puts it off.
    pub(super) fn schedule_beat(&mut self, now: Time, refreshed_all: bool) {
        let shortest = self.timed().filter_map(|resource| resource.ttl()).min();
        let next = shortest.map(|ttl| now + (ttl / 3).max(SHORTEST_BEAT));
        let planned = self.beat_at.filter(|_| !refreshed_all);
        self.beat_at = next.map(|next| planned.map_or(next, |planned| planned.min(next)));
    }

    /// Returns true if resources are sent with their TTLs to this client (S-086). Virtual hosts are
    /// not: one without a body would be an alias that cannot be resolved (S-089,
    /// [VHDS](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
    pub(super) fn sends_ttl(&self) -> bool {
        let carries = self.variant == Variant::Delta || self.features.wrapped_sotw;
        self.features.ttl && carries && !self.interest.is_by_host()
    }

    /// The entries of a heartbeat. They have no bodies, with two exceptions: a client deletes what
    /// a whole state leaves out, and some clients delete a SotW resource whose entry has no body
    /// (S-057).
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

    /// Returns true if heartbeats to this client have bodies.
    fn beats_with_bodies(&self) -> bool {
        let sotw = self.variant == Variant::Sotw;
        sotw && (self.is_full_state() || self.features.bodies_in_beats)
    }

    /// The resources with a TTL that a heartbeat refreshes: those that this stream has given
    /// (S-088). Rejected content is not refreshed. A resource whose successor waits to be sent is
    /// refreshed without its body, so that it does not expire meanwhile; with a body it would be
    /// sent although it is superseded.
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

/// The shortest time between heartbeats. A TTL of zero would otherwise make a stream send them
/// without end.
const SHORTEST_BEAT: Duration = Duration::from_millis(100);
