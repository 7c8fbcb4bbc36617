//! A tree with its surroundings: what a driver holds.
//!
//! ```text
//!   endpoints, states, time, wakes  -->  Tree  -->  actions, a state, a picker
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use chancery_core::Time;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Action, Context, Ids, SubchannelId};
use super::description::Description;
use super::node::Node;
use super::picker::{Picker, Wake};
use crate::Dice;

/// A tree of policies, or of clusters.
///
/// A driver hands each input to it, does the [`Action`]s it then has, until there are none, and puts
/// the [`picker`](Self::picker) where callers find it. It calls [`on_time`](Self::on_time) at the
/// [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Tree<N, D> {
    root: Option<N>,
    ids: Ids,
    actions: VecDeque<Action>,
    dice: D,
}

impl<N: Node, D: Dice> Tree<N, D> {
    /// Returns a tree that knows nothing yet.
    pub fn new(dice: D) -> Self {
        Self { root: None, ids: Ids::default(), actions: VecDeque::new(), dice }
    }

    /// Returns the policy or cluster at the top; `None` before the first update.
    pub fn root(&self) -> Option<&N> {
        self.root.as_ref()
    }

    /// There is another configuration, with other endpoints.
    pub fn update(&mut self, config: &N::Config, now: Time) {
        self.root.get_or_insert_with(|| N::new(config));
        self.with_root(now, |root, cx| root.update(config, cx));
    }

    /// A subchannel has another state. What is said of one that was closed is ignored.
    pub fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, now: Time) {
        self.with_root(now, |root, cx| root.subchannel(id, state, cx));
    }

    /// A picker wants something to be connected.
    pub fn wake(&mut self, wake: Wake, now: Time) {
        self.with_root(now, |root, cx| root.wake(wake, cx));
    }

    /// The time has come that the tree waits for.
    pub fn on_time(&mut self, now: Time) {
        self.with_root(now, N::on_time);
    }

    /// Returns when to call [`on_time`](Self::on_time).
    pub fn deadline(&self) -> Option<Time> {
        self.root.as_ref().and_then(N::deadline)
    }

    /// Returns the next action, once.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the state of the whole.
    pub fn connectivity(&self) -> Connectivity {
        self.root.as_ref().map_or(Connectivity::Idle, N::connectivity)
    }

    /// Returns the picker of what is true now; `None` before the first update.
    pub fn picker(&mut self) -> Option<Arc<dyn Picker>> {
        self.root.as_mut().map(N::picker)
    }

    /// Describes the whole; `None` before the first update.
    pub fn describe(&self) -> Option<Description> {
        self.root.as_ref().map(N::describe)
    }

    /// Gives everything up: the actions close all subchannels.
    pub fn close(&mut self, now: Time) {
        self.with_root(now, N::close);
        self.root = None;
    }

    fn with_root(&mut self, now: Time, handle: impl FnOnce(&mut N, &mut Context<'_>)) {
        let Some(root) = &mut self.root else { return };
        let (ids, actions, dice) = (&mut self.ids, &mut self.actions, &mut self.dice);
        handle(root, &mut Context { now, dice, ids, actions, trail: Vec::new() });
    }
}
