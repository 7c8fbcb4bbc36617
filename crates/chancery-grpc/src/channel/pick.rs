//! The choice of an endpoint for one attempt: the picker of the cluster is asked until it has one that is
//! connected. Not here: the attempts (`attempts`), and pickers (`chancery_calls::balancing`).

use std::net::SocketAddr;

use chancery_calls::Failure;
use chancery_calls::balancing::{Connectivity, Permit, Pick, PickArgs, Picked};
use http::request::Parts;

use super::published::ClusterHandle;
use crate::connect::Sender;
use crate::dice::ThreadDice;

/// An endpoint with the connection to it, and the permit of the call.
pub(super) struct Chosen {
    pub(super) picked: Picked,
    pub(super) permit: Option<Permit>,
    pub(super) sender: Sender,
}

/// The reason why no endpoint takes the call.
pub(super) enum NotChosen {
    /// The call is dropped for good (C-118, C-147).
    Dropped(Failure),
    /// Load balancing fails it.
    Failed(Failure),
}

/// The knowledge of pickers about a call.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) head: &'a Parts,
    pub(super) hash: Option<u64>,
    /// The addresses of the endpoint of its session; `None` if it has no sessions.
    pub(super) session: Option<&'a [SocketAddr]>,
    /// True if it waits while connections fail.
    pub(super) waits: bool,
}

impl<'a> Asked<'a> {
    /// Returns the call for a picker, which rolls these dice.
    pub(super) fn args(self, dice: &'a mut ThreadDice) -> PickArgs<'a> {
        PickArgs {
            path: self.head.uri.path(),
            metadata: &self.head.headers,
            hash: self.hash,
            session: self.session,
            dice,
            wake: None,
            permit: None,
            by_session: false,
        }
    }
}

/// Waits until the picker of the cluster chooses an endpoint that is connected.
pub(super) async fn wait(cluster: &ClusterHandle, asked: Asked<'_>) -> Result<Chosen, NotChosen> {
    let mut changes = cluster.changes();
    loop {
        if let Some(found) = pick(cluster, asked)? {
            return Ok(found);
        }
        let gone = || NotChosen::Dropped(Failure::unavailable("the cluster is gone"));
        changes.changed().await.map_err(|_| gone())?;
    }
}

/// Asks the picker once. `None` means that the call waits for another one.
pub(super) fn pick(cluster: &ClusterHandle, asked: Asked<'_>) -> Result<Option<Chosen>, NotChosen> {
    let state = cluster.state();
    if state.is_closed {
        return Err(NotChosen::Dropped(Failure::unavailable("the channel is closed")));
    }
    let Some(picker) = &state.picker else { return Ok(None) };
    let mut dice = ThreadDice;
    let mut args = asked.args(&mut dice);
    let pick = picker.pick(&mut args);
    let (wake, permit) = (args.wake, args.permit);
    if let Some(wake) = wake {
        cluster.wake(wake);
    }
    match pick {
        // A connection that was lost a moment ago has no sender, and another picker comes.
        Pick::To(picked) => Ok(state
            .senders
            .get(picked.subchannel)
            .filter(|sender| !sender.is_closed())
            .map(|sender| Chosen { picked, permit, sender })),
        Pick::Queue => Ok(None),
        Pick::Fail(_) if asked.waits && state.connectivity != Connectivity::Ready => Ok(None),
        Pick::Fail(failure) => Err(NotChosen::Failed(failure)),
        Pick::Drop(failure) => Err(NotChosen::Dropped(failure)),
    }
}
