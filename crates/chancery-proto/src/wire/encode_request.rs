//! Writing requests, as a client does; [`super::decode_request`] reads them.
//!
//! All fields of a node are written except v2's `build_version`, which is a text of its own. The
//! version of the user agent is written as text, as gRPC clients do.

use bytes::Bytes;
use chancery_core::{DeltaRequest, ErrorDetail, Names, Node, Request, SotwRequest};
use prost::Message;

use super::WireStatus;
use super::node::WireNode;
use super::put::{field_size, put_field, put_header, put_text};

/// Encodes a `DiscoveryRequest` or a `DeltaDiscoveryRequest`.
pub fn encode_request(request: &Request) -> Bytes {
    match request {
        Request::Sotw(request) => sotw(request).into(),
        Request::Delta(request) => delta(request).into(),
    }
}

fn sotw(request: &SotwRequest) -> Vec<u8> {
    let mut out = Vec::with_capacity(AROUND + room_for(&request.names));
    put_text(&mut out, 1, &request.version);
    put_node(&mut out, 2, request.node.as_deref());
    put_names(&mut out, 3, &request.names);
    put_text(&mut out, 4, &request.type_url);
    put_text(&mut out, 5, &request.nonce);
    put_error(&mut out, 6, request.error.as_ref());
    out
}

fn delta(request: &DeltaRequest) -> Vec<u8> {
    let names = room_for(&request.subscribe) + room_for(&request.unsubscribe);
    let held: usize =
        request.initial_versions.iter().map(|one| field_size(size_of_pair(one))).sum();
    let mut out = Vec::with_capacity(AROUND + names + held);
    put_node(&mut out, 1, request.node.as_deref());
    put_text(&mut out, 2, &request.type_url);
    put_names(&mut out, 3, &request.subscribe);
    put_names(&mut out, 4, &request.unsubscribe);
    for (name, version) in request.initial_versions.iter() {
        put_header(&mut out, 5, size_of_pair((name, version)));
        put_field(&mut out, 1, name.as_bytes());
        put_field(&mut out, 2, version.as_bytes());
    }
    put_text(&mut out, 6, &request.nonce);
    put_error(&mut out, 7, request.error.as_ref());
    out
}

/// An estimate for type, version and nonce.
const AROUND: usize = 256;

fn room_for(names: &Names) -> usize {
    names.iter().map(|name| field_size(name.len())).sum()
}

fn size_of_pair((name, version): (&str, &str)) -> usize {
    field_size(name.len()) + field_size(version.len())
}

fn put_names(out: &mut Vec<u8>, number: u8, names: &Names) {
    names.iter().for_each(|name| put_field(out, number, name.as_bytes()));
}

fn put_node(out: &mut Vec<u8>, number: u8, node: Option<&Node>) {
    if let Some(node) = node {
        put_field(out, number, &WireNode::from(node).encode_to_vec());
    }
}

fn put_error(out: &mut Vec<u8>, number: u8, error: Option<&ErrorDetail>) {
    if let Some(error) = error {
        let status = WireStatus { code: error.code, message: error.message.clone() };
        put_field(out, number, &status.encode_to_vec());
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{error, names, node, sotw_request, text};
    use crate::wire::{decode_delta, decode_sotw};

    proptest! {
        /// C-006
        #[test]
        fn a_server_reads_what_a_client_wrote(request in sotw_request()) {
            let bytes = encode_request(&Request::Sotw(request.clone()));
            prop_assert_eq!(decode_sotw(&bytes).unwrap(), request);
        }

        /// C-040
        #[test]
        fn a_server_reads_what_a_client_wrote_of_changes(
            node in proptest::option::of(node()),
            (type_url, nonce) in (text(), text()),
            (subscribe, unsubscribe) in (names(), names()),
            held in vec((text(), text()), 0..4),
            error in error(),
        ) {
            let request = DeltaRequest {
                node, type_url: type_url.into(), nonce: nonce.into(), subscribe, unsubscribe,
                initial_versions: held.into_iter().collect(), error,
            };
            let bytes = encode_request(&Request::Delta(request.clone()));
            prop_assert_eq!(decode_delta(&bytes).unwrap(), request);
        }
    }
}
