//! The hash of a call (C-104), by which a policy with affinity chooses.

use crate::Dice;
use crate::matching::{HeaderKey, Rewrite};
use xxhash_rust::xxh64::xxh64;

use super::Call;

/// One of the hash policies of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashPolicy {
    /// The thing that is hashed.
    pub source: HashSource,
    /// True if policies after this one do not count once there is a hash.
    pub is_terminal: bool,
}

/// The thing that is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashSource {
    /// The value of a header, if it is there.
    Header {
        /// The header.
        key: HeaderKey,
        /// A change of the value before it is hashed.
        rewrite: Option<Rewrite>,
    },
    /// The channel, the same for all of its calls.
    ChannelId,
    /// Something that gRPC does not hash. The policy is as if it were not there, `terminal` included.
    Unsupported,
}

/// The hash of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHash {
    /// The hash.
    pub value: u64,
    /// True if no policy gave one, and it was rolled.
    pub is_random: bool,
}

/// Hashes a call by the policies of its route.
pub(super) fn hash(policies: &[HashPolicy], call: &Call<'_>, dice: &mut impl Dice) -> RequestHash {
    let mut hash: Option<u64> = None;
    for policy in policies {
        let next = match &policy.source {
            HashSource::Unsupported => continue,
            HashSource::ChannelId => Some(call.channel_id),
            HashSource::Header { key, rewrite } => {
                key.routed_value(call.headers).map(|value| match rewrite {
                    Some(rewrite) => xxh64(&rewrite.apply(&value), 0),
                    None => xxh64(&value, 0),
                })
            }
        };
        if let Some(next) = next {
            // Two equal policies would cancel each other out without the rotation.
            hash = Some(hash.unwrap_or(0).rotate_left(1) ^ next);
        }
        if policy.is_terminal && hash.is_some() {
            break;
        }
    }
    match hash {
        Some(value) => RequestHash { value, is_random: false },
        None => RequestHash { value: dice.roll(), is_random: true },
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;
    use crate::SeededDice;

    fn header(name: &str, rewrite: Option<(&str, &str)>) -> HashSource {
        let rewrite = rewrite.map(|(from, to)| Rewrite::new(from, to).unwrap());
        HashSource::Header { key: HeaderKey::new(name), rewrite }
    }

    fn hash_of(policies: Vec<(HashSource, bool)>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in [("a", "x"), ("b", "y"), ("b", "z"), ("c-bin", "x"), ("empty", "")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let call = Call { authority: "", path: "/", headers: &headers, channel_id: 77 };
        let policies: Vec<_> = policies
            .into_iter()
            .map(|(source, is_terminal)| HashPolicy { source, is_terminal })
            .collect();
        let hash = hash(&policies, &call, &mut SeededDice(5));
        (!hash.is_random).then_some(hash.value)
    }

    #[test]
    fn hashes_are_those_of_xxh64_with_seed_0() {
        // C-104: the values are those of the reference implementation.
        assert_eq!(xxh64(b"", 0), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a", 0), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(hash_of(vec![(header("empty", None), false)]), Some(0xef46_db37_51d8_e999));
        let rewritten = header("a", Some(("x", "a")));
        assert_eq!(hash_of(vec![(rewritten, false)]), Some(0xd24e_c4f1_a98c_6e5b));
    }

    #[test]
    fn headers_are_those_that_routes_see() {
        // C-104
        assert_eq!(hash_of(vec![(header("B", None), false)]), Some(xxh64(b"y,z", 0)));
        let content_type = vec![(header("content-type", None), false)];
        assert_eq!(hash_of(content_type), Some(xxh64(b"application/grpc", 0)));
        for absent in ["c-bin", "d", ":path"] {
            assert_eq!(hash_of(vec![(header(absent, None), true)]), None);
        }
    }

    #[test]
    fn hashes_are_combined_by_rotating_and_xor() {
        // C-104
        let (a, b) = (xxh64(b"x", 0), xxh64(b"y,z", 0));
        let a_then_b = vec![(header("a", None), false), (header("b", None), false)];
        assert_eq!(hash_of(a_then_b), Some(a.rotate_left(1) ^ b));
        let twice = vec![(header("a", None), false), (header("a", None), false)];
        assert_eq!(hash_of(twice), Some(a.rotate_left(1) ^ a));
        let channel = vec![
            (header("d", None), false),
            (HashSource::ChannelId, false),
            (header("a", None), false),
        ];
        assert_eq!(hash_of(channel), Some(77_u64.rotate_left(1) ^ a));
    }

    #[test]
    fn a_terminal_policy_ends_it_once_there_is_a_hash() {
        // C-104
        let (a, b) = (xxh64(b"x", 0), xxh64(b"y,z", 0));
        let policies = |absent, first, second| {
            vec![
                (header("d", None), absent),
                (header("a", None), first),
                (header("b", None), second),
            ]
        };
        assert_eq!(hash_of(policies(true, true, false)), Some(a));
        assert_eq!(hash_of(policies(true, false, true)), Some(a.rotate_left(1) ^ b));
        // A terminal policy without a result ends it too if there is a hash already.
        let late =
            vec![(header("a", None), false), (header("d", None), true), (header("b", None), false)];
        assert_eq!(hash_of(late), Some(a));
    }

    #[test]
    fn other_policies_yield_nothing_and_end_nothing() {
        // C-104
        let a = xxh64(b"x", 0);
        assert_eq!(hash_of(vec![(HashSource::Unsupported, true)]), None);
        let around = vec![
            (header("a", None), false),
            (HashSource::Unsupported, true),
            (HashSource::ChannelId, false),
        ];
        assert_eq!(hash_of(around), Some(a.rotate_left(1) ^ 77));
    }

    #[test]
    fn without_a_result_the_hash_is_random() {
        // C-104
        let headers = HeaderMap::new();
        let call = Call { authority: "", path: "/", headers: &headers, channel_id: 1 };
        let mut dice = SeededDice(1);
        let (one, other) = (hash(&[], &call, &mut dice), hash(&[], &call, &mut dice));
        assert!(one.is_random && other.is_random && one.value != other.value);
    }
}
