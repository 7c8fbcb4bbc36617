//! The surroundings of a policy while it handles an input: the time, dice, and the actions it takes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use chancery_core::Time;

use super::counted::Counted;
use super::endpoint::Endpoint;
use super::report::LoadWatch;
use crate::Dice;

/// A subchannel of a tree: a connection to one address, made when it is asked for.
///
/// The numbers are small and used again, so that a driver can keep connections in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubchannelId {
    slot: u32,
    generation: u32,
}

/// An endpoint of a tree, which may have no subchannel yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(u64);

/// A step that the driver of a tree is to take. Each is told once, in order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Make a subchannel, and tell its state. It connects to nothing by itself.
    Create {
        /// Its id from now on.
        id: SubchannelId,
        /// The address to connect to, one of the endpoint's.
        address: SocketAddr,
        /// The endpoint that it belongs to.
        endpoint: Arc<Endpoint>,
    },
    /// Connect a subchannel that is idle.
    Connect(SubchannelId),
    /// Ask the server of this subchannel for reports of its load, or do not any more. It is told when
    /// there is a connection, and ends with that.
    WatchLoad {
        /// The subchannel.
        id: SubchannelId,
        /// The wish for reports. It replaces what was told before.
        watch: Option<LoadWatch>,
    },
    /// The subchannel is not needed any more. Its id may come again.
    Close(SubchannelId),
    /// Count something for metrics.
    Count(Counted),
    /// Ask the names of DNS again, because connections to what they gave have failed.
    Resolve,
}

/// The ids of one tree.
#[derive(Debug, Default)]
pub(super) struct Ids {
    free: Vec<SubchannelId>,
    slots: u32,
    endpoints: u64,
}

/// The surroundings of a policy while it handles one input.
pub struct Context<'a> {
    /// The time.
    pub now: Time,
    pub(super) dice: &'a mut dyn Dice,
    pub(super) ids: &'a mut Ids,
    pub(super) actions: &'a mut VecDeque<Action>,
    pub(super) trail: Vec<Trace>,
}

/// A part of a tree that has an owner at each level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Subchannel(SubchannelId),
    Endpoint(EndpointId),
}

/// A part that came or went while an input was handled.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trace {
    Made(Part),
    /// A subchannel that was made connects to this address.
    Leads(SubchannelId, SocketAddr),
    Gone(Part),
}

impl SubchannelId {
    /// Returns the place of the subchannel in a list of all of its tree.
    pub fn slot(self) -> usize {
        // A u32 fits into the usize of every machine that this runs on.
        usize::try_from(self.slot).unwrap_or(usize::MAX)
    }
}

impl Context<'_> {
    /// Makes a subchannel.
    pub fn create(&mut self, address: SocketAddr, endpoint: &Arc<Endpoint>) -> SubchannelId {
        let id = self.ids.subchannel();
        self.actions.push_back(Action::Create { id, address, endpoint: Arc::clone(endpoint) });
        self.trail.push(Trace::Made(Part::Subchannel(id)));
        self.trail.push(Trace::Leads(id, address));
        id
    }

    /// Connects a subchannel that is idle.
    pub fn connect(&mut self, id: SubchannelId) {
        self.actions.push_back(Action::Connect(id));
    }

    /// Asks the server of a subchannel that is ready for reports of its load, or for none any more.
    pub fn watch_load(&mut self, id: SubchannelId, watch: Option<LoadWatch>) {
        self.actions.push_back(Action::WatchLoad { id, watch });
    }

    /// Gives a subchannel up.
    pub fn close(&mut self, id: SubchannelId) {
        self.ids.free.push(SubchannelId { generation: id.generation.wrapping_add(1), ..id });
        self.actions.push_back(Action::Close(id));
        self.trail.push(Trace::Gone(Part::Subchannel(id)));
    }

    /// Counts something for metrics.
    pub fn count(&mut self, counted: Counted) {
        self.actions.push_back(Action::Count(counted));
    }

    /// Asks for the names of DNS to be resolved again.
    pub fn resolve(&mut self) {
        self.actions.push_back(Action::Resolve);
    }

    /// Rolls the dice of the tree.
    pub fn dice(&mut self) -> &mut dyn Dice {
        self.dice
    }

    /// Returns the id of a new endpoint.
    pub(super) fn new_endpoint(&mut self) -> EndpointId {
        self.ids.endpoints += 1;
        let id = EndpointId(self.ids.endpoints);
        self.trail.push(Trace::Made(Part::Endpoint(id)));
        id
    }

    /// An endpoint is not needed any more.
    pub(super) fn forget_endpoint(&mut self, id: EndpointId) {
        self.trail.push(Trace::Gone(Part::Endpoint(id)));
    }
}

impl Ids {
    fn subchannel(&mut self) -> SubchannelId {
        self.free.pop().unwrap_or_else(|| {
            let slot = self.slots;
            self.slots += 1;
            SubchannelId { slot, generation: 0 }
        })
    }
}
