//! The parts of a tree, whatever they are configured by.

use std::fmt;
use std::sync::Arc;

use chancery_core::Time;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, SubchannelId};
use super::description::Description;
use super::picker::{Picker, Wake};

/// A part of a tree, as what is above it sees it. It handles one input at a time and does no I/O: what it
/// wants done, it says to its [`Context`]. After inputs it is asked for its state and, when calls need
/// one, for a picker.
pub trait Branch: Send + fmt::Debug {
    /// A subchannel of its own has another state.
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>);

    /// An endpoint of this subchannel was taken out by outlier detection, or let in again.
    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>);

    /// A picker wants something to be connected.
    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>);

    /// The time of its deadline has come.
    fn on_time(&mut self, cx: &mut Context<'_>);

    /// Returns when it is to be called again.
    fn deadline(&self) -> Option<Time>;

    /// Returns its state.
    fn connectivity(&self) -> Connectivity;

    /// Returns a picker for what is true now.
    fn picker(&mut self) -> Arc<dyn Picker>;

    /// Describes itself and what is below it. A policy of a program may say no more than its state.
    fn describe(&self) -> Description {
        Description::of_state(self.connectivity())
    }

    /// Gives up all subchannels.
    fn close(&mut self, cx: &mut Context<'_>);
}

/// A part of a tree with a configuration of its own kind: a cluster, priorities, outlier detection.
///
/// A [`Balancer`](super::Balancer) is one that chooses among endpoints, and has an update for that.
pub trait Node: Branch {
    /// The part of its configuration that comes with each update.
    type Config: Clone + Send + fmt::Debug;

    /// Returns a node for this configuration, which was not updated yet.
    fn new(config: &Self::Config) -> Self
    where
        Self: Sized;

    /// There is another configuration.
    fn update(&mut self, config: &Self::Config, cx: &mut Context<'_>);
}

/// The endpoints of a policy with its configuration, as a value: an update that can be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyTarget {
    /// The configuration.
    pub config: super::PolicyConfig,
    /// The endpoints, each once.
    pub endpoints: Arc<[Arc<super::Endpoint>]>,
    /// An error of the control plane that explains why there are no endpoints, or none that work.
    pub note: Option<Arc<str>>,
}
