//! The endpoints among which policies choose.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use chancery_core::Locality;
use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

/// One endpoint: a server, with one or more addresses (C-120).
#[derive(Clone, Debug, Eq)]
pub struct Endpoint {
    /// Its addresses, in the order in which they are tried. There is at least one.
    pub addresses: Arc<[SocketAddr]>,
    /// Its weight in its locality; at least 1.
    pub weight: u32,
    /// The locality that it is in.
    pub locality: Arc<EndpointLocality>,
    /// Its health, as the control plane says.
    pub health: Health,
    /// Its name, for `auto_host_rewrite` and SNI; empty if it has none.
    pub hostname: Arc<str>,
    /// The text that is hashed for its place on a ring, instead of its address (gRFC A76).
    pub hash_key: Option<Arc<str>>,
}

/// The locality of endpoints, with its weight among those of one priority.
#[derive(Clone, Debug, Eq)]
pub struct EndpointLocality {
    /// Region, zone and sub-zone.
    pub name: Locality,
    /// The weight; at least 1.
    pub weight: u32,
}

/// The health of an endpoint. Endpoints with another one are left out where resources are read
/// (C-109).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Health {
    /// UNKNOWN: it takes calls.
    #[default]
    Unknown,
    /// HEALTHY: it takes calls.
    Healthy,
    /// DRAINING: it takes the calls of sessions that it has, and no others.
    Draining,
}

/// The health that an endpoint may have for the calls of its sessions (`override_host_status`, gRFC A55).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionHealth {
    unknown: bool,
    healthy: bool,
    draining: bool,
}

impl SessionHealth {
    /// Returns true if the calls of sessions may go to an endpoint of this health.
    pub fn allows(self, health: Health) -> bool {
        match health {
            Health::Unknown => self.unknown,
            Health::Healthy => self.healthy,
            Health::Draining => self.draining,
        }
    }
}

/// UNKNOWN and HEALTHY.
impl Default for SessionHealth {
    fn default() -> Self {
        [Health::Unknown, Health::Healthy].into_iter().collect()
    }
}

impl FromIterator<Health> for SessionHealth {
    fn from_iter<I: IntoIterator<Item = Health>>(all: I) -> Self {
        let mut set = Self { unknown: false, healthy: false, draining: false };
        for health in all {
            match health {
                Health::Unknown => set.unknown = true,
                Health::Healthy => set.healthy = true,
                Health::Draining => set.draining = true,
            }
        }
        set
    }
}

/// The identity of an endpoint: its addresses, in any order (gRFC A61).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndpointKey(Arc<[SocketAddr]>);

impl EndpointKey {
    /// Returns true if it is that of this endpoint.
    pub(super) fn is_of(&self, endpoint: &Endpoint) -> bool {
        // Most addresses are in the same order, and many are even the same in memory.
        Arc::ptr_eq(&self.0, &endpoint.addresses)
            || self.0 == endpoint.addresses
            || (self.0.len() == endpoint.addresses.len()
                && self.0.len() > 1
                && *self == endpoint.key())
    }
}

/// An update looks for each of many endpoints several times, and an address is a number.
impl Hash for EndpointKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for address in &*self.0 {
            match address {
                SocketAddr::V4(v4) => {
                    let bits = u64::from(v4.ip().to_bits());
                    state.write_u64(bits << 16 | u64::from(v4.port()));
                }
                SocketAddr::V6(v6) => {
                    state.write_u128(v6.ip().to_bits());
                    state.write_u16(v6.port());
                }
            }
        }
    }
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        let Self { addresses, weight, locality, health, hostname, hash_key } = self;
        *addresses == other.addresses
            && (*weight, *health) == (other.weight, other.health)
            && *locality == other.locality
            && is_same_text(hostname, &other.hostname)
            && *hash_key == other.hash_key
    }
}

impl PartialEq for EndpointLocality {
    fn eq(&self, other: &Self) -> bool {
        let Self { name: Locality { region, zone, sub_zone }, weight } = self;
        *weight == other.weight
            && is_same_text(region, &other.name.region)
            && is_same_text(zone, &other.name.zone)
            && is_same_text(sub_zone, &other.name.sub_zone)
    }
}

/// Most texts of an endpoint are empty. An empty `String` has no memory, and to compare nothing at no
/// address is so slow on some processors that it took half of the time of an update.
fn is_same_text(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

impl Endpoint {
    /// Returns an endpoint with one address, a weight of 1, and no locality.
    pub fn at(address: SocketAddr) -> Self {
        let locality = EndpointLocality { name: Locality::default(), weight: 1 };
        Self {
            addresses: Arc::from([address]),
            weight: 1,
            locality: Arc::new(locality),
            health: Health::Unknown,
            hostname: "".into(),
            hash_key: None,
        }
    }

    /// Returns an endpoint that is reached by its name alone, as a socket of Unix is.
    pub fn named(name: Arc<str>) -> Self {
        Self { hostname: name, ..Self::at(NOWHERE) }
    }

    /// Returns an address of the endpoint for people: the name of an endpoint that is reached by it alone.
    pub fn shown(&self, address: SocketAddr) -> String {
        match address == NOWHERE && !self.hostname.is_empty() {
            true => Printable(cut(&self.hostname, MAX_NAME_BYTES)).to_string(),
            false => address.to_string(),
        }
    }

    pub(super) fn key(&self) -> EndpointKey {
        if self.addresses.is_sorted() {
            return EndpointKey(Arc::clone(&self.addresses));
        }
        let mut addresses = self.addresses.to_vec();
        addresses.sort_unstable();
        EndpointKey(addresses.into())
    }
}

/// Stands for the address of an endpoint that has none. Nothing can be connected to it.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
