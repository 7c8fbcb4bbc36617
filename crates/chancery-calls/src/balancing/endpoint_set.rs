//! The endpoints of a policy that connects to many, each with a `pick_first` of its own (gRFC A61).
//! Not here: how a policy chooses among them.

use std::sync::Arc;

use chancery_core::Time;

use super::connectivity::{Connectivity, StateCounts, SubchannelState};
use super::context::{Context, EndpointId, Part, SubchannelId};
use super::description::DescribedEndpoint;
use super::endpoint::{Endpoint, EndpointKey};
use super::owners::{Deadlines, Owners};
use super::pick_first::PickFirst;
use super::picker::{Observers, Picked};
use super::roster::{OfEndpoint, Roster, Seated};

/// The endpoints of a policy, which may keep something of its own for each.
#[derive(Debug, Default)]
pub(super) struct EndpointSet<T = ()> {
    members: Roster<Member<T>>,
    owners: Owners<EndpointKey>,
    deadlines: Deadlines<EndpointKey>,
    counts: StateCounts,
    /// The number of changes of members so far.
    changes: u64,
}

/// An endpoint of a policy, with its connection.
#[derive(Debug)]
pub struct Member<T = ()> {
    pub(super) id: EndpointId,
    pub(super) endpoint: Arc<Endpoint>,
    /// The policy keeps this as long as the endpoint is there.
    pub kept: T,
    key: EndpointKey,
    connection: PickFirst,
    /// The number of the change that it had last. No two members of a set have the same.
    changed: u64,
}

impl<T: Default> EndpointSet<T> {
    /// Takes new endpoints. Those that stay keep their connections, those that go are given up
    /// (C-120).
    pub(super) fn update(&mut self, endpoints: &[Arc<Endpoint>], cx: &mut Context<'_>) {
        let mut place = 0;
        for endpoint in endpoints {
            match self.members.seat(place, endpoint) {
                Seated::Known => self.refresh(place, endpoint, cx),
                Seated::New(key) => self.insert(place, key, endpoint, cx),
                Seated::Twice => continue,
            }
            place += 1;
        }
        for mut member in self.members.cut(place) {
            self.counts.remove(member.connectivity());
            self.deadlines.set(&member.key, None);
            self.owners.within(&member.key, cx, |cx| {
                member.connection.close(cx);
                cx.forget_endpoint(member.id);
            });
        }
    }

    /// Takes what an update says of an endpoint that is there.
    fn refresh(&mut self, place: usize, endpoint: &Arc<Endpoint>, cx: &mut Context<'_>) {
        let member = &mut self.members.items_mut()[place];
        if member.endpoint != *endpoint {
            member.endpoint = Arc::clone(endpoint);
            let endpoints = std::slice::from_ref(endpoint);
            self.change(place, cx, |connection, cx| connection.update(endpoints, cx));
        }
    }

    fn insert(
        &mut self,
        place: usize,
        key: EndpointKey,
        endpoint: &Arc<Endpoint>,
        cx: &mut Context<'_>,
    ) {
        let mut connection = PickFirst::default();
        let endpoints = std::slice::from_ref(endpoint);
        let id = self.owners.within(&key, cx, |cx| {
            connection.update(endpoints, cx);
            cx.new_endpoint()
        });
        self.counts.add(connection.connectivity());
        self.deadlines.set(&key, connection.deadline());
        self.changes += 1;
        let (endpoint, changed) = (Arc::clone(endpoint), self.changes);
        let kept = T::default();
        self.members.insert(place, Member { id, endpoint, kept, key, connection, changed });
    }

    /// Takes one more endpoint, which is not connected yet, and returns its place. One that is there stays as it is.
    pub(super) fn add(&mut self, endpoint: &Arc<Endpoint>, cx: &mut Context<'_>) -> usize {
        let key = endpoint.key();
        if let Some(place) = self.members.place_of(&key) {
            return place;
        }
        let place = self.members().len();
        self.insert(place, key, endpoint, cx);
        place
    }

    /// Returns true if a subchannel is one of these endpoints.
    pub(super) fn has(&self, id: SubchannelId) -> bool {
        self.owners.of(Part::Subchannel(id)).is_some()
    }

    /// Returns the place of the endpoint of a subchannel.
    pub(super) fn place_of_subchannel(&self, id: SubchannelId) -> Option<usize> {
        self.place_of(Part::Subchannel(id))
    }

    /// A subchannel has another state. Returns the place of its endpoint.
    pub(super) fn subchannel(
        &mut self,
        id: SubchannelId,
        state: &SubchannelState,
        cx: &mut Context<'_>,
    ) -> Option<usize> {
        let place = self.place_of_subchannel(id)?;
        self.change(place, cx, |connection, cx| connection.subchannel(id, state, cx));
        Some(place)
    }

    /// An endpoint was taken out by outlier detection, or let in again.
    pub(super) fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        if let Some(place) = self.place_of_subchannel(id) {
            self.change(place, cx, |connection, _| connection.ejected(id, is_ejected));
        }
    }

    /// Connects an endpoint that is idle.
    pub(super) fn connect(&mut self, place: usize, cx: &mut Context<'_>) {
        self.change(place, cx, PickFirst::connect);
    }

    /// Connects the endpoint of this id, if it is still there.
    pub(super) fn connect_endpoint(&mut self, id: EndpointId, cx: &mut Context<'_>) {
        if let Some(place) = self.place_of(Part::Endpoint(id)) {
            self.connect(place, cx);
        }
    }

    /// Connects all that are idle.
    pub(super) fn connect_all(&mut self, cx: &mut Context<'_>) {
        if self.counts.idle == 0 {
            return;
        }
        for place in 0..self.members().len() {
            if self.members()[place].connectivity() == Connectivity::Idle {
                self.connect(place, cx);
            }
        }
    }

    /// The time of the deadline has come.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) {
        while let Some(key) = self.deadlines.pop_due(cx.now) {
            if let Some(place) = self.members.place_of(&key) {
                self.change(place, cx, PickFirst::on_time);
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.deadlines.next()
    }

    pub(super) fn members(&self) -> &[Member<T>] {
        self.members.items()
    }

    /// The policy may change what it keeps.
    pub(super) fn members_mut(&mut self) -> &mut [Member<T>] {
        self.members.items_mut()
    }

    pub(super) fn counts(&self) -> StateCounts {
        self.counts
    }

    /// Returns the error of one that has failed, so that a call that fails can say why.
    pub(super) fn error(&self) -> Arc<str> {
        let failed = |member: &&Member<T>| member.connectivity() == Connectivity::TransientFailure;
        let error = self.members().iter().rev().find(failed).map(Member::error);
        error.unwrap_or_else(|| "there are no endpoints".into())
    }

    pub(super) fn describe(&self) -> Vec<DescribedEndpoint> {
        let of = |member: &Member<T>| {
            let described = member.connection.describe().into_iter().next()?;
            Some(DescribedEndpoint { id: Some(member.id), ..described })
        };
        self.members().iter().filter_map(of).collect()
    }

    /// Gives up all connections.
    pub(super) fn close(&mut self, cx: &mut Context<'_>) {
        self.update(&[], cx);
    }

    fn place_of(&self, part: Part) -> Option<usize> {
        self.members.place_of(self.owners.of(part)?)
    }

    fn change(
        &mut self,
        place: usize,
        cx: &mut Context<'_>,
        change: impl FnOnce(&mut PickFirst, &mut Context<'_>),
    ) {
        let Some(member) = self.members.items_mut().get_mut(place) else { return };
        self.changes += 1;
        member.changed = self.changes;
        self.counts.remove(member.connectivity());
        let connection = &mut member.connection;
        self.owners.within(&member.key, cx, |cx| change(connection, cx));
        self.counts.add(member.connectivity());
        self.deadlines.set(&member.key, member.connection.deadline());
    }
}

impl<T> OfEndpoint for Member<T> {
    fn key(&self) -> &EndpointKey {
        &self.key
    }
}

impl<T> Member<T> {
    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Returns the state of its connection.
    pub fn connectivity(&self) -> Connectivity {
        self.connection.connectivity()
    }

    /// Returns the subchannel of the endpoint, if it is ready.
    pub fn ready(&self) -> Option<SubchannelId> {
        self.connection.selected()
    }

    /// Returns the subchannel of the endpoint that is connected, although it may be taken out.
    pub fn connected(&self) -> Option<SubchannelId> {
        self.connection.connected()
    }

    /// Returns the endpoint for a call with these observers, if it is ready.
    pub fn picked(&self, observers: Observers) -> Option<Picked> {
        let picked = self.connection.picked(observers)?;
        Some(Picked { endpoint: Arc::clone(&self.endpoint), ..picked })
    }

    /// Returns a number that is another one after each change of it, and that no other member of the set has.
    pub(super) fn changed(&self) -> u64 {
        self.changed
    }

    pub(super) fn error(&self) -> Arc<str> {
        self.connection.error()
    }
}
