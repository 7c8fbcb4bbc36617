//! Counts the bytes of request bodies as they arrive over HTTP/2.
//!
//! h2 keeps what has arrived until a stream takes it, and does not say how much that is. A stream
//! whose client reads no response takes no requests either, so a client could have the server keep a
//! whole window on each of its connections. This follows the frames by their headers alone. h2
//! checks all else about them.

use std::sync::Arc;

use crate::activity::ConnectionActivity;

/// The length of the preface, which comes before the first frame.
const PREFACE: usize = 24;
/// The length of the header of a frame.
const HEADER: usize = 9;
/// The type of a frame with a part of a body.
const DATA: u8 = 0;

/// Counts the bytes of DATA frames.
pub(super) struct DataMeter {
    activity: Arc<ConnectionActivity>,
    /// The header of the next frame, as far as it has come.
    header: [u8; HEADER],
    come: usize,
    /// The number of bytes that the frame still has, or the preface.
    rest: usize,
    /// True if the frame is one of DATA.
    is_data: bool,
}

impl DataMeter {
    pub(super) fn new(activity: Arc<ConnectionActivity>) -> Self {
        Self { activity, header: [0; HEADER], come: 0, rest: PREFACE, is_data: false }
    }

    /// Counts the bytes that were read next.
    pub(super) fn count(&mut self, mut bytes: &[u8]) {
        let mut data = 0;
        while !bytes.is_empty() {
            if self.rest > 0 {
                let part = self.rest.min(bytes.len());
                data += if self.is_data { part } else { 0 };
                self.rest -= part;
                bytes = &bytes[part..];
                continue;
            }
            let part = (HEADER - self.come).min(bytes.len());
            self.header[self.come..self.come + part].copy_from_slice(&bytes[..part]);
            self.come += part;
            bytes = &bytes[part..];
            if self.come == HEADER {
                self.begin_frame();
            }
        }
        if data > 0 {
            self.activity.received(data);
        }
    }

    fn begin_frame(&mut self) {
        let [high, middle, low, kind, ..] = self.header;
        self.rest = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.is_data = kind == DATA;
        self.come = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 1];
        frame.extend(std::iter::repeat_n(DATA, usize::from(length)));
        frame
    }

    #[test]
    fn bytes_of_bodies_are_counted_however_they_are_cut() {
        let mut bytes = vec![b'P'; PREFACE];
        for (kind, length) in [(4, 0), (1, 30), (DATA, 200), (8, 4), (DATA, 0), (DATA, 7)] {
            bytes.extend(frame(kind, length));
        }
        for size in 1..=bytes.len() {
            let activity = Arc::new(ConnectionActivity::default());
            let mut meter = DataMeter::new(Arc::clone(&activity));
            bytes.chunks(size).for_each(|part| meter.count(part));
            assert_eq!(activity.unread(), 207, "in parts of {size}");
        }
    }
}
