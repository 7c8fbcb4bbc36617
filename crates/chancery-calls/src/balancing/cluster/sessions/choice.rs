//! The choice for one call that has a session: the endpoint of the session, if it works (gRFCs A55, A61, A75).
//! Callers ask without a lock.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::{Held, Known};
use crate::balancing::connectivity::Connectivity;
use crate::balancing::endpoint_set::Member;
use crate::balancing::picker::{Observers, Picked, Wake};

/// Chooses the endpoints of sessions.
#[derive(Debug)]
pub(in crate::balancing::cluster) struct SessionPicker {
    known: Arc<Known>,
    /// The state of each endpoint that is held, by its place.
    held: HashMap<usize, HeldState>,
}

#[derive(Debug)]
enum HeldState {
    Ready(Picked),
    Idle,
    Connecting,
    Failed,
}

/// The decision about a call that has a session.
#[derive(Debug)]
pub(in crate::balancing::cluster) enum Choice {
    /// It goes to the endpoint of its session.
    To(Picked),
    /// It waits for the endpoint of its session, which may have to be connected first.
    Wait(Option<Wake>),
    /// The policies choose, as the session begins or its endpoint does not work.
    Ordinary,
}

impl SessionPicker {
    pub(super) fn new(known: Arc<Known>, held: &[Member<Held>]) -> Self {
        let states = held.iter().filter_map(|member| {
            let place = known.place_of(&member.endpoint)?;
            Some((place, HeldState::of(member)))
        });
        let held = states.collect();
        Self { known, held }
    }

    /// Chooses among the addresses of the endpoint of a session. The caller says if this is a call, which counts as
    /// a use of the endpoint.
    pub(in crate::balancing::cluster) fn choose(
        &self,
        addresses: &[SocketAddr],
        is_call: bool,
    ) -> Choice {
        let (mut idle, mut absent, mut is_connecting) = (None, None, false);
        for address in addresses {
            let Some((place, candidate)) = self.known.at(*address) else { continue };
            match self.held.get(&place) {
                Some(HeldState::Ready(picked)) => {
                    if is_call {
                        candidate.is_used();
                    }
                    return Choice::To(picked.clone());
                }
                Some(HeldState::Idle) => idle = idle.or(Some(*address)),
                Some(HeldState::Connecting) => is_connecting = true,
                Some(HeldState::Failed) => {}
                None => absent = absent.or(Some(*address)),
            }
        }
        match (idle, is_connecting, absent) {
            (Some(address), _, _) => Choice::Wait(Some(Wake::Session(address))),
            (None, true, _) => Choice::Wait(None),
            (None, false, Some(address)) => Choice::Wait(Some(Wake::Session(address))),
            (None, false, None) => Choice::Ordinary,
        }
    }

    /// Takes note of the endpoint that policies have chosen for a call with which its session begins. Returns the
    /// wish that it is held from now on, if it is not.
    pub(in crate::balancing::cluster) fn began(&self, picked: &Picked) -> Option<Wake> {
        let (place, candidate) = self.known.at(picked.address)?;
        candidate.is_used();
        (!self.held.contains_key(&place)).then_some(Wake::Session(picked.address))
    }
}

impl HeldState {
    fn of(member: &Member<Held>) -> Self {
        match (member.picked(Observers::new()), member.connectivity()) {
            (Some(picked), _) => Self::Ready(picked),
            (None, Connectivity::Idle) => Self::Idle,
            (None, Connectivity::Connecting) => Self::Connecting,
            (None, Connectivity::Ready | Connectivity::TransientFailure) => Self::Failed,
        }
    }
}
