//! Counts what arrives over HTTP/2: the bytes of request bodies, and the frames that cost h2 memory or
//! work.
//!
//! A stream whose client reads no response takes no requests either, so a client could have the
//! server keep a whole window on each of its connections, each byte in a frame of its own. This follows
//! the frames by their headers and the lengths of their padding alone. h2 checks all else about them.
//! Not here: who has taken what (`unread_bodies`).

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
/// The weights of frames: one that h2 keeps until a stream takes it has the weight 1, the beginning of a
/// stream as much more as it costs more memory, and SETTINGS cost work.
const HEADERS_WEIGHT: usize = 4;
const SETTINGS_WEIGHT: usize = 8;
/// The weight of the frames that may begin in one poll of the task: streams take what h2 has of them
/// before it has more, and the list in which h2 has them stays short.
const WEIGHT_AT_ONCE: usize = 128;
/// The most bytes of a buffer into which h2 reads. It is kept as long as one frame in it.
const MOST_KEPT: usize = 64 * 1024;

/// Counts the bytes of DATA frames.
pub(super) struct DataMeter {
    activity: Arc<ConnectionActivity>,
    /// The weight of the frames that may still begin before the task is polled again.
    room: usize,
    /// True if no byte of the data of this frame has come.
    is_new: bool,
    /// The number of bytes since the last data, which are kept with the next ones.
    others: usize,
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
            room: WEIGHT_AT_ONCE,
            is_new: false,
            others: 0,
            header: [0; HEADER],
            come: 0,
            rest: PREFACE,
            tail: PREFACE,
            is_padded: false,
            stream: 0,
            head: 0,
        }
    }

    /// Lets frames begin again.
    pub(super) fn make_room(&mut self) {
        self.room = WEIGHT_AT_ONCE;
    }

    /// Returns true if no more frames may begin.
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Counts the bytes that were read next. Returns the number of those that are for now: the others
    /// are further frames, and no more may begin.
    pub(super) fn count(&mut self, bytes: &[u8]) -> usize {
        let mut left = bytes;
        while let Some(first) = left.first() {
            if self.is_padded {
                self.tail = usize::from(*first);
                self.is_padded = false;
                self.rest -= 1;
                left = &left[1..];
                continue;
            }
            if self.rest > 0 {
                let part = self.rest.min(left.len());
                self.count_payload(part);
                self.rest -= part;
                left = &left[part..];
                continue;
            }
            if self.come == 0 && self.is_full() {
                break;
            }
            let part = (HEADER - self.come).min(left.len());
            self.header[self.come..self.come + part].copy_from_slice(&left[..part]);
            self.come += part;
            left = &left[part..];
            if self.come == HEADER {
                let kind = self.begin_frame();
                self.room = self.room.saturating_sub(weight(kind));
            }
        }
        bytes.len() - left.len()
    }

    /// Counts a part of the payload of a frame, in which data come first.
    fn count_payload(&mut self, part: usize) {
        let data = self.rest.saturating_sub(self.tail).min(part);
        if data > 0 {
            let unread = &self.activity.unread;
            if std::mem::take(&mut self.is_new) {
                unread.began(self.stream, data, std::mem::take(&mut self.others).min(MOST_KEPT));
            } else {
                unread.received(self.stream, data);
            }
        }
        self.others += part - data;
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
        self.is_new = kind == DATA;
        self.others += HEADER;
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

/// The weight of a frame of this type.
fn weight(kind: u8) -> usize {
    match kind {
        SETTINGS => SETTINGS_WEIGHT,
        HEADERS => HEADERS_WEIGHT,
        DATA => 1,
        _ => 0,
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
            let counted: usize = bytes.chunks(size).map(|part| meter.count(part)).sum();
            assert_eq!(counted, bytes.len());
            assert_eq!(meter.room, WEIGHT_AT_ONCE - SETTINGS_WEIGHT - HEADERS_WEIGHT - 6);
            // Beside the data of a frame count the headers and frames before it.
            let kept = PREFACE + (3 * HEADER + 30) + (3 * HEADER + 4) + HEADER;
            assert_eq!(activity.unread.sum(), 207 + 39 + kept, "in parts of {size}");
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
