//! Pickers: values that say where one call goes. A picker is made when something changes, and asked
//! by all callers at once without a lock.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use chancery_core::Time;
use http::HeaderMap;
use smallvec::SmallVec;

use super::cluster::Permit;
use super::context::{EndpointId, SubchannelId};
use super::endpoint::Endpoint;
use crate::{Dice, Failure};

/// Chooses an endpoint for each call.
pub trait Picker: Send + Sync + fmt::Debug {
    /// Chooses for one call.
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick;

    /// Chooses for somebody who asks where a call would go, and makes none: no call is dropped or counted, and
    /// no turn is used up. A picker whose choices change nothing needs no other one than this.
    fn preview(&self, call: &mut PickArgs<'_>) -> Pick {
        self.pick(call)
    }
}

/// The knowledge of a picker about one call.
pub struct PickArgs<'a> {
    /// The path of the method, as `/orders.Orders/Get`.
    pub path: &'a str,
    /// The metadata.
    pub metadata: &'a HeaderMap,
    /// The hash by the policies of the route, if they give one (C-104).
    pub hash: Option<u64>,
    /// The addresses of the endpoint that the call has a session with, the preferred one first; none if its session
    /// begins. `None` is a call without sessions (C-106).
    pub session: Option<&'a [SocketAddr]>,
    /// The dice of the calling thread.
    pub dice: &'a mut dyn Dice,
    /// The wish of the picker that its policy connects something. It is for
    /// [`Tree::wake`](super::Tree::wake).
    pub wake: Option<Wake>,
    /// The permit of a call that goes somewhere: it is held until the call has ended (C-147).
    pub permit: Option<Permit>,
    /// True if the session of the call has chosen, and no policy. It is not in [`Picked`], which is moved around a lot.
    pub by_session: bool,
}

/// The decision of a picker.
#[derive(Clone, Debug)]
pub enum Pick {
    /// The call goes here.
    To(Picked),
    /// Nobody knows yet: the call waits for the next picker.
    Queue,
    /// The call fails, unless it waits for ready; then it waits for the next picker.
    Fail(Failure),
    /// The call fails, even if it waits for ready: it was dropped (C-118, C-147).
    Drop(Failure),
}

/// A subchannel that was chosen for a call.
#[derive(Debug)]
pub struct Picked {
    /// The subchannel.
    pub subchannel: SubchannelId,
    /// The endpoint that it belongs to.
    pub endpoint: Arc<Endpoint>,
    /// The address of the endpoint that is connected.
    pub address: SocketAddr,
    /// The cluster of the endpoint, below an aggregate one of those that this names. A policy does not know it.
    pub cluster: Option<Arc<str>>,
    /// Those who want to hear how the call goes.
    pub observers: Observers,
}

/// Every call has a copy. Pushing the few observers takes 55 instructions less than extending a list by them.
impl Clone for Picked {
    fn clone(&self) -> Self {
        let mut observers = Observers::new();
        self.observers.iter().for_each(|one| observers.push(Arc::clone(one)));
        Self {
            subchannel: self.subchannel,
            endpoint: Arc::clone(&self.endpoint),
            address: self.address,
            cluster: self.cluster.clone(),
            observers,
        }
    }
}

/// Those who want to hear how a call goes, innermost first.
pub type Observers = SmallVec<[Arc<dyn CallObserver>; 3]>;

/// Hears how the calls of an endpoint go.
///
/// `started` comes once for each call that is sent, and `ended` once after it.
pub trait CallObserver: Send + Sync + fmt::Debug {
    /// A call is sent.
    fn started(&self) {}

    /// A call that was sent has ended.
    fn ended(&self, end: &CallEnd<'_>);

    /// Returns true if it uses the report of the server at the end of a call. Such reports need not be read where
    /// nobody does.
    fn uses_reports(&self) -> bool {
        true
    }
}

/// The end of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd<'a> {
    /// True if its status was OK.
    pub succeeded: bool,
    /// The time at which it has ended.
    pub now: Time,
    /// The report of the server on its load, in the trailers of the call.
    pub report: Option<&'a chancery_core::client::load::OrcaReport>,
}

/// The endpoints that a picker wants to be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wake {
    /// This endpoint.
    Endpoint(EndpointId),
    /// The endpoint of a session that has this address. Its connection is kept while the session lasts.
    Session(SocketAddr),
    /// Whatever is idle.
    All,
}

/// Lets every call wait, and may ask for a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queueing(pub(super) Option<Wake>);

/// Fails every call.
#[derive(Clone, Debug)]
pub(super) struct Failing(pub(super) Failure);

impl Picker for Queueing {
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        call.wake = call.wake.or(self.0);
        Pick::Queue
    }
}

impl Picker for Failing {
    fn pick(&self, _: &mut PickArgs<'_>) -> Pick {
        Pick::Fail(self.0.clone())
    }
}

impl Picked {
    /// Tells all observers that the call is sent.
    pub fn started(&self) {
        self.observers.iter().for_each(|observer| observer.started());
    }

    /// Returns true if an observer uses the report of the server at the end of the call.
    pub fn uses_reports(&self) -> bool {
        self.observers.iter().any(|observer| observer.uses_reports())
    }

    /// Tells all observers that the call has ended.
    pub fn ended(&self, end: &CallEnd<'_>) {
        self.observers.iter().for_each(|observer| observer.ended(end));
    }
}

impl fmt::Debug for PickArgs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PickArgs").field("path", &self.path).finish_non_exhaustive()
    }
}
