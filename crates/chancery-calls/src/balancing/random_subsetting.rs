//! `random_subsetting`: each client uses some of the endpoints, chosen so that all endpoints have about
//! as many clients, and few connections change when endpoints come and go (C-117, gRFC A68). Not here:
//! how a call is given to one of them, which another policy says.

use std::sync::Arc;

use chancery_core::Time;
use xxhash_rust::xxh64::xxh64;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, SubchannelId};
use super::description::{ChildName, DescribedChild, Description, Turn};
use super::endpoint::Endpoint;
use super::node::Branch;
use super::picker::{Picker, Wake};
use super::policy::{Balancer, PolicyConfig, Update};
use super::switch::Switch;

/// A policy for some of the endpoints.
#[derive(Debug)]
pub(super) struct RandomSubsetting {
    /// It makes the choice of this client differ from those of others, and stays.
    seed: Option<u64>,
    child: Switch,
}

impl RandomSubsetting {
    pub(super) fn new(child: &PolicyConfig) -> Self {
        Self { seed: None, child: Switch::of_kind(child) }
    }
}

/// Returns so many endpoints, the same ones as before as far as they are still there: those with the
/// least hashes of their first addresses.
fn subset(endpoints: &[Arc<Endpoint>], size: usize, seed: u64) -> Vec<Arc<Endpoint>> {
    if endpoints.len() <= size {
        return endpoints.to_vec();
    }
    let hashed = endpoints.iter().map(|endpoint| {
        let address = endpoint.addresses.first().map(ToString::to_string).unwrap_or_default();
        (xxh64(address.as_bytes(), seed), endpoint)
    });
    let mut hashed: Vec<_> = hashed.collect();
    hashed.sort_by_key(|(hash, _)| *hash);
    hashed.into_iter().take(size).map(|(_, endpoint)| Arc::clone(endpoint)).collect()
}

impl Balancer for RandomSubsetting {
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        let PolicyConfig::RandomSubsetting { size, child } = update.config else { return };
        let seed = *self.seed.get_or_insert_with(|| cx.dice().roll());
        let size = usize::try_from(size.get()).unwrap_or(usize::MAX);
        let endpoints = subset(update.endpoints, size, seed);
        let update = Update { config: child, endpoints: &endpoints, note: update.note };
        self.child.update_with(&update, cx);
    }
}

impl Branch for RandomSubsetting {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        self.child.subchannel(id, state, cx);
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        self.child.ejected(id, is_ejected, cx);
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        self.child.wake(wake, cx);
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        self.child.on_time(cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.child.deadline()
    }

    fn connectivity(&self) -> Connectivity {
        self.child.connectivity()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        self.child.picker()
    }

    fn describe(&self) -> Description {
        let description = Some(self.child.describe());
        let child = DescribedChild { name: ChildName::Only, turn: Turn::Taken, description };
        Description { children: vec![child], ..Description::of_state(self.connectivity()) }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.child.close(cx);
    }
}
