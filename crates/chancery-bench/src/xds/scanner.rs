//! A scanner that reads a discovery response in pieces of any size.
//!
//! Both variants agree on the numbers of the fields that are needed: 1 is the version, 2 a resource,
//! 4 the type, 5 the nonce; 6 and 8 are the resources that delta removes. Resources are counted and
//! skipped.

use crate::bytes::take;

/// The fields of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseFields {
    pub(super) version: Vec<u8>,
    pub(super) type_url: Vec<u8>,
    pub(super) nonce: Vec<u8>,
    pub(super) resources: u32,
    pub(super) resource_bytes: u64,
    pub(super) removed: u32,
}

/// A response of which some bytes were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Scanner {
    pub(super) fields: ResponseFields,
    state: ScanState,
    number: u64,
    shift: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    /// The key of a field is next.
    #[default]
    Key,
    /// A number is next, which is skipped.
    Number,
    /// The length of this field is next.
    Length(u64),
    /// So many bytes are skipped; no length is larger than a `u32`.
    Skip(u64),
    /// So many bytes of this field are kept.
    Keep(u64, u64),
}

/// The bytes are not a discovery response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAResponse;

impl Scanner {
    /// Begins with the next response, and reuses the memory of the last one.
    pub(super) fn clear(&mut self) {
        let ResponseFields { version, type_url, nonce, .. } = &mut self.fields;
        for text in [version, type_url, nonce] {
            text.clear();
        }
        (self.fields.resources, self.fields.resource_bytes, self.fields.removed) = (0, 0, 0);
        (self.state, self.number, self.shift) = (ScanState::Key, 0, 0);
    }

    /// Returns true if the response may end here.
    pub(super) fn is_complete(&self) -> bool {
        self.state == ScanState::Key && self.shift == 0
    }

    /// Reads the next bytes.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), NotAResponse> {
        while !bytes.is_empty() {
            match self.state {
                ScanState::Skip(left) => {
                    let left = left - take(&mut bytes, left as usize).len() as u64;
                    self.state = if left == 0 { ScanState::Key } else { ScanState::Skip(left) };
                }
                ScanState::Keep(field, left) => {
                    let piece = take(&mut bytes, left as usize);
                    self.keep(field, piece)?;
                    let left = left - piece.len() as u64;
                    self.state =
                        if left == 0 { ScanState::Key } else { ScanState::Keep(field, left) };
                }
                _ => self.digit(take(&mut bytes, 1)[0])?,
            }
        }
        Ok(())
    }

    /// Reads one byte of a number: of a key, of a length, or of a value that is skipped.
    fn digit(&mut self, byte: u8) -> Result<(), NotAResponse> {
        if self.shift > 63 {
            return Err(NotAResponse);
        }
        self.number |= u64::from(byte & 0x7f) << self.shift;
        self.shift += 7;
        if byte & 0x80 != 0 {
            return Ok(());
        }
        let number = std::mem::take(&mut self.number);
        self.shift = 0;
        self.state = match self.state {
            ScanState::Key => key(number)?,
            ScanState::Length(_) if number > u32::MAX.into() => return Err(NotAResponse),
            ScanState::Length(field) => self.begin_field(field, number),
            _ => ScanState::Key,
        };
        Ok(())
    }

    fn begin_field(&mut self, field: u64, length: u64) -> ScanState {
        match field {
            RESOURCE => {
                self.fields.resources += 1;
                self.fields.resource_bytes += length;
            }
            REMOVED | REMOVED_NAME => self.fields.removed += 1,
            _ => {}
        }
        match field {
            _ if length == 0 => ScanState::Key,
            VERSION | TYPE | NONCE => ScanState::Keep(field, length),
            _ => ScanState::Skip(length),
        }
    }

    fn keep(&mut self, field: u64, piece: &[u8]) -> Result<(), NotAResponse> {
        let text = match field {
            VERSION => &mut self.fields.version,
            TYPE => &mut self.fields.type_url,
            _ => &mut self.fields.nonce,
        };
        if text.len() + piece.len() > LONGEST {
            return Err(NotAResponse);
        }
        text.extend_from_slice(piece);
        Ok(())
    }
}

fn key(key: u64) -> Result<ScanState, NotAResponse> {
    match key & 7 {
        0 => Ok(ScanState::Number),
        1 => Ok(ScanState::Skip(8)),
        2 => Ok(ScanState::Length(key >> 3)),
        5 => Ok(ScanState::Skip(4)),
        _ => Err(NotAResponse),
    }
}

const VERSION: u64 = 1;
const RESOURCE: u64 = 2;
const TYPE: u64 = 4;
const NONCE: u64 = 5;
const REMOVED: u64 = 6;
const REMOVED_NAME: u64 = 8;

/// The longest version, type or nonce. They are short; a longer one is taken for a malformed response.
const LONGEST: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::proto::{field, varint};

    fn response() -> Vec<u8> {
        let mut out = Vec::new();
        field(&mut out, 1, b"v1");
        for size in [0, 1, 127, 128, 300] {
            field(&mut out, 2, &vec![0xff; size]);
        }
        varint(&mut out, 3 << 3);
        varint(&mut out, 1);
        field(&mut out, 4, b"type.googleapis.com/T");
        field(&mut out, 6, b"gone");
        field(&mut out, 8, b"gone too");
        out.extend_from_slice(&[9 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8, 9 << 3 | 5, 1, 2, 3, 4]);
        field(&mut out, 5, b"n1");
        out
    }

    fn expected() -> ResponseFields {
        ResponseFields {
            version: b"v1".into(),
            type_url: b"type.googleapis.com/T".into(),
            nonce: b"n1".into(),
            resources: 5,
            resource_bytes: 556,
            removed: 2,
        }
    }

    #[test]
    fn a_response_is_read_the_same_however_it_is_cut() {
        let bytes = response();
        for cut in 0..=bytes.len() {
            let mut scanner = Scanner::default();
            scanner.feed(&bytes[..cut]).unwrap();
            scanner.feed(&bytes[cut..]).unwrap();
            assert!(scanner.is_complete());
            assert_eq!(scanner.fields, expected(), "cut at {cut}");
        }
        let mut scanner = Scanner::default();
        for byte in &bytes {
            scanner.feed(std::slice::from_ref(byte)).unwrap();
        }
        assert_eq!(scanner.fields, expected());
    }

    #[test]
    fn a_cut_response_is_not_whole_and_the_next_begins_afresh() {
        let bytes = response();
        let mut scanner = Scanner::default();
        scanner.feed(&bytes[..bytes.len() - 1]).unwrap();
        assert!(!scanner.is_complete());
        scanner.clear();
        scanner.feed(&bytes).unwrap();
        assert_eq!(scanner.fields, expected());
    }

    #[test]
    fn a_malformed_response_is_refused() {
        for bytes in [&[0x0b][..], &[0xff; 11]] {
            assert_eq!(Scanner::default().feed(bytes), Err(NotAResponse));
        }
        let huge = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Scanner::default().feed(&huge), Err(NotAResponse), "longer than any message");
        let mut endless = vec![0x2a, 0xff, 0xff, 0x7f];
        endless.resize(100_000, b'n');
        assert_eq!(Scanner::default().feed(&endless), Err(NotAResponse));
    }
}
