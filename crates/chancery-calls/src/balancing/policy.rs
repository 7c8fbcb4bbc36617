//! Policies: the abilities of each, and the configurations of those that are built in.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::connect_all::ConnectAll;
use super::context::Context;
use super::custom::CustomPolicy;
use super::endpoint::Endpoint;
use super::least_request::{ChoiceCount, Fewest};
use super::node::Branch;
use super::pick_first::PickFirstPolicy;
use super::random_subsetting::RandomSubsetting;
use super::ring_hash::{RingHash, RingHashConfig};
use super::round_robin::InTurn;
use super::weighted_round_robin::{ByReports, WeightedRoundRobinConfig};
use super::weighted_target::WrrLocality;

/// A policy that chooses among endpoints.
pub trait Balancer: Branch {
    /// There are new endpoints or a new configuration, of the kind that the policy was made for.
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>);
}

/// The endpoints and the configuration that a policy works with.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// Its configuration.
    pub config: &'a PolicyConfig,
    /// Its endpoints, each once.
    pub endpoints: &'a [Arc<Endpoint>],
    /// An error of the control plane that explains why there are no endpoints, or none that work.
    pub note: Option<&'a Arc<str>>,
}

/// The configuration of a policy for the endpoints of one priority (C-112).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PolicyConfig {
    /// One connection, to the first address that answers (C-117).
    PickFirst {
        /// True if each client tries the endpoints in an order of its own.
        shuffle: bool,
    },
    /// Connections to all, used in turn (C-113).
    RoundRobin,
    /// The one of a few endpoints that has the fewest calls (C-115).
    LeastRequest(ChoiceCount),
    /// Endpoints in turn, each as often as its reports say that it can (C-116).
    WeightedRoundRobin(Arc<WeightedRoundRobinConfig>),
    /// The endpoint that the hash of a call chooses (C-114).
    RingHash(RingHashConfig),
    /// Some of the endpoints, which differ by client, and a policy for them (C-117).
    RandomSubsetting {
        /// The number of endpoints.
        size: NonZeroU32,
        /// The policy for them.
        child: Arc<Self>,
    },
    /// A policy that the program has added (C-112).
    Custom(CustomPolicy),
    /// Calls are divided among localities by their weights, and in each by this policy (C-111).
    WrrLocality(Arc<Self>),
}

impl PolicyConfig {
    /// Returns a policy of this kind, with no endpoints yet.
    pub(super) fn policy(&self) -> Box<dyn Balancer> {
        match self {
            Self::PickFirst { .. } => Box::new(PickFirstPolicy::default()),
            Self::RoundRobin => Box::new(ConnectAll::<InTurn>::default()),
            Self::WeightedRoundRobin(_) => Box::new(ConnectAll::<ByReports>::default()),
            Self::LeastRequest(_) => Box::new(ConnectAll::<Fewest>::default()),
            Self::RingHash(_) => Box::new(RingHash::default()),
            Self::RandomSubsetting { child, .. } => Box::new(RandomSubsetting::new(child)),
            Self::Custom(policy) => policy.policy(),
            Self::WrrLocality(_) => Box::new(WrrLocality::default()),
        }
    }

    /// Returns the name of the policy: that of gRPC, or that of the program for one that it has added.
    pub fn name(&self) -> &str {
        match self {
            Self::PickFirst { .. } => "pick_first",
            Self::RoundRobin => "round_robin",
            Self::LeastRequest(_) => "least_request",
            Self::WeightedRoundRobin(_) => "weighted_round_robin",
            Self::RingHash(_) => "ring_hash",
            Self::RandomSubsetting { .. } => "random_subsetting",
            Self::Custom(policy) => policy.name(),
            Self::WrrLocality(_) => "wrr_locality",
        }
    }

    /// Returns true if a policy that was made for one takes the other as an update.
    pub(super) fn is_of_kind(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Custom(one), Self::Custom(other)) => one.name() == other.name(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}
