//! The part of a response that only one stream gets: all fields but `resources`. It is written by
//! hand into one buffer, because it is made once for every response.

use chancery_core::Variant;
use chancery_core::server::Response;
use prost::Message;

use super::WireResourceError;
use super::put::{field_size, put_field, put_header, put_text};

/// Encodes all of a response that [`encode_entries`](super::encode_entries) does not.
pub fn encode_tail(response: &Response, control_plane: &str) -> Vec<u8> {
    let Response { version, nonce, removed, errors, .. } = response;
    let type_url = response.type_url.as_str();
    let room = version.len() + type_url.len() + nonce.len() + control_plane.len() + 24;
    let mut out = Vec::with_capacity(room);
    put_text(&mut out, 1, version);
    put_text(&mut out, 4, type_url);
    put_text(&mut out, 5, nonce);
    let (plane, faults) = match response.variant {
        Variant::Sotw => (6, 7),
        Variant::Delta => {
            removed.iter().for_each(|name| put_field(&mut out, 6, name.as_bytes()));
            (7, 9)
        }
    };
    put_header(
        &mut out,
        plane,
        if control_plane.is_empty() { 0 } else { field_size(control_plane.len()) },
    );
    put_text(&mut out, 1, control_plane);
    for error in errors {
        put_field(&mut out, faults, &WireResourceError::from(error).encode_to_vec());
    }
    out
}
