//! Priorities: calls go to the first child that works, and to lower ones only while it does not
//! (C-110, gRFC A56, A115).
//!
//! A lower child is made when it is needed. One that is not needed any more is kept for 15 minutes,
//! with its connections, because what has failed once may fail again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Time;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, Part, SubchannelId};
use super::description::{ChildName, DescribedChild, Description, TreePart, Turn};
use super::node::{Branch, Node};
use super::owners::{Deadlines, Owners};
use super::picker::{Failing, Picker, Wake};
use crate::Failure;

/// The time that a child has to connect before the next one is tried too.
const FAILOVER: Duration = Duration::from_secs(10);
/// The time for which a child is kept that is not needed.
const RETENTION: Duration = Duration::from_secs(15 * 60);

/// Children in an order.
#[derive(Debug)]
pub struct Priority<N: Node> {
    /// The names of the children with their configurations, the best first.
    order: Vec<(Arc<str>, N::Config)>,
    children: BTreeMap<Arc<str>, Child<N>>,
    owners: Owners<Arc<str>>,
    deadlines: Deadlines<Arc<str>>,
    /// The child that takes the calls.
    current: Option<Arc<str>>,
}

#[derive(Debug)]
struct Child<N> {
    node: N,
    /// The state after the last input.
    state: Connectivity,
    /// True if it was ready or idle since it last failed.
    was_well: bool,
    /// While it connects: when the next one is tried too.
    failover_at: Option<Time>,
    /// When it is given up, because a better one works.
    expires: Option<Time>,
}

impl<N: Node> Child<N> {
    /// Notes what its state is after an input, and what follows for its failover.
    fn note_state(&mut self, now: Time) {
        let before = std::mem::replace(&mut self.state, self.node.connectivity());
        match self.state {
            Connectivity::Connecting => {
                if before != Connectivity::Connecting && self.was_well {
                    self.failover_at = Some(now + FAILOVER);
                }
            }
            state => {
                self.failover_at = None;
                self.was_well = state != Connectivity::TransientFailure;
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        [self.node.deadline(), self.failover_at, self.expires].into_iter().flatten().min()
    }
}

impl<N: Node> Priority<N> {
    /// Returns the name of the child that has this subchannel, so that a driver knows which cluster of an
    /// aggregate it leads to.
    pub fn child_of(&self, id: SubchannelId) -> Option<&Arc<str>> {
        self.owners.of(Part::Subchannel(id))
    }

    fn change(
        &mut self,
        name: &Arc<str>,
        cx: &mut Context<'_>,
        handle: impl FnOnce(&mut N, &mut Context<'_>),
    ) {
        let Some(child) = self.children.get_mut(name) else { return };
        let node = &mut child.node;
        self.owners.within(name, cx, |cx| handle(node, cx));
        child.note_state(cx.now);
        self.deadlines.set(name, child.deadline());
    }

    fn change_owner(
        &mut self,
        part: Part,
        cx: &mut Context<'_>,
        handle: impl FnOnce(&mut N, &mut Context<'_>),
    ) {
        if let Some(name) = self.owners.of(part).cloned() {
            self.change(&name, cx, handle);
            self.choose(cx);
        }
    }

    fn remove(&mut self, name: &Arc<str>, cx: &mut Context<'_>) {
        let Some(mut child) = self.children.remove(name) else { return };
        self.deadlines.set(name, None);
        self.owners.within(name, cx, |cx| child.node.close(cx));
    }

    /// Chooses the child that takes the calls, and makes those that are needed for it. It gives the
    /// same result for the same states of the children.
    fn choose(&mut self, cx: &mut Context<'_>) {
        let mut connecting = None;
        for place in 0..self.order.len() {
            let child = self.needed(place, cx);
            let (state, is_waited_for) = (child.state, child.failover_at.is_some());
            if matches!(state, Connectivity::Ready | Connectivity::Idle) {
                self.let_rest(place + 1, cx.now);
                return self.use_child(place);
            }
            if is_waited_for {
                return self.use_child(place);
            }
            if state == Connectivity::Connecting {
                connecting = connecting.or(Some(place));
            }
        }
        let last = self.order.len().checked_sub(1);
        match connecting.or(last) {
            Some(place) => self.use_child(place),
            None => self.current = None,
        }
    }

    fn use_child(&mut self, place: usize) {
        self.current = self.order.get(place).map(|(name, _)| Arc::clone(name));
    }

    /// Returns the child at a place, which is made if it is not there, and kept if it was to expire.
    fn needed(&mut self, place: usize, cx: &mut Context<'_>) -> &Child<N> {
        let (name, config) = &self.order[place];
        let name = Arc::clone(name);
        if !self.children.contains_key(&name) {
            let config = config.clone();
            let child = Child {
                node: N::new(&config),
                state: Connectivity::Connecting,
                was_well: false,
                failover_at: Some(cx.now + FAILOVER),
                expires: None,
            };
            self.children.insert(Arc::clone(&name), child);
            self.change(&name, cx, |node, cx| node.update(&config, cx));
        }
        let child = self.children.get_mut(&name).expect("it was there, or was made above");
        if child.expires.take().is_some() {
            self.deadlines.set(&name, child.deadline());
        }
        child
    }

    /// Lets the children from this place on expire.
    fn let_rest(&mut self, from: usize, now: Time) {
        for (name, _) in &self.order[from..] {
            if let Some(child) = self.children.get_mut(name)
                && child.expires.is_none()
            {
                child.expires = Some(now + RETENTION);
                self.deadlines.set(name, child.deadline());
            }
        }
    }

    fn child_on_time(&mut self, name: &Arc<str>, cx: &mut Context<'_>) {
        let Some(child) = self.children.get_mut(name) else { return };
        if child.expires.is_some_and(|at| at <= cx.now) {
            return self.remove(name, cx);
        }
        if child.failover_at.is_some_and(|at| at <= cx.now) {
            child.failover_at = None;
        }
        self.change(name, cx, N::on_time);
    }
}

impl<N: Node> Node for Priority<N> {
    /// The names of the children with their configurations, the best first. A name stays with what
    /// it names when that moves to another priority.
    type Config = Vec<(Arc<str>, N::Config)>;

    fn new(_: &Self::Config) -> Self {
        Self {
            order: Vec::new(),
            children: BTreeMap::new(),
            owners: Owners::default(),
            deadlines: Deadlines::default(),
            current: None,
        }
    }

    fn update(&mut self, order: &Self::Config, cx: &mut Context<'_>) {
        self.order.clone_from(order);
        let configs: BTreeMap<_, _> = order.iter().map(|(name, config)| (name, config)).collect();
        for name in self.children.keys().cloned().collect::<Vec<_>>() {
            match configs.get(&name) {
                Some(config) => self.change(&name, cx, |node, cx| node.update(config, cx)),
                None => self.remove(&name, cx),
            }
        }
        self.choose(cx);
    }
}

impl<N: Node> Branch for Priority<N> {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        let part = Part::Subchannel(id);
        self.change_owner(part, cx, |node, cx| node.subchannel(id, state, cx));
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        let part = Part::Subchannel(id);
        self.change_owner(part, cx, |node, cx| node.ejected(id, is_ejected, cx));
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        if let Wake::Endpoint(id) = wake {
            return self.change_owner(Part::Endpoint(id), cx, |node, cx| node.wake(wake, cx));
        }
        if let Some(current) = self.current.clone() {
            self.change(&current, cx, |node, cx| node.wake(wake, cx));
            self.choose(cx);
        }
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        while let Some(name) = self.deadlines.pop_due(cx.now) {
            self.child_on_time(&name, cx);
        }
        self.choose(cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.deadlines.next()
    }

    fn connectivity(&self) -> Connectivity {
        let current = self.current.as_ref().and_then(|name| self.children.get(name));
        current.map_or(Connectivity::TransientFailure, |child| child.state)
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        let current = self.current.as_ref().and_then(|name| self.children.get_mut(name));
        match current {
            Some(child) => child.node.picker(),
            None => Arc::new(Failing(Failure::unavailable("there are no priorities"))),
        }
    }

    fn describe(&self) -> Description {
        let current = self.order.iter().position(|(name, _)| Some(name) == self.current.as_ref());
        let children = self.order.iter().enumerate().map(|(place, (name, _))| DescribedChild {
            name: ChildName::Priority { place, name: Arc::clone(name) },
            turn: match current {
                Some(current) if place == current => Turn::Taken,
                Some(current) if place > current => Turn::Spare,
                _ => Turn::PassedOver,
            },
            description: self.children.get(name).map(|child| child.node.describe()),
        });
        let (children, endpoints) = (children.collect(), Vec::new());
        let state = self.connectivity();
        Description { part: TreePart::Priorities, state, children, endpoints }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for name in self.children.keys().cloned().collect::<Vec<_>>() {
            self.remove(&name, cx);
        }
        self.current = None;
    }
}
