//! The order in which the addresses of endpoints are tried (gRFC A61).

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use crate::balancing::Endpoint;

/// Returns all addresses, each once. The families take turns, beginning with that of the first, so
/// that one that does not work costs no more than every second attempt.
pub(super) fn addresses(endpoints: &[Arc<Endpoint>]) -> Vec<(SocketAddr, Arc<Endpoint>)> {
    let mut seen = BTreeSet::new();
    let all = endpoints.iter().flat_map(|endpoint| {
        endpoint.addresses.iter().map(move |address| (*address, Arc::clone(endpoint)))
    });
    let all: Vec<_> = all.filter(|(address, _)| seen.insert(*address)).collect();
    let Some((first, _)) = all.first() else { return all };
    let is_first_family = first.is_ipv4();
    let (one, other): (VecDeque<_>, VecDeque<_>) =
        all.into_iter().partition(|(address, _)| address.is_ipv4() == is_first_family);
    interleaved(one, other)
}

fn interleaved<T>(mut one: VecDeque<T>, mut other: VecDeque<T>) -> Vec<T> {
    let mut both = Vec::with_capacity(one.len() + other.len());
    while !one.is_empty() || !other.is_empty() {
        both.extend(one.pop_front());
        both.extend(other.pop_front());
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-117: interleaved v4/v6.
    #[test]
    fn families_take_turns_beginning_with_the_first() {
        let texts = ["[::1]:1", "[::1]:2", "[::1]:3", "10.0.0.1:1", "[::1]:1", "10.0.0.1:2"];
        let endpoints: Vec<_> = texts
            .iter()
            .map(|text| Arc::new(Endpoint::at(text.parse().expect("an address"))))
            .collect();
        let order: Vec<_> =
            addresses(&endpoints).iter().map(|(address, _)| address.to_string()).collect();
        assert_eq!(order, ["[::1]:1", "10.0.0.1:1", "[::1]:2", "10.0.0.1:2", "[::1]:3"]);
    }
}
