//! The place where a call went, for whoever made it.

use std::net::SocketAddr;
use std::sync::Arc;

use chancery_calls::balancing::{Endpoint, EndpointLocality, Picked};

/// The place where a call went. It is an extension of the response of a [`Channel`](crate::Channel), also of one
/// with an error of the server.
#[derive(Clone, Debug)]
pub struct CallPlace {
    pub(super) cluster: Arc<str>,
    endpoint: Arc<Endpoint>,
    address: SocketAddr,
    attempts: u32,
}

impl CallPlace {
    /// Takes the cluster of the route, and the choice that was made in it.
    pub(super) fn new(cluster: &Arc<str>, picked: &Picked, attempts: u32) -> Self {
        Self {
            cluster: Arc::clone(picked.cluster.as_ref().unwrap_or(cluster)),
            endpoint: Arc::clone(&picked.endpoint),
            address: picked.address,
            attempts,
        }
    }

    /// Returns the name of the cluster. Below an aggregate cluster it is one of those that this names.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns the locality of the endpoint.
    pub fn locality(&self) -> &EndpointLocality {
        &self.endpoint.locality
    }

    /// Returns the endpoint that the call was sent to as people know it: its address, or the name of one that has none,
    /// as `unix:/run/orders.sock`.
    pub fn endpoint(&self) -> String {
        self.endpoint.shown(self.address)
    }

    /// Returns the address of the endpoint that the call was sent to. A socket of Unix has none, and neither has a
    /// name that a proxy looks up: both are `0.0.0.0:0`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all addresses of the endpoint.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.endpoint.addresses
    }

    /// Returns the number of attempts of the call, this one included.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}
