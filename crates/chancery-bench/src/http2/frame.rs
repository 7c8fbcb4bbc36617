//! The header of a frame, and the numbers of the frames and settings that the clients use
//! (RFC 9113, sections 4.1, 6 and 6.5.2).

/// The bytes before the first frame of a client.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The length of the header of a frame.
pub(super) const HEADER_SIZE: usize = 9;

/// The largest payload that every peer accepts, and the largest that may be announced.
pub(super) const FRAME_SIZES: (u32, u32) = (16_384, 16_777_215);

/// The largest flow control window.
pub(super) const WINDOW: u32 = 0x7fff_ffff;

/// The window with which every connection and stream begins.
pub(super) const FIRST_WINDOW: u32 = 65_535;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const PRIORITY: u8 = 0x20;

pub(super) const SET_TABLE: u16 = 1;
pub(super) const SET_PUSH: u16 = 2;
pub(super) const SET_STREAMS: u16 = 3;
pub(super) const SET_WINDOW: u16 = 4;
pub(super) const SET_FRAME: u16 = 5;

/// The header of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    pub(super) fn parse(bytes: [u8; HEADER_SIZE]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        let stream = u32::from_be_bytes(stream) & WINDOW;
        Self { length: u32::from_be_bytes([0, a, b, c]), kind, flags, stream }
    }

    pub(super) fn bytes(self) -> [u8; HEADER_SIZE] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [s, t, u, v] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s, t, u, v]
    }

    pub(super) fn has_flag(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a whole frame.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("callers split at the frame size");
    out.extend_from_slice(&FrameHeader { length, kind, flags, stream }.bytes());
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let head = FrameHeader { length: 0x12_3456, kind: DATA, flags: PADDED, stream: 77 };
        assert_eq!(FrameHeader::parse(head.bytes()), head);
    }
}
