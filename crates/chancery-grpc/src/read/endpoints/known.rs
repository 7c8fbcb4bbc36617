//! Endpoints that were read before.
//!
//! ```text
//!   set of before:   a   b   c   d
//!                    |       |   |     equal bytes in the same locality, about the same place
//!   the update:      a   x   c   d     only x is read
//! ```
//!
//! Endpoints that stay are the same value in memory, too, so that all who compare them later are done at once.
//! Not here: the reading.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use chancery_calls::balancing::{Endpoint, EndpointLocality};

use super::super::fault::Fault;
use super::{Endpoints, decode_after};

/// The sets that a client has, by their names.
#[derive(Debug, Default)]
pub(crate) struct KnownSets(Mutex<HashMap<Box<str>, Weak<ReadSet>>>);

/// All that was read of a set.
#[derive(Debug, Default)]
pub(super) struct ReadSet {
    body: Bytes,
    /// The localities in their order; `None` for one that is skipped.
    localities: Vec<Option<ReadLocality>>,
}

/// All that was read of a locality.
#[derive(Debug)]
pub(super) struct ReadLocality {
    locality: Arc<EndpointLocality>,
    endpoints: Vec<ReadEndpoint>,
}

/// A locality that is being read.
pub(super) struct LocalityReader<'a> {
    locality: Arc<EndpointLocality>,
    endpoints: Vec<ReadEndpoint>,
    body: &'a [u8],
    before: &'a [ReadEndpoint],
    body_before: &'a [u8],
    /// The place in `before` at which the next endpoint is looked for.
    next: usize,
}

/// An endpoint, with the place of the bytes in the body that it was read of.
#[derive(Debug)]
pub(super) struct ReadEndpoint {
    start: u32,
    len: u32,
    /// Its address, if it has no other. All are compared with each other, and are together here.
    only_address: Option<SocketAddr>,
    pub(super) value: EndpointValue,
}

/// All that the bytes of an endpoint say.
#[derive(Clone, Debug)]
pub(super) struct EndpointValue {
    pub(super) endpoint: Arc<Endpoint>,
    /// False if its health is one with which it takes no calls.
    pub(super) takes_calls: bool,
    /// The proxy of its own metadata.
    pub(super) proxy: Option<Box<SocketAddr>>,
}

/// The place of an address in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AddressPlace {
    pub(super) locality: usize,
    pub(super) endpoint: usize,
    /// 0 for the address of the endpoint, and one more for each additional one.
    pub(super) address: usize,
}

impl KnownSets {
    /// Reads the set of this name.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub(crate) fn decode(&self, name: &str, body: &Bytes) -> Result<Endpoints, String> {
        let before = self.lock().get(name).and_then(Weak::upgrade).unwrap_or_default();
        let endpoints = decode_after(&before, body)?;
        let read = Arc::downgrade(&endpoints.read);
        let mut sets = self.lock();
        if let Some(known) = sets.get_mut(name) {
            *known = read;
        } else {
            if sets.len() == sets.capacity() {
                // Before it grows, those that nobody has any more go.
                sets.retain(|_, set| set.strong_count() > 0);
            }
            sets.insert(name.into(), read);
        }
        Ok(endpoints)
    }

    /// No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Weak<ReadSet>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadEndpoint {
    fn bytes<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.start).ok()?;
        body.get(start..)?.get(..usize::try_from(self.len).ok()?)
    }

    fn addresses(&self) -> &[SocketAddr] {
        match &self.only_address {
            Some(only) => std::slice::from_ref(only),
            None => &self.value.endpoint.addresses,
        }
    }
}

impl ReadSet {
    /// Returns a set of this body, of which nothing was read so far.
    pub(super) fn of(body: Bytes) -> Self {
        Self { body, localities: Vec::new() }
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn locality(&self, at: usize) -> Option<&ReadLocality> {
        self.localities.get(at)?.as_ref()
    }

    /// Adds the next locality; `None` if it is skipped.
    pub(super) fn push(&mut self, locality: Option<ReadLocality>) {
        self.localities.push(locality);
    }

    /// Returns the number of localities that are skipped.
    pub(super) fn skipped(&self) -> usize {
        self.localities.iter().filter(|locality| locality.is_none()).count()
    }

    /// Returns the endpoints of those that are not.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &EndpointValue> {
        self.localities.iter().flatten().flat_map(|it| &it.endpoints).map(|it| &it.value)
    }

    /// Returns all addresses, in the order of their places.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (SocketAddr, AddressPlace)> {
        let localities = self.localities.iter().enumerate();
        let localities = localities.filter_map(|(at, locality)| Some((at, locality.as_ref()?)));
        localities.flat_map(|(locality, read)| {
            read.endpoints.iter().enumerate().flat_map(move |(endpoint, read)| {
                let addresses = read.addresses().iter().enumerate();
                addresses
                    .map(move |(address, it)| (*it, AddressPlace { locality, endpoint, address }))
            })
        })
    }
}

impl<'a> LocalityReader<'a> {
    /// Begins with a locality in a body. The one at the same place in the set before may have endpoints in common
    /// with it, if it is the same.
    pub(super) fn new(
        locality: EndpointLocality,
        body: &'a [u8],
        before: &'a ReadSet,
        at: usize,
    ) -> Self {
        // Endpoints have their locality in them.
        let known = before.locality(at).filter(|before| *before.locality == locality);
        let (locality, endpoints) = match known {
            Some(known) => (Arc::clone(&known.locality), &*known.endpoints),
            None => (Arc::new(locality), &[][..]),
        };
        Self {
            locality,
            endpoints: Vec::with_capacity(endpoints.len()),
            body,
            before: endpoints,
            body_before: before.body(),
            next: 0,
        }
    }

    pub(super) fn locality(&self) -> &Arc<EndpointLocality> {
        &self.locality
    }

    /// Adds the next endpoint, which is a part of the body. It is read by a function if it is not known.
    pub(super) fn endpoint(
        &mut self,
        bytes: &[u8],
        read: impl FnOnce(&[u8], &Arc<EndpointLocality>) -> Result<EndpointValue, Fault>,
    ) -> Result<&EndpointValue, Fault> {
        let place = self.find(bytes);
        self.next = place.unwrap_or(self.next) + 1;
        let known = place.and_then(|place| self.before.get(place));
        let (value, only_address) = match known {
            Some(known) => (known.value.clone(), known.only_address),
            None => {
                let value = read(bytes, &self.locality)?;
                let only = match *value.endpoint.addresses {
                    [only] => Some(only),
                    _ => None,
                };
                (value, only)
            }
        };
        let (start, len) = part_of(self.body, bytes);
        let at = self.endpoints.len();
        self.endpoints.push(ReadEndpoint { start, len, only_address, value });
        Ok(&self.endpoints[at].value)
    }

    /// Looks for an endpoint of these bytes: where it is expected, and then around that place, as some may have
    /// come or gone before it.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        let of = |place: usize| self.before.get(place)?.bytes(self.body_before);
        let is_at = |place: usize| of(place) == Some(bytes);
        if is_at(self.next) {
            return Some(self.next);
        }
        let around = self.next.saturating_sub(AROUND)..=self.next + AROUND;
        around.into_iter().find(|place| is_at(*place))
    }

    pub(super) fn finish(self) -> ReadLocality {
        ReadLocality { locality: self.locality, endpoints: self.endpoints }
    }
}

/// The number of places to each side of the expected one at which an endpoint is looked for. Further away it is
/// read again.
const AROUND: usize = 8;

/// Returns where a part begins in a body, and its length. A body of more than 4 GiB, which no response has, has no
/// parts that are found again.
fn part_of(body: &[u8], part: &[u8]) -> (u32, u32) {
    let start = part.as_ptr().addr().saturating_sub(body.as_ptr().addr());
    match (u32::try_from(start), u32::try_from(part.len())) {
        (Ok(start), Ok(len)) => (start, len),
        _ => (u32::MAX, u32::MAX),
    }
}
