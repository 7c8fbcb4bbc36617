//! Whole responses, for the floors: they send what Chancery would send and decide nothing.
//!
//! Versions, nonce and identifier are as long as Chancery's, so that the payloads are of one size.

use bytes::Bytes;

use crate::content::{self, ResourceKind};
use crate::flags::ServerFlags;
use crate::protobuf::Fields;

/// The messages that a floor sends: first everything, then one of two states in turn.
#[derive(Clone, Debug)]
pub struct FloorMessages {
    /// The answer to the first request.
    pub first: Bytes,
    /// The messages of a change: in delta the one resource that changed, in SotW all of them.
    pub changes: [Bytes; 2],
}

impl FloorMessages {
    /// The messages for these flags, as gRPC has them.
    pub fn new(flags: &ServerFlags) -> Self {
        let all = |generation| (0..flags.resources).map(move |index| (index, generation));
        // The first resource is another one in each state, the others are as they were.
        let changed = |generation| {
            all(0).map(move |(index, _)| (index, if index == 0 { generation } else { 0 }))
        };
        let of = |entries: &mut dyn Iterator<Item = (usize, u32)>| {
            let kind = flags.first();
            let bodies = entries.map(|(index, generation)| {
                (content::name(index), content::body(kind, index, generation, flags.bytes))
            });
            grpc(&if flags.delta { delta(kind, bodies) } else { sotw(kind, bodies) })
        };
        let changes = [1, 2].map(|generation| {
            let few = if flags.delta { 1 } else { flags.resources };
            of(&mut changed(generation).take(few))
        });
        Self { first: of(&mut all(0)), changes }
    }

    /// The length of the message of a change, without the prefix of gRPC.
    pub fn payload(&self) -> usize {
        self.changes[0].len() - PREFIX
    }
}

/// A version as long as a hash that is written in hexadecimal.
const VERSION: &str = "0123456789abcdef0123456789abcdef";
/// A nonce as Chancery makes them, by counting the responses of a stream.
const NONCE: &str = "7";
const IDENTIFIER: &str = "chancery-01234567";

/// A `DeltaDiscoveryResponse`.
fn delta(kind: ResourceKind, bodies: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    Fields::of(|response| {
        response.text(1, VERSION);
        for (name, body) in bodies {
            response.message(2, |resource| {
                resource.text(3, &name);
                resource.text(1, VERSION);
                resource.any(2, kind.type_url(), &body);
            });
        }
        response.text(4, kind.type_url());
        response.text(5, NONCE);
        response.message(7, |control_plane| control_plane.text(1, IDENTIFIER));
    })
}

/// A `DiscoveryResponse`.
fn sotw(kind: ResourceKind, bodies: impl Iterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    Fields::of(|response| {
        response.text(1, VERSION);
        for (_, body) in bodies {
            response.any(2, kind.type_url(), &body);
        }
        response.text(4, kind.type_url());
        response.text(5, NONCE);
        response.message(6, |control_plane| control_plane.text(1, IDENTIFIER));
    })
}

/// The length of the prefix that gRPC puts before a message: a byte for compression, and the
/// length.
const PREFIX: usize = 5;

fn grpc(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes()[..], message].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(resources: usize, bytes: usize) -> ServerFlags {
        let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let types = vec![ResourceKind::Eds];
        ServerFlags { listen, types, resources, bytes, own: 0, delta: true, drain: false }
    }

    #[test]
    fn a_change_is_one_resource_in_delta_and_all_in_sotw() {
        let mut flags = sizes(50, 1_100);
        let delta = FloorMessages::new(&flags);
        assert!((1_100..1_400).contains(&delta.changes[0].len()));
        flags.delta = false;
        let sotw = FloorMessages::new(&flags);
        assert_eq!(sotw.changes[0].len(), sotw.first.len());
        for messages in [delta, sotw] {
            let [one, other] = messages.changes;
            assert_eq!(one.len(), other.len());
            assert_ne!(one, other);
        }
    }
}
