//! The walk along a ring that one call makes (gRFC A61, A76).

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use xxhash_rust::xxh64::{Xxh64, xxh64};

use super::ring::LazyRing;
use crate::balancing::context::EndpointId;
use crate::balancing::pick_first::with_note;
use crate::balancing::picker::{Pick, PickArgs, Picked, Picker, Wake};
use crate::{Code, Failure};

/// Chooses by the hash of the call.
#[derive(Debug)]
pub(super) struct ByHash {
    pub(super) ring: Arc<LazyRing>,
    /// The endpoints by their places.
    pub(super) members: Box<[MemberState]>,
    pub(super) header: Option<HeaderName>,
    /// True if an endpoint is being connected.
    pub(super) is_connecting: bool,
    pub(super) note: Option<Arc<str>>,
}

/// An endpoint, when the picker was made.
#[derive(Debug)]
pub(super) enum MemberState {
    Ready(Picked),
    Idle(EndpointId),
    Connecting,
    Failed(Arc<str>),
}

impl ByHash {
    fn walk(&self, hash: u64) -> impl Iterator<Item = &MemberState> {
        self.ring.get().from(hash).filter_map(|place| self.members.get(place))
    }

    /// Takes the first endpoint from the hash on that has not failed, and waits until it is connected.
    fn pick_by(&self, hash: u64, call: &mut PickArgs<'_>) -> Pick {
        for member in self.walk(hash) {
            match member {
                MemberState::Ready(picked) => return Pick::To(picked.clone()),
                MemberState::Idle(id) => {
                    call.wake = call.wake.or(Some(Wake::Endpoint(*id)));
                    return Pick::Queue;
                }
                MemberState::Connecting => return Pick::Queue,
                MemberState::Failed(_) => {}
            }
        }
        self.failure(hash)
    }

    /// Takes the first endpoint that is ready, and lets one on the way be connected, so that calls
    /// without a hash come to use all of them without waiting for it.
    fn pick_from(&self, hash: u64, call: &mut PickArgs<'_>) -> Pick {
        let mut is_connecting = self.is_connecting;
        for member in self.walk(hash) {
            match member {
                MemberState::Ready(picked) => return Pick::To(picked.clone()),
                MemberState::Idle(id) if !is_connecting => {
                    call.wake = call.wake.or(Some(Wake::Endpoint(*id)));
                    is_connecting = true;
                }
                _ => {}
            }
        }
        if is_connecting { Pick::Queue } else { self.failure(hash) }
    }

    /// All have failed: the call hears why the endpoint failed that it would have gone to.
    fn failure(&self, hash: u64) -> Pick {
        let error = match self.walk(hash).next() {
            Some(MemberState::Failed(error)) => Arc::clone(error),
            _ => "no endpoint is on the ring".into(),
        };
        Pick::Fail(Failure::unavailable(with_note(error, self.note.as_ref())))
    }
}

impl Picker for ByHash {
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        match &self.header {
            Some(header) => match hash_of(call.metadata, header) {
                Some(hash) => self.pick_by(hash, call),
                None => self.pick_from(call.dice.roll(), call),
            },
            None => match call.hash {
                Some(hash) => self.pick_by(hash, call),
                None => Pick::Fail(Failure::new(Code::Internal, "the route gave the call no hash")),
            },
        }
    }
}

/// Returns the hash of a header: that of its values with commas between them. There is none if there is
/// no value, or only an empty one.
fn hash_of(metadata: &HeaderMap, header: &HeaderName) -> Option<u64> {
    let mut values = metadata.get_all(header).iter();
    let first = values.next()?.as_bytes();
    let Some(second) = values.next() else {
        return (!first.is_empty()).then(|| xxh64(first, 0));
    };
    let mut hash = Xxh64::new(0);
    hash.update(first);
    for value in std::iter::once(second).chain(values) {
        hash.update(b",");
        hash.update(value.as_bytes());
    }
    Some(hash.digest())
}
