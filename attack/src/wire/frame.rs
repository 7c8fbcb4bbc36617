//! Frames of HTTP/2 as bytes, well-formed or not: whatever an attack wants them to be.

/// The bytes before the first frame of a client.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    with_length(payload.len(), kind, flags, stream, payload)
}

/// A frame that states a length, true or not.
pub(crate) fn with_length(
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &[u8],
) -> Vec<u8> {
    let length = u32::try_from(length).expect("a frame here is short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The whole frames in bytes of a server: kind, stream and payload.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(u8, u32, &[u8])> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(9) {
        let size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let Some((payload, rest)) = rest.split_at_checked(size) else { break };
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & (u32::MAX >> 1);
        found.push((head[3], stream, payload));
        bytes = rest;
    }
    found
}

/// A frame with one setting.
pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// The block of a gRPC request, in the form that needs no table.
pub(crate) fn request_block(path: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    block.extend(literal(0x04, path));
    block.extend(literal(0x01, "x"));
    block.extend(field("content-type", "application/grpc"));
    block
}

/// A field with a name of its own.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0][..], &string(name), &string(value)].concat()
}

/// A field that goes into the table of the connection.
pub(crate) fn indexed_field(name: &str, value: &str) -> Vec<u8> {
    [&[0x40][..], &string(name), &string(value)].concat()
}

/// The newest field of the table, so many times.
pub(crate) fn repeated_index(count: usize) -> Vec<u8> {
    vec![0x80 | 62; count]
}

fn literal(name: u8, value: &str) -> Vec<u8> {
    [&[name][..], &string(value)].concat()
}

fn string(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if text.len() < 127 {
        out.push(text.len() as u8);
    } else {
        out.push(127);
        let mut rest = text.len() - 127;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(text.as_bytes());
    out
}
