//! Header blocks: those of requests are written, those of the server are read (RFC 7541).
//!
//! A request uses the static table and plain literals, so its block is encoded once for all streams.
//! The clients announce a dynamic table of no size: a block of the server is read without any state,
//! and a block that refers to a dynamic table is a fault.

use super::huffman;

/// One field of a header block, as text; bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Encodes the header block of a gRPC request to one method.
pub(crate) fn request_block(secure: bool, authority: &str, path: &str) -> Vec<u8> {
    let mut block = vec![POST, if secure { HTTPS } else { HTTP }];
    literal(&mut block, PATH, path);
    literal(&mut block, AUTHORITY, authority);
    literal(&mut block, CONTENT_TYPE, "application/grpc");
    literal(&mut block, USER_AGENT, concat!("chancery-bench/", env!("CARGO_PKG_VERSION")));
    block.push(0);
    string(&mut block, "te");
    string(&mut block, "trailers");
    block
}

/// Decodes the fields of a block; returns nothing if it is malformed or refers to a dynamic table.
pub(super) fn decode(mut block: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while let Some(first) = block.first().copied() {
        if first & 0x80 != 0 {
            let (name, value) = static_entry(integer(&mut block, 7)?)?;
            fields.push(Field { name: name.to_owned(), value: value.to_owned() });
        } else if first & 0xe0 == 0x20 {
            integer(&mut block, 5)?; // an update of the table's size
        } else {
            let index = integer(&mut block, if first & 0x40 == 0 { 4 } else { 6 })?;
            let name = match index {
                0 => text(&mut block)?,
                index => static_entry(index)?.0.to_owned(),
            };
            fields.push(Field { name, value: text(&mut block)? });
        }
    }
    Some(fields)
}

/// Returns true if a block begins with `:status: 200`, as that of nearly every response does.
pub(super) fn begins_with_success(block: &[u8]) -> bool {
    // A server may confirm before it that its table is empty.
    block.iter().find(|byte| **byte != EMPTY_TABLE) == Some(&SUCCESS)
}

fn literal(block: &mut Vec<u8>, index: usize, value: &str) {
    put_integer(block, 0, 4, index);
    string(block, value);
}

fn string(block: &mut Vec<u8>, text: &str) {
    put_integer(block, 0, 7, text.len());
    block.extend_from_slice(text.as_bytes());
}

fn put_integer(block: &mut Vec<u8>, flags: u8, bits: u8, value: usize) {
    let most = (1_usize << bits) - 1;
    if value < most {
        block.push(flags | value as u8);
        return;
    }
    block.push(flags | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

fn integer(block: &mut &[u8], bits: u8) -> Option<usize> {
    let most = (1_usize << bits) - 1;
    let value = usize::from(byte(block)?) & most;
    if value < most {
        return Some(value);
    }
    let mut rest = 0_usize;
    for shift in [0, 7, 14, 21] {
        let next = byte(block)?;
        rest |= usize::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Some(most + rest);
        }
    }
    None
}

fn text(block: &mut &[u8]) -> Option<String> {
    let coded = block.first()? & 0x80 != 0;
    let length = integer(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length)?;
    *block = rest;
    if coded {
        return Some(String::from_utf8_lossy(&huffman::decode(bytes)?).into_owned());
    }
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn byte(block: &mut &[u8]) -> Option<u8> {
    let (first, rest) = block.split_first()?;
    *block = rest;
    Some(*first)
}

fn static_entry(index: usize) -> Option<(&'static str, &'static str)> {
    STATIC.get(index.checked_sub(1)?).copied()
}

/// `:status: 200`.
const SUCCESS: u8 = 0x88;
/// An update of the dynamic table's size to zero.
const EMPTY_TABLE: u8 = 0x20;

const AUTHORITY: usize = 1;
const POST: u8 = 0x83;
const PATH: usize = 4;
const HTTP: u8 = 0x86;
const HTTPS: u8 = 0x87;
const CONTENT_TYPE: usize = 31;
const USER_AGENT: usize = 58;

/// The static table (RFC 7541, appendix A).
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""),
    ("vary", ""), ("via", ""), ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(block: &[u8]) -> Option<Vec<(String, String)>> {
        Some(decode(block)?.into_iter().map(|field| (field.name, field.value)).collect())
    }

    #[test]
    fn what_is_written_is_read() {
        let long = "/".repeat(300);
        let fields = pairs(&request_block(true, "a:1", &long)).unwrap();
        let agent = concat!("chancery-bench/", env!("CARGO_PKG_VERSION"));
        let expected = [
            (":method", "POST"),
            (":scheme", "https"),
            (":path", long.as_str()),
            (":authority", "a:1"),
            ("content-type", "application/grpc"),
            ("user-agent", agent),
            ("te", "trailers"),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_coded_literal_and_a_change_of_the_table_are_read() {
        // The size of the table becomes zero; `:status` 302 is coded as in RFC 7541, C.6.1.
        let fields = pairs(&[0x20, 0x88, 0x48, 0x82, 0x64, 0x02]).unwrap();
        assert_eq!(fields[0], (":status".to_owned(), "200".to_owned()));
        assert_eq!(fields[1], (":status".to_owned(), "302".to_owned()));
        assert!(begins_with_success(&[0x20, 0x88]) && !begins_with_success(&[0x20, 0x8d]));
    }

    #[test]
    fn a_malformed_block_is_refused_and_never_a_panic() {
        for block in [&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], &[0xbe], &[0x80], &[0x40, 0x05]] {
            assert_eq!(decode(block), None, "{block:?}");
        }
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                decode(&[first, second, 0x7f, 0xff, 0x01]);
            }
        }
    }
}
