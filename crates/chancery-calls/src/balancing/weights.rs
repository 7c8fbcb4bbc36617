//! The weight of an endpoint among all of its priority: the part of its locality times its part in the
//! locality (gRFC A113), so that a locality does not get more for having more endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::Locality;

use super::endpoint::Endpoint;

/// The number of bits behind the point: weights are numbers from 0 to 1 in 32 bits, as in the other
/// implementations of gRPC, so that rounding is the same in all.
const FRACTION_BITS: u32 = 31;

/// The weights of the endpoints in one locality.
struct OfLocality {
    weight: u32,
    endpoints: u64,
}

/// Returns the weight of each endpoint, in their order. Each is at least 1, and they sum up to about
/// 2^31.
pub(super) fn normalised<'a>(
    endpoints: impl Iterator<Item = &'a Arc<Endpoint>> + Clone,
) -> Vec<u32> {
    let mut known = BTreeMap::<&Locality, usize>::new();
    let mut localities = Vec::<OfLocality>::new();
    let mut last: Option<(&Arc<_>, usize)> = None;
    let places: Vec<usize> = endpoints
        .clone()
        .map(|endpoint| {
            let locality = &endpoint.locality;
            // Neighbours mostly share their locality, which then need not be compared by its texts.
            let place = match last {
                Some((before, place)) if Arc::ptr_eq(before, locality) => place,
                _ => *known.entry(&locality.name).or_insert_with(|| {
                    localities.push(OfLocality { weight: locality.weight, endpoints: 0 });
                    localities.len() - 1
                }),
            };
            last = Some((locality, place));
            localities[place].endpoints += u64::from(endpoint.weight);
            place
        })
        .collect();
    let total = localities.iter().map(|locality| u64::from(locality.weight)).sum();
    endpoints
        .zip(places)
        .map(|(endpoint, place)| {
            let OfLocality { weight, endpoints } = localities[place];
            let product = part(weight, total) * part(endpoint.weight, endpoints);
            u32::try_from(product >> FRACTION_BITS).unwrap_or(u32::MAX).max(1)
        })
        .collect()
}

/// Returns a part of a sum, as a number with a fixed point.
fn part(weight: u32, sum: u64) -> u64 {
    (u64::from(weight) << FRACTION_BITS) / sum.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancing::EndpointLocality;

    fn endpoint(zone: &str, locality: u32, weight: u32) -> Arc<Endpoint> {
        let name = Locality { zone: zone.to_owned(), ..Locality::default() };
        let locality = Arc::new(EndpointLocality { name, weight: locality });
        let address = "10.0.0.1:80".parse().expect("an address");
        Arc::new(Endpoint { weight, locality, ..Endpoint::at(address) })
    }

    /// C-117: weighted shuffle with normalised weights.
    #[test]
    fn a_locality_gets_no_more_for_its_number_of_endpoints() {
        let all = [endpoint("a", 3, 1), endpoint("b", 1, 100), endpoint("a", 3, 2)];
        assert_eq!(normalised(all.iter()), [(1 << 29) - 1, 1 << 29, (1 << 30) - 1]);
        let tiny = [endpoint("a", 1, 1), endpoint("a", 1, u32::MAX - 1)];
        assert_eq!(normalised(tiny.iter()), [1, (1 << 31) - 1]);
        assert_eq!(normalised([].iter()), []);
    }
}
