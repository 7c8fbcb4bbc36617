//! The endpoints that sessions of a cluster stay with, and the connections that are kept for them (C-106, C-109;
//! gRFCs A55, A61, A75).
//!
//! ```text
//!   a call of a session --Wake::Session--> Sessions holds its endpoint --idle_timeout--> and lets it go
//! ```
//!
//! An endpoint is held by a subchannel of its own, beside those of the policies: so it is connected while it is
//! draining, or in a priority that takes no other calls. A driver that shares connections by their address makes no
//! second one. Not here: cookies (`filters::session`), and the choice for one call (`choice`).

mod choice;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_core::Time;

pub(super) use self::choice::{Choice, SessionPicker};
use crate::balancing::connectivity::{Connectivity, SubchannelState};
use crate::balancing::context::{Context, SubchannelId};
use crate::balancing::description::{ChildName, DescribedChild, Description, Turn};
use crate::balancing::endpoint::Endpoint;
use crate::balancing::endpoint_set::{EndpointSet, Member};

/// The least time between two looks at who was used (gRFC A75).
const SHORTEST_SWEEP: Duration = Duration::from_secs(5);
/// The most time between two looks, however long connections are kept.
const LONGEST_SWEEP: Duration = Duration::from_secs(15 * 60);

/// The endpoints that the sessions of a cluster may stay with.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEndpoints {
    /// The endpoints, each once.
    pub endpoints: Arc<[Arc<Endpoint>]>,
    /// The time for which an endpoint is connected after the last call of a session.
    pub idle_timeout: Duration,
}

/// The sessions of a cluster.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    idle_timeout: Duration,
    /// True if the cluster has sessions at all.
    is_on: bool,
    known: Arc<Known>,
    held: EndpointSet<Held>,
    sweep_at: Option<Time>,
    picker: Option<Arc<SessionPicker>>,
}

/// The endpoints by their addresses. Pickers share it until there are other endpoints.
#[derive(Debug, Default)]
struct Known {
    places: HashMap<SocketAddr, usize>,
    endpoints: Vec<Candidate>,
}

/// An endpoint that a session may stay with.
#[derive(Debug)]
struct Candidate {
    endpoint: Arc<Endpoint>,
    /// True if a session has used it since somebody looked. Callers write it once between two looks, so that they
    /// do not contend.
    was_used: AtomicBool,
}

/// The last use of an endpoint that is held; `None` if it was not held before the present update.
#[derive(Debug, Default)]
struct Held(Option<Time>);

impl Known {
    fn new(endpoints: &[Arc<Endpoint>]) -> Self {
        let mut known = Self::default();
        for endpoint in endpoints {
            let place = known.endpoints.len();
            for address in &*endpoint.addresses {
                known.places.entry(*address).or_insert(place);
            }
            let (endpoint, was_used) = (Arc::clone(endpoint), AtomicBool::new(false));
            known.endpoints.push(Candidate { endpoint, was_used });
        }
        known
    }

    fn place_of(&self, endpoint: &Endpoint) -> Option<usize> {
        endpoint.addresses.iter().find_map(|address| self.places.get(address)).copied()
    }

    fn at(&self, address: SocketAddr) -> Option<(usize, &Candidate)> {
        let place = *self.places.get(&address)?;
        self.endpoints.get(place).map(|candidate| (place, candidate))
    }
}

impl Candidate {
    fn is_used(&self) {
        if !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
    }
}

impl Sessions {
    /// Takes the endpoints of an update; `None` if the cluster has no sessions. An endpoint that is held stays so if
    /// one of its addresses is still there (gRFC A61).
    pub(super) fn update(&mut self, target: Option<&SessionEndpoints>, cx: &mut Context<'_>) {
        self.picker = None;
        self.is_on = target.is_some();
        let endpoints = target.map(|target| &*target.endpoints).unwrap_or_default();
        self.idle_timeout = target.map(|target| target.idle_timeout).unwrap_or_default();
        self.note_uses(cx.now);
        self.known = Arc::new(Known::new(endpoints));
        if self.held.members().is_empty() {
            return;
        }
        let held = self.held.members().iter().flat_map(|it| it.endpoint.addresses.iter().copied());
        let held: HashSet<_> = held.collect();
        let is_held =
            |endpoint: &&Arc<Endpoint>| endpoint.addresses.iter().any(|it| held.contains(it));
        let stay: Vec<_> = endpoints.iter().filter(is_held).map(Arc::clone).collect();
        self.held.update(&stay, cx);
        for place in 0..self.held.members().len() {
            let last_use = &mut self.held.members_mut()[place].kept.0;
            if last_use.is_none() {
                *last_use = Some(cx.now);
                self.held.connect(place, cx);
            }
        }
        // Updates may come more often than looks, and must not put them off.
        let planned = self.sweep_at;
        self.set_sweep(cx.now);
        self.sweep_at = self.sweep_at.map(|at| planned.map_or(at, |planned| planned.min(at)));
    }

    /// Holds and connects the endpoint with this address, for a session.
    pub(super) fn hold(&mut self, address: SocketAddr, cx: &mut Context<'_>) {
        let known = Arc::clone(&self.known);
        let Some((_, candidate)) = known.at(address) else { return };
        self.picker = None;
        let place = self.held.add(&candidate.endpoint, cx);
        self.held.members_mut()[place].kept.0 = Some(cx.now);
        self.held.connect(place, cx);
        if self.sweep_at.is_none() {
            self.set_sweep(cx.now);
        }
    }

    /// A subchannel has another state. Returns false if it is none of these.
    pub(super) fn subchannel(
        &mut self,
        id: SubchannelId,
        state: &SubchannelState,
        cx: &mut Context<'_>,
    ) -> bool {
        let is_own = self.held.subchannel(id, state, cx).is_some();
        if is_own {
            self.picker = None;
        }
        is_own
    }

    /// An endpoint was taken out by outlier detection, or let in again. Returns false if it is none of these.
    pub(super) fn ejected(
        &mut self,
        id: SubchannelId,
        is_ejected: bool,
        cx: &mut Context<'_>,
    ) -> bool {
        let is_own = self.held.has(id);
        if is_own {
            self.picker = None;
            self.held.ejected(id, is_ejected, cx);
        }
        is_own
    }

    /// The time of the deadline may have come.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) {
        if self.held.deadline().is_some_and(|at| at <= cx.now) {
            self.picker = None;
            self.held.on_time(cx);
        }
        if self.sweep_at.is_some_and(|at| at <= cx.now) {
            self.sweep(cx);
        }
    }

    /// Lets those go that no session has used for too long (gRFC A75).
    fn sweep(&mut self, cx: &mut Context<'_>) {
        self.note_uses(cx.now);
        let is_used = |held: &Held| held.0.is_some_and(|at| at + self.idle_timeout > cx.now);
        // Calls wait for one that is being connected. It must come to its end, or they would ask for it again.
        let is_awaited = |member: &Member<Held>| member.connectivity() == Connectivity::Connecting;
        let members = self.held.members();
        let stay: Vec<_> = members
            .iter()
            .filter(|member| is_used(&member.kept) || is_awaited(member))
            .map(|member| Arc::clone(&member.endpoint))
            .collect();
        if stay.len() < members.len() {
            self.picker = None;
            self.held.update(&stay, cx);
        }
        self.set_sweep(cx.now);
    }

    fn note_uses(&mut self, now: Time) {
        for member in self.held.members_mut() {
            let place = self.known.place_of(&member.endpoint);
            let candidate = place.and_then(|place| self.known.endpoints.get(place));
            if candidate.is_some_and(|it| it.was_used.swap(false, Ordering::Relaxed)) {
                member.kept.0 = Some(now);
            }
        }
    }

    fn set_sweep(&mut self, now: Time) {
        let period = (self.idle_timeout / 4).clamp(SHORTEST_SWEEP, LONGEST_SWEEP);
        self.sweep_at = (!self.held.members().is_empty()).then(|| now + period);
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        [self.held.deadline(), self.sweep_at].into_iter().flatten().min()
    }

    /// Returns what chooses for calls that have a session, if the cluster has sessions.
    pub(super) fn picker(&mut self) -> Option<Arc<SessionPicker>> {
        if self.is_on && self.picker.is_none() {
            let picker = SessionPicker::new(Arc::clone(&self.known), self.held.members());
            self.picker = Some(Arc::new(picker));
        }
        self.picker.clone()
    }

    /// Describes those that are held, if there are some.
    pub(super) fn describe(&self) -> Option<DescribedChild> {
        let endpoints = self.held.describe();
        let state: Connectivity = self.held.counts().aggregated();
        let description = Description { endpoints, ..Description::of_state(state) };
        let is_shown = !description.endpoints.is_empty();
        is_shown.then_some(DescribedChild {
            name: ChildName::Sessions,
            turn: Turn::Taken,
            description: Some(description),
        })
    }

    /// Lets all go.
    pub(super) fn close(&mut self, cx: &mut Context<'_>) {
        self.picker = None;
        self.sweep_at = None;
        self.held.close(cx);
    }
}
