//! Fields of a message, written by hand; [`super::fields`] reads them.

use bytes::BufMut;
use prost::encoding::{encode_varint, encoded_len_varint};

/// Writes a field of bytes. All field numbers here are small, so that their key is one byte.
pub(super) fn put_field(out: &mut Vec<u8>, number: u8, value: &[u8]) {
    put_header(out, number, value.len());
    out.put_slice(value);
}

pub(super) fn put_header(out: &mut Vec<u8>, number: u8, size: usize) {
    const LENGTH_DELIMITED: u8 = 2;
    out.put_u8(number << 3 | LENGTH_DELIMITED);
    encode_varint(size as u64, out);
}

pub(super) fn field_size(size: usize) -> usize {
    1 + encoded_len_varint(size as u64) + size
}

/// Writes a text. An empty one is left out, as protobuf does.
pub(super) fn put_text(out: &mut Vec<u8>, number: u8, text: &str) {
    if !text.is_empty() {
        put_header(out, number, text.len());
        out.put_slice(text.as_bytes());
    }
}
