//! Policies that are connected to all of their endpoints, and differ in how a call is given to one that
//! is ready (C-113, C-115, C-116). A program that adds a policy of this kind writes a [`Choose`].

use std::fmt;
use std::sync::Arc;

use chancery_core::Time;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, SubchannelId};
use super::description::Description;
use super::endpoint_set::{EndpointSet, Member};
use super::node::Branch;
use super::pick_first::with_note;
use super::picker::{Failing, Picker, Queueing, Wake};
use super::policy::{Balancer, PolicyConfig, Update};
use crate::Failure;

/// Connections to all endpoints, with a way to choose among them.
#[derive(Debug, Default)]
pub struct ConnectAll<C: Choose> {
    endpoints: EndpointSet<C::Kept>,
    choose: C,
    note: Option<Arc<str>>,
    picker: Option<Arc<dyn Picker>>,
}

/// A way to choose among endpoints that are ready. [`ConnectAll`] makes a policy of it.
pub trait Choose: Default + Send + fmt::Debug {
    /// It keeps this for each endpoint, as long as the endpoint is there.
    type Kept: Default + Send + fmt::Debug;

    /// There is another configuration, or there are other endpoints.
    fn update(
        &mut self,
        config: &PolicyConfig,
        endpoints: &mut [Member<Self::Kept>],
        cx: &mut Context<'_>,
    );

    /// An endpoint has a new connection.
    fn connected(&mut self, _: &Member<Self::Kept>, _: &mut Context<'_>) {}

    /// Returns a picker among those that are ready. There is at least one. It is used until others are ready.
    fn picker(&mut self, endpoints: &[Member<Self::Kept>]) -> Arc<dyn Picker>;

    /// The time of its deadline may have come. Returns true if there has to be another picker.
    fn on_time(&mut self, _: &[Member<Self::Kept>], _: &mut Context<'_>) -> bool {
        false
    }

    /// Returns when to call [`on_time`](Self::on_time).
    fn deadline(&self) -> Option<Time> {
        None
    }
}

impl<C: Choose> ConnectAll<C> {
    /// Whoever is idle is connected at once.
    fn settle(&mut self, cx: &mut Context<'_>) {
        self.picker = None;
        self.endpoints.connect_all(cx);
    }
}

impl<C: Choose> Balancer for ConnectAll<C> {
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        self.note = update.note.cloned();
        self.endpoints.update(update.endpoints, cx);
        self.choose.update(update.config, self.endpoints.members_mut(), cx);
        self.settle(cx);
    }
}

impl<C: Choose> Branch for ConnectAll<C> {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        let Some(place) = self.endpoints.place_of_subchannel(id) else { return };
        let before = (self.connectivity(), self.endpoints.members()[place].ready());
        self.endpoints.subchannel(id, state, cx);
        self.endpoints.connect(place, cx);
        let member = &self.endpoints.members()[place];
        let (whole, was_ready) = before;
        let is_same = whole == self.connectivity() && was_ready == member.ready();
        if whole != Connectivity::Ready || !is_same {
            self.picker = None;
        }
        if *state == SubchannelState::Ready && member.connected() == Some(id) {
            self.choose.connected(member, cx);
        }
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        self.picker = None;
        self.endpoints.ejected(id, is_ejected, cx);
    }

    fn wake(&mut self, _: Wake, cx: &mut Context<'_>) {
        self.settle(cx);
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        if self.endpoints.deadline().is_some_and(|at| at <= cx.now) {
            self.picker = None;
            self.endpoints.on_time(cx);
        }
        if self.choose.on_time(self.endpoints.members(), cx) {
            self.picker = None;
        }
    }

    fn deadline(&self) -> Option<Time> {
        [self.endpoints.deadline(), self.choose.deadline()].into_iter().flatten().min()
    }

    fn connectivity(&self) -> Connectivity {
        self.endpoints.counts().aggregated()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        if let Some(picker) = &self.picker {
            return Arc::clone(picker);
        }
        let picker: Arc<dyn Picker> = match self.connectivity() {
            Connectivity::Ready => self.choose.picker(self.endpoints.members()),
            Connectivity::Connecting | Connectivity::Idle => Arc::new(Queueing(None)),
            Connectivity::TransientFailure => {
                let error = with_note(self.endpoints.error(), self.note.as_ref());
                Arc::new(Failing(Failure::unavailable(error)))
            }
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
