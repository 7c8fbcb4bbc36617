//! `ring_hash`: the hash of a call chooses its endpoint, so that calls with the same hash go to the same
//! one, and few of them move when endpoints come and go (C-114, gRFC A42, A61, A76).
//!
//! Endpoints are connected when a call needs them. While the policy has no connection that works, it
//! also connects by itself: a parent that sends no calls to it would otherwise never learn that it
//! works again.

use std::sync::Arc;

use chancery_core::Time;

use self::picker::{ByHash, MemberState};
use self::ring::{LazyRing, Spot};
use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, SubchannelId};
use super::description::Description;
use super::endpoint_set::{EndpointSet, Member};
use super::node::Branch;
use super::picker::{Failing, Observers, Picker, Wake};
use super::policy::{Balancer, PolicyConfig, Update};
use super::weights;
use crate::Failure;

mod config;
mod picker;
mod ring;

pub use self::config::{RingHashConfig, RingHashError};

/// Endpoints on a ring.
#[derive(Debug, Default)]
pub(super) struct RingHash {
    endpoints: EndpointSet,
    config: RingHashConfig,
    note: Option<Arc<str>>,
    ring: Arc<LazyRing>,
    /// True if endpoints have changed since the ring was made.
    is_old: bool,
    /// Where the search for an idle endpoint goes on.
    next_idle: usize,
    picker: Option<Arc<dyn Picker>>,
}

impl RingHash {
    /// Connects one endpoint, if nobody may ask for it although no connection works.
    fn settle(&mut self, cx: &mut Context<'_>) {
        self.picker = None;
        let is_searching = matches!(
            self.connectivity(),
            Connectivity::Connecting | Connectivity::TransientFailure
        );
        if is_searching && self.endpoints.counts().connecting == 0 {
            self.connect_one(cx);
        }
    }

    /// Connects one of those that are idle, each time the next one.
    fn connect_one(&mut self, cx: &mut Context<'_>) {
        let members = self.endpoints.members();
        if self.endpoints.counts().idle == 0 || members.is_empty() {
            return;
        }
        let start = self.next_idle % members.len();
        let is_idle = |place: &usize| members[*place].connectivity() == Connectivity::Idle;
        if let Some(place) = (start..members.len()).chain(0..start).find(is_idle) {
            self.next_idle = place + 1;
            self.endpoints.connect(place, cx);
        }
    }

    /// Returns the ring, which is made again only if endpoints, weights or sizes are others.
    fn ring(&mut self) -> Arc<LazyRing> {
        if std::mem::take(&mut self.is_old) {
            let members = self.endpoints.members();
            let endpoints = members.iter().map(|member| &member.endpoint);
            let spots = endpoints.clone().zip(weights::normalised(endpoints));
            let spots = spots.map(|(endpoint, weight)| Spot::new(endpoint, weight)).collect();
            let ring = LazyRing::new(self.config.sizes, spots);
            if !ring.is_of_same(&self.ring) {
                self.ring = Arc::new(ring);
            }
        }
        // Until somebody calls there is no need for a ring, and then a call waits for a connection
        // anyway. Later no call waits for a ring.
        if self.connectivity() != Connectivity::Idle {
            self.ring.get();
        }
        Arc::clone(&self.ring)
    }
}

impl Balancer for RingHash {
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        if let PolicyConfig::RingHash(config) = update.config {
            self.config = config.clone();
        }
        self.note = update.note.cloned();
        self.is_old = true;
        self.endpoints.update(update.endpoints, cx);
        self.settle(cx);
    }
}

impl Branch for RingHash {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        self.endpoints.subchannel(id, state, cx);
        self.settle(cx);
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        self.endpoints.ejected(id, is_ejected, cx);
        self.settle(cx);
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        match wake {
            Wake::Endpoint(id) => self.endpoints.connect_endpoint(id, cx),
            // A parent asks, which does not know what the hashes of its calls are.
            Wake::All if self.connectivity() == Connectivity::Idle => self.connect_one(cx),
            Wake::All | Wake::Session(_) => {}
        }
        self.settle(cx);
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        self.endpoints.on_time(cx);
        self.settle(cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.endpoints.deadline()
    }

    /// Two that have failed speak for all, because nobody tries the others unless calls need them.
    fn connectivity(&self) -> Connectivity {
        let counts = self.endpoints.counts();
        match (counts.ready, counts.failed, counts.connecting, counts.idle) {
            (1.., ..) => Connectivity::Ready,
            (_, 2.., ..) => Connectivity::TransientFailure,
            (_, _, 1.., _) | (_, 1, _, 1..) => Connectivity::Connecting,
            (_, _, _, 1..) => Connectivity::Idle,
            _ => Connectivity::TransientFailure,
        }
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        if let Some(picker) = &self.picker {
            return Arc::clone(picker);
        }
        let ring = self.ring();
        let members = self.endpoints.members();
        let picker: Arc<dyn Picker> = if members.is_empty() {
            let error = super::pick_first::with_note(self.endpoints.error(), self.note.as_ref());
            Arc::new(Failing(Failure::unavailable(error)))
        } else {
            Arc::new(ByHash {
                ring,
                members: members.iter().map(state_of).collect(),
                header: self.config.request_hash_header.clone(),
                is_connecting: self.endpoints.counts().connecting > 0,
                note: self.note.clone(),
            })
        };
        self.picker = Some(Arc::clone(&picker));
        picker
    }

    fn describe(&self) -> Description {
        let endpoints = self.endpoints.describe();
        Description { endpoints, ..Description::of_state(self.connectivity()) }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.endpoints.close(cx);
    }
}

fn state_of(member: &Member) -> MemberState {
    match member.connectivity() {
        Connectivity::Idle => MemberState::Idle(member.id),
        Connectivity::TransientFailure => MemberState::Failed(member.error()),
        Connectivity::Ready | Connectivity::Connecting => match member.picked(Observers::new()) {
            Some(picked) => MemberState::Ready(picked),
            None => MemberState::Connecting,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::context::{Action, Ids};
    use super::super::endpoint::Endpoint;
    use super::*;
    use crate::SeededDice;

    /// C-114: lazy connect, and a ring only for who uses it.
    #[test]
    fn an_idle_policy_has_no_ring() {
        let endpoints = ["10.0.0.1:80", "10.0.0.2:80"]
            .map(|address| Arc::new(Endpoint::at(address.parse().expect("an address"))));
        let config = PolicyConfig::RingHash(RingHashConfig::default());
        let (mut ids, mut actions, mut dice) = (Ids::default(), VecDeque::new(), SeededDice(1));
        let mut cx = Context {
            now: Time::default(),
            dice: &mut dice,
            ids: &mut ids,
            actions: &mut actions,
            trail: Vec::new(),
        };
        let mut policy = RingHash::default();
        let update = Update { config: &config, endpoints: &endpoints, note: None };
        policy.update(&update, &mut cx);
        policy.picker();
        assert!(!policy.ring.is_made());
        policy.wake(Wake::All, &mut cx);
        let Some(Action::Create { id, .. }) = cx.actions.front() else { panic!("it connects") };
        let id = *id;
        policy.picker();
        let ring = Arc::clone(&policy.ring);
        assert!(ring.is_made(), "before there is a call that needs it");
        policy.subchannel(id, &SubchannelState::Ready, &mut cx);
        policy.update(&update, &mut cx);
        policy.picker();
        assert!(
            Arc::ptr_eq(&ring, &policy.ring),
            "neither a state nor the same endpoints change it"
        );
    }
}
