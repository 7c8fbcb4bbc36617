//! The windows of one stream, and the bytes that wait until the server lets them be sent.
//!
//! Not here: the frames, and the window of the connection (`connection`).

use std::collections::VecDeque;
use std::sync::Arc;

use super::connection::{Http2Connection, Http2Error, SendWindow, WINDOW_STEP};
use super::frame::HEADER_SIZE;

/// The flow control of one stream.
#[derive(Debug)]
pub(crate) struct StreamFlow {
    id: u32,
    window: SendWindow,
    /// The number of bytes received since the last update of the stream's window.
    received: u32,
    unsent: VecDeque<UnsentPiece>,
}

/// Bytes that did not fit into a window.
#[derive(Debug)]
struct UnsentPiece {
    bytes: Arc<[u8]>,
    sent: usize,
}

impl StreamFlow {
    /// A stream with this number that was just opened.
    pub(crate) fn new(id: u32, http2: &Http2Connection) -> Self {
        Self { id, window: http2.stream_window(), received: 0, unsent: VecDeque::new() }
    }

    /// Adds bytes to those that wait, for [`Self::pump`].
    pub(crate) fn push(&mut self, bytes: Arc<[u8]>) {
        self.unsent.push_back(UnsentPiece { bytes, sent: 0 });
    }

    /// Makes one DATA frame of the bytes in `out` after `start`, which [`Http2Connection::begin_data`]
    /// returned. If they may not be sent yet, they wait.
    pub(crate) fn finish_data(
        &mut self,
        http2: &mut Http2Connection,
        out: &mut Vec<u8>,
        start: usize,
    ) {
        if self.has_unsent() || !http2.finish_data(self.id, &mut self.window, out, start) {
            self.push(out[start + HEADER_SIZE..].into());
            out.truncate(start);
            self.pump(http2, out);
        }
    }

    /// Sends as many of the waiting bytes as the windows and the buffer allow.
    pub(crate) fn pump(&mut self, http2: &mut Http2Connection, out: &mut Vec<u8>) {
        while let Some(piece) = self.unsent.front_mut() {
            let sendable = http2.sendable(self.window, piece.bytes.len() - piece.sent);
            if sendable == 0 && piece.sent < piece.bytes.len() || out.len() > BUFFER {
                return;
            }
            let start = Http2Connection::begin_data(out);
            out.extend_from_slice(&piece.bytes[piece.sent..piece.sent + sendable]);
            piece.sent += sendable;
            http2.finish_data(self.id, &mut self.window, out, start);
            if piece.sent == piece.bytes.len() {
                self.unsent.pop_front();
            }
        }
    }

    /// Returns true if bytes wait for a window or for room in the buffer.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Makes the window for what is sent larger, or smaller.
    ///
    /// # Errors
    /// It becomes larger than a window may be.
    pub(crate) fn resize_window(&mut self, by: i64) -> Result<(), Http2Error> {
        self.window.add(by)
    }

    /// Lets the server send more, once much of its window is used.
    pub(crate) fn release_window(&mut self, bytes: usize, out: &mut Vec<u8>) {
        self.received += bytes as u32;
        if self.received >= WINDOW_STEP {
            Http2Connection::release(self.id, self.received, out);
            self.received = 0;
        }
    }
}

/// The size of the buffer beyond which nothing is added before the socket has taken it.
const BUFFER: usize = 262_144;
