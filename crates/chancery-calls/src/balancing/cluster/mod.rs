//! One cluster: its priorities, the calls that it drops, the calls that it allows at a time, and the
//! count of those that it has (C-118, C-132, C-147), and its sessions (C-106). Not here: outlier detection.

mod assignment;
mod limits;
mod names;
mod sessions;

use std::sync::Arc;

use chancery_core::Time;

pub use self::assignment::{AssignedLocality, Assignment};
use self::limits::{Choosing, Limited, LocalityLoads};
pub use self::limits::{DropCategory, InFlight, LoadSink, Permit};
pub use self::names::PriorityNames;
pub use self::sessions::SessionEndpoints;
use self::sessions::{SessionPicker, Sessions};
use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, SubchannelId};
use super::description::{Description, TreePart};
use super::node::{Branch, Node, PolicyTarget};
use super::picker::{Failing, Picker, Wake};
use super::priority::Priority;
use super::switch::Switch;
use crate::Failure;

/// A cluster with its endpoints, as its resources say.
#[derive(Clone, Debug)]
pub struct ClusterTarget {
    /// The name, for messages.
    pub name: Arc<str>,
    /// The priorities, the best first, each with its policy and endpoints.
    pub priorities: Vec<(Arc<str>, PolicyTarget)>,
    /// The reason why there are no priorities, if the control plane gave one.
    pub problem: Option<Arc<str>>,
    /// The parts of the calls that are dropped.
    pub drops: Arc<[DropCategory]>,
    /// The calls that are under way in the process, to this cluster and service.
    pub in_flight: Arc<InFlight>,
    /// The number of them that is allowed.
    pub max_requests: u32,
    /// Counts the calls for load reports.
    pub load: Option<Arc<dyn LoadSink>>,
    /// The endpoints that sessions may stay with, if there are sessions.
    pub sessions: Option<SessionEndpoints>,
}

/// One cluster.
#[derive(Debug)]
pub struct Cluster {
    target: ClusterTarget,
    loads: Arc<LocalityLoads>,
    priorities: Priority<Switch>,
    sessions: Sessions,
    picker: Option<OwnPicker>,
}

/// The picker that was made, with those that it was made of.
#[derive(Debug)]
struct OwnPicker {
    picker: Arc<dyn Picker>,
    priorities: Arc<dyn Picker>,
    sessions: Option<Arc<SessionPicker>>,
}

impl OwnPicker {
    fn is_of(&self, priorities: &Arc<dyn Picker>, sessions: Option<&Arc<SessionPicker>>) -> bool {
        let is_same = match (&self.sessions, sessions) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        is_same && Arc::ptr_eq(&self.priorities, priorities)
    }
}

impl Cluster {
    fn failure(&self) -> Failure {
        let name = &self.target.name;
        Failure::unavailable(match &self.target.problem {
            Some(problem) => format!("cluster `{name}`: {problem}"),
            None => format!("cluster `{name}` has no endpoints"),
        })
    }
}

impl Node for Cluster {
    type Config = ClusterTarget;

    fn new(target: &ClusterTarget) -> Self {
        Self {
            target: target.clone(),
            loads: Arc::default(),
            priorities: Priority::new(&target.priorities),
            sessions: Sessions::default(),
            picker: None,
        }
    }

    fn update(&mut self, target: &ClusterTarget, cx: &mut Context<'_>) {
        self.target.clone_from(target);
        self.loads = Arc::new(LocalityLoads::new(target));
        self.picker = None;
        self.priorities.update(&target.priorities, cx);
        self.sessions.update(target.sessions.as_ref(), cx);
    }
}

impl Branch for Cluster {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        if !self.sessions.subchannel(id, state, cx) {
            self.priorities.subchannel(id, state, cx);
        }
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        if !self.sessions.ejected(id, is_ejected, cx) {
            self.priorities.ejected(id, is_ejected, cx);
        }
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        match wake {
            Wake::Session(address) => self.sessions.hold(address, cx),
            Wake::Endpoint(_) | Wake::All => self.priorities.wake(wake, cx),
        }
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        self.sessions.on_time(cx);
        self.priorities.on_time(cx);
    }

    fn deadline(&self) -> Option<Time> {
        [self.priorities.deadline(), self.sessions.deadline()].into_iter().flatten().min()
    }

    fn connectivity(&self) -> Connectivity {
        self.priorities.connectivity()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        let inner = match self.target.priorities.is_empty() {
            true => Arc::new(Failing(self.failure())),
            false => self.priorities.picker(),
        };
        let sessions = self.sessions.picker();
        if let Some(own) = self.picker.as_ref().filter(|own| own.is_of(&inner, sessions.as_ref())) {
            return Arc::clone(&own.picker);
        }
        let is_ready = self.priorities.connectivity() == Connectivity::Ready;
        let loads = Arc::clone(&self.loads);
        let choosing = Choosing { sessions: sessions.clone(), inner: Arc::clone(&inner), is_ready };
        let limited = Limited::new(&self.target, loads, choosing);
        let picker: Arc<dyn Picker> = Arc::new(limited);
        self.picker = Some(OwnPicker { picker: Arc::clone(&picker), priorities: inner, sessions });
        picker
    }

    fn describe(&self) -> Description {
        let ClusterTarget { name, problem, drops, in_flight, max_requests, .. } = &self.target;
        let part = TreePart::Cluster {
            name: Arc::clone(name),
            problem: problem.clone(),
            drops: Arc::clone(drops),
            in_flight: in_flight.count(),
            max_requests: *max_requests,
        };
        let mut description = Description { part, ..self.priorities.describe() };
        description.children.extend(self.sessions.describe());
        description
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.sessions.close(cx);
        self.priorities.close(cx);
    }
}
