//! Counts the bytes of request bodies as they arrive over HTTP/2.
//!
//! A stream whose client reads no response takes no requests either, so a client could have the
//! server keep a whole window on each of its connections. This follows the frames by their headers and
//! the lengths of their padding alone. h2 checks all else about them. Not here: who has taken what
//! (`unread_bodies`).

use std::sync::Arc;

use crate::activity::ConnectionActivity;

/// The length of the preface, which comes before the first frame.
const PREFACE: usize = 24;
/// The length of the header of a frame.
const HEADER: usize = 9;
/// The type of a frame with a part of a body.
const DATA: u8 = 0;
/// The flag of a frame whose first byte is the length of the padding at its end.
const PADDED: u8 = 8;
/// The types of frames with a head, or a further part of one.
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// The flag of the last part of a head.
const END_HEADERS: u8 = 4;
/// The type of a frame that may cost work for each stream.
const SETTINGS: u8 = 4;

/// Counts the bytes of DATA frames.
pub(super) struct DataMeter {
    activity: Arc<ConnectionActivity>,
    /// The header of the next frame, as far as it has come.
    header: [u8; HEADER],
    come: usize,
    /// The number of bytes that the frame still has, or the preface.
    rest: usize,
    /// The number of them at its end that are no data: padding, or all of them.
    tail: usize,
    /// True if the next byte is the length of the padding.
    is_padded: bool,
    /// The stream that the frame is of.
    stream: u32,
    /// The bytes of a head that is not whole.
    head: usize,
}

impl DataMeter {
    pub(super) fn new(activity: Arc<ConnectionActivity>) -> Self {
        Self {
            activity,
            header: [0; HEADER],
            come: 0,
            rest: PREFACE,
            tail: PREFACE,
            is_padded: false,
            stream: 0,
            head: 0,
        }
    }

    /// Counts the bytes that were read next. Returns the number of frames of SETTINGS.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut settings = 0;
        while let Some(first) = bytes.first() {
            if self.is_padded {
                self.tail = usize::from(*first);
                self.is_padded = false;
                self.rest -= 1;
                bytes = &bytes[1..];
                continue;
            }
            if self.rest > 0 {
                let part = self.rest.min(bytes.len());
                let data = self.rest.saturating_sub(self.tail).min(part);
                if data > 0 {
                    self.activity.unread.received(self.stream, data);
                }
                self.rest -= part;
                bytes = &bytes[part..];
                continue;
            }
            let part = (HEADER - self.come).min(bytes.len());
            self.header[self.come..self.come + part].copy_from_slice(&bytes[..part]);
            self.come += part;
            bytes = &bytes[part..];
            if self.come == HEADER {
                settings += usize::from(self.begin_frame() == SETTINGS);
            }
        }
        settings
    }

    /// Begins the frame whose header has come. Returns its type.
    fn begin_frame(&mut self) -> u8 {
        let [high, middle, low, kind, flags, stream @ ..] = self.header;
        self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.tail = if kind == DATA { 0 } else { self.rest };
        self.is_padded = kind == DATA && flags & PADDED != 0 && self.rest > 0;
        // The highest bit is reserved.
        self.stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        self.come = 0;
        if kind == HEADERS {
            self.activity.unread.trailers(self.stream);
        }
        if kind == HEADERS || kind == CONTINUATION {
            self.begin_part_of_head(flags & END_HEADERS != 0);
        }
        kind
    }

    fn begin_part_of_head(&mut self, is_last: bool) {
        let before = self.head;
        self.head = if is_last { 0 } else { before + self.rest };
        if self.head != before {
            self.activity.unread.set_head(self.head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.extend(std::iter::repeat_n(20, usize::from(length)));
        frame
    }

    #[test]
    fn bytes_of_bodies_are_counted_however_they_are_cut() {
        let mut bytes = vec![b'P'; PREFACE];
        bytes.extend(frame(HEADERS, END_HEADERS, 30));
        for (kind, length) in [(SETTINGS, 0), (DATA, 200), (8, 4), (DATA, 0), (DATA, 7)] {
            bytes.extend(frame(kind, 0, length));
        }
        // Of these, 20 are padding, and one is the length of it; the second is too short for that.
        for length in [60, 9, 0] {
            bytes.extend(frame(DATA, PADDED, length));
        }
        for size in 1..=bytes.len() {
            let activity = Arc::new(ConnectionActivity::default());
            let mut meter = DataMeter::new(Arc::clone(&activity));
            let settings: usize = bytes.chunks(size).map(|part| meter.count(part)).sum();
            assert_eq!(settings, 1);
            assert_eq!(activity.unread.sum(), 207 + 39, "in parts of {size}");
        }
    }

    #[test]
    fn a_head_counts_until_it_is_whole() {
        let activity = Arc::new(ConnectionActivity::default());
        let mut meter = DataMeter::new(Arc::clone(&activity));
        meter.count(&[b'P'; PREFACE]);
        meter.count(&frame(HEADERS, 0, 100));
        meter.count(&frame(CONTINUATION, 0, 50));
        assert_eq!(activity.unread.sum(), 150);
        meter.count(&frame(CONTINUATION, END_HEADERS, 50));
        assert_eq!(activity.unread.sum(), 0);
    }
}
