//! One HTTP/2 connection: frames are read as their bytes arrive, and those that need it are answered.
//!
//! The payload of DATA is passed on in whatever pieces arrive and is never kept; other frames are
//! kept until they are whole, and none may be larger than the announced size. Frames to be sent go to
//! the caller's buffer. The windows are as large as they can be and are updated rarely, so a response
//! is never delayed by flow control unless the caller stops reading.

use chancery_core::printable::{MAX_NAME_BYTES, PrintForm, cut, printable};

use super::frame::{self, FIRST_WINDOW, FRAME_SIZES, FrameHeader, HEADER_SIZE, WINDOW};
use super::hpack::{self, Field};
use crate::bytes::take;

/// A connection, after the preface was sent.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    header_bytes: [u8; HEADER_SIZE],
    /// The number of bytes of the header that were read.
    header_read: u8,
    /// The header of the current frame, once it is whole.
    header: FrameHeader,
    /// The number of bytes of the current frame's payload that were not read yet.
    payload_left: u32,
    /// The number of bytes at the end of the payload that are padding.
    padding: u32,
    /// The first byte of the payload, which is the length of the padding, was not read yet.
    padding_unread: bool,
    /// An event has said that the current frame ends the stream.
    end_reported: bool,
    /// The payload of a frame that is not DATA, as far as it was read.
    payload: Vec<u8>,
    /// The stream and the flags of a header block that goes on in the next frame.
    open_block: Option<(u32, u8)>,
    settings_received: bool,
    /// The number of bytes received since the last update of the connection's window.
    unreleased: u32,
    /// The window of the connection for what is sent.
    window: SendWindow,
    peer: PeerSettings,
    max_frame_size: u32,
}

/// The number of bytes that may still be sent, on a connection or on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendWindow(i64);

/// The settings of the server.
#[derive(Clone, Copy, Debug)]
struct PeerSettings {
    window: u32,
    frame: u32,
    streams: u32,
}

/// An event on a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Http2Event<'a> {
    /// A piece of a body; with `end` it is the last on its stream.
    Data { stream: u32, bytes: &'a [u8], end: bool },
    /// A header block, without fields if it cannot be decoded; with `end` it ends the stream.
    Headers { stream: u32, fields: Option<Vec<Field>>, end: bool },
    /// The server has reset a stream, with this error code.
    Reset { stream: u32, code: u32 },
    /// The server will close the connection, and has handled no stream after `last`.
    GoAway { last: u32, code: u32, text: String },
    /// The window of one stream has grown.
    StreamWindow { stream: u32, by: u32 },
    /// The windows of all streams have grown, or shrunk.
    AllStreamWindows { by: i64 },
}

/// A fault that ends a connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Http2Error {
    /// The first bytes are not HTTP/2.
    #[error("the server does not speak HTTP/2 here; its answer begins with `{0}`")]
    NoHttp2(String),
    /// A frame is larger than the announced size.
    #[error("the server sent a frame of {found} bytes, and at most {most} were announced")]
    TooLarge { found: u32, most: u32 },
    /// A frame is malformed or out of place.
    #[error("the server broke HTTP/2: {0}")]
    Frame(&'static str),
}

impl Http2Connection {
    /// Begins a connection, and announces this largest frame size.
    pub(crate) fn open(max_frame_size: u32, out: &mut Vec<u8>) -> Self {
        let max_frame_size = max_frame_size.clamp(FRAME_SIZES.0, FRAME_SIZES.1);
        out.extend_from_slice(frame::PREFACE);
        let mut settings = Vec::new();
        for (key, value) in [
            (frame::SET_TABLE, 0),
            (frame::SET_PUSH, 0),
            (frame::SET_WINDOW, WINDOW),
            (frame::SET_FRAME, max_frame_size),
        ] {
            settings.extend_from_slice(&key.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frame::write(out, frame::SETTINGS, 0, 0, &settings);
        window_update(out, 0, WINDOW - FIRST_WINDOW);
        Self {
            header_bytes: [0; HEADER_SIZE],
            header_read: 0,
            header: FrameHeader::default(),
            payload_left: 0,
            padding: 0,
            padding_unread: false,
            end_reported: false,
            payload: Vec::new(),
            open_block: None,
            settings_received: false,
            unreleased: 0,
            window: SendWindow(FIRST_WINDOW.into()),
            peer: PeerSettings { window: FIRST_WINDOW, frame: FRAME_SIZES.0, streams: u32::MAX },
            max_frame_size,
        }
    }

    /// Reads `input` up to the next event; returns nothing if more bytes are needed.
    ///
    /// # Errors
    /// The server has broken the protocol. The connection cannot be used any more.
    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Http2Event<'a>>, Http2Error> {
        loop {
            if usize::from(self.header_read) < HEADER_SIZE && !self.read_header(input, out)? {
                return Ok(None);
            }
            let event = if self.header.kind == frame::DATA {
                self.data(input)?
            } else if self.collect_payload(input) {
                self.handle_frame(out)?
            } else {
                return Ok(None);
            };
            if event.is_some() || usize::from(self.header_read) == HEADER_SIZE && input.is_empty() {
                return Ok(event);
            }
        }
    }

    /// Returns true if the settings of the server were received.
    pub(crate) fn settings_received(&self) -> bool {
        self.settings_received
    }

    /// The number of streams that the server allows on this connection.
    pub(crate) fn streams(&self) -> u32 {
        self.peer.streams
    }

    /// The window of a new stream.
    pub(crate) fn stream_window(&self) -> SendWindow {
        SendWindow(self.peer.window.into())
    }

    /// Opens a stream with the header block of a request.
    pub(crate) fn request(&self, stream: u32, block: &[u8], out: &mut Vec<u8>) {
        frame::write(out, frame::HEADERS, frame::END_HEADERS, stream, block);
    }

    /// The number of bytes, `wanted` at most, that may be sent in one frame now.
    pub(crate) fn sendable(&self, window: SendWindow, wanted: usize) -> usize {
        let most = self.window.0.min(window.0).clamp(0, self.peer.frame.into());
        wanted.min(usize::try_from(most).unwrap_or(0))
    }

    /// Leaves room in `out` for the header of a DATA frame and returns its place, for
    /// [`Self::finish_data`].
    pub(crate) fn begin_data(out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_SIZE]);
        start
    }

    /// Makes one DATA frame of the bytes after `start`; returns false if a window is too small.
    pub(crate) fn finish_data(
        &mut self,
        stream: u32,
        window: &mut SendWindow,
        out: &mut [u8],
        start: usize,
    ) -> bool {
        let length = out.len() - start - HEADER_SIZE;
        if self.sendable(*window, length) < length {
            return false;
        }
        let head = FrameHeader { length: length as u32, kind: frame::DATA, flags: 0, stream };
        out[start..start + HEADER_SIZE].copy_from_slice(&head.bytes());
        self.window.0 -= length as i64;
        window.0 -= length as i64;
        true
    }

    /// Lets the server send more on a stream.
    pub(crate) fn release(stream: u32, by: u32, out: &mut Vec<u8>) {
        window_update(out, stream, by);
    }

    /// Reads the header of a frame; returns true if it is whole.
    fn read_header(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, Http2Error> {
        let have = usize::from(self.header_read);
        let taken = take(input, HEADER_SIZE - have);
        self.header_bytes[have..have + taken.len()].copy_from_slice(taken);
        self.header_read += taken.len() as u8;
        if usize::from(self.header_read) < HEADER_SIZE {
            return Ok(false);
        }
        self.header = FrameHeader::parse(self.header_bytes);
        self.check_header()?;
        self.payload_left = self.header.length;
        self.padding = 0;
        self.end_reported = false;
        self.padding_unread =
            self.header.kind == frame::DATA && self.header.has_flag(frame::PADDED);
        if self.header.kind == frame::DATA {
            self.release_connection_window(out);
        }
        Ok(true)
    }

    fn check_header(&self) -> Result<(), Http2Error> {
        if !self.settings_received && self.header.kind != frame::SETTINGS {
            return Err(Http2Error::NoHttp2(shown(&self.header_bytes)));
        }
        if self.header.length > self.max_frame_size {
            return Err(Http2Error::TooLarge {
                found: self.header.length,
                most: self.max_frame_size,
            });
        }
        match (self.open_block, self.header.kind) {
            (Some((stream, _)), frame::CONTINUATION) if stream == self.header.stream => Ok(()),
            (None, frame::CONTINUATION) | (Some(_), _) => {
                Err(Http2Error::Frame("a header block was interrupted"))
            }
            (None, frame::PUSH_PROMISE) => Err(Http2Error::Frame("it pushes, though told not to")),
            (None, _) => Ok(()),
        }
    }

    /// Lets the server send more on the connection, once much of its window is used.
    fn release_connection_window(&mut self, out: &mut Vec<u8>) {
        self.unreleased += self.header.length;
        if self.unreleased >= WINDOW_STEP {
            window_update(out, 0, self.unreleased);
            self.unreleased = 0;
        }
    }

    /// Reads a piece of a DATA frame.
    fn data<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Http2Event<'a>>, Http2Error> {
        if self.padding_unread && !self.read_padding_length(input)? {
            return Ok(None);
        }
        if self.payload_left > self.padding {
            let bytes = take(input, (self.payload_left - self.padding) as usize);
            self.payload_left -= bytes.len() as u32;
            return Ok((!bytes.is_empty()).then(|| self.data_event(bytes)));
        }
        if self.header.has_flag(frame::END_STREAM) && !self.end_reported {
            return Ok(Some(self.data_event(&[])));
        }
        self.payload_left -= take(input, self.payload_left as usize).len() as u32;
        if self.payload_left == 0 {
            self.header_read = 0;
        }
        Ok(None)
    }

    /// Reads the length of the padding of a padded frame; returns true if it could be read.
    fn read_padding_length(&mut self, input: &mut &[u8]) -> Result<bool, Http2Error> {
        if self.payload_left == 0 {
            return Err(Http2Error::Frame("a padded frame without its padding"));
        }
        let [pad] = take(input, 1) else { return Ok(false) };
        self.padding_unread = false;
        self.payload_left -= 1;
        self.padding = u32::from(*pad);
        match self.padding > self.payload_left {
            true => Err(Http2Error::Frame("more padding than payload")),
            false => Ok(true),
        }
    }

    fn data_event<'a>(&mut self, bytes: &'a [u8]) -> Http2Event<'a> {
        let end = self.payload_left == self.padding && self.header.has_flag(frame::END_STREAM);
        self.end_reported |= end;
        if self.payload_left == 0 {
            self.header_read = 0;
        }
        Http2Event::Data { stream: self.header.stream, bytes, end }
    }

    /// Keeps the payload of a frame that is not DATA; returns true if it is whole.
    fn collect_payload(&mut self, input: &mut &[u8]) -> bool {
        let bytes = take(input, self.payload_left as usize);
        self.payload_left -= bytes.len() as u32;
        self.payload.extend_from_slice(bytes);
        self.payload_left == 0
    }

    fn handle_frame<'a>(
        &mut self,
        out: &mut Vec<u8>,
    ) -> Result<Option<Http2Event<'a>>, Http2Error> {
        self.header_read = 0;
        if matches!(self.header.kind, frame::HEADERS | frame::CONTINUATION) {
            return self.header_block();
        }
        let payload = std::mem::take(&mut self.payload);
        let stream = self.header.stream;
        Ok(match self.header.kind {
            frame::SETTINGS if self.header.has_flag(frame::ACK) => None,
            frame::SETTINGS => self.settings(&payload, out)?,
            frame::PING if self.header.has_flag(frame::ACK) => None,
            frame::PING if payload.len() == 8 => {
                frame::write(out, frame::PING, frame::ACK, 0, &payload);
                None
            }
            frame::RST_STREAM => Some(Http2Event::Reset { stream, code: number(&payload, 0)? }),
            frame::GOAWAY => Some(Http2Event::GoAway {
                last: number(&payload, 0)? & WINDOW,
                code: number(&payload, 4)?,
                text: shown(payload.get(8..).unwrap_or_default()),
            }),
            frame::WINDOW_UPDATE => self.window_updated(number(&payload, 0)? & WINDOW)?,
            _ => None,
        })
    }

    fn window_updated<'a>(&mut self, by: u32) -> Result<Option<Http2Event<'a>>, Http2Error> {
        if self.header.stream != 0 {
            return Ok(Some(Http2Event::StreamWindow { stream: self.header.stream, by }));
        }
        self.window.add(by)?;
        Ok(Some(Http2Event::AllStreamWindows { by: 0 }))
    }

    fn settings<'a>(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Http2Event<'a>>, Http2Error> {
        let before = i64::from(self.peer.window);
        for entry in payload.chunks_exact(6) {
            let value = number(entry, 2)?;
            match u16::from_be_bytes([entry[0], entry[1]]) {
                frame::SET_WINDOW if value > WINDOW => {
                    return Err(Http2Error::Frame("a window larger than there is"));
                }
                frame::SET_WINDOW => self.peer.window = value,
                frame::SET_FRAME => self.peer.frame = value.clamp(FRAME_SIZES.0, FRAME_SIZES.1),
                frame::SET_STREAMS => self.peer.streams = value,
                _ => {}
            }
        }
        self.settings_received = true;
        frame::write(out, frame::SETTINGS, frame::ACK, 0, &[]);
        Ok(Some(Http2Event::AllStreamWindows { by: i64::from(self.peer.window) - before }))
    }

    /// Reads a header block, or a part of it.
    fn header_block<'a>(&mut self) -> Result<Option<Http2Event<'a>>, Http2Error> {
        if self.payload.len() > LARGEST_BLOCK {
            return Err(Http2Error::Frame("headers beyond any use"));
        }
        if self.header.kind == frame::HEADERS {
            self.strip_padding()?;
        }
        let (stream, flags) =
            self.open_block.take().unwrap_or((self.header.stream, self.header.flags));
        if !self.header.has_flag(frame::END_HEADERS) {
            self.open_block = Some((stream, flags));
            return Ok(None);
        }
        let (block, end) = (std::mem::take(&mut self.payload), flags & frame::END_STREAM != 0);
        // Thousands of streams begin with success; the fields of that are not needed.
        let fine = !end && hpack::begins_with_success(&block);
        let fields = if fine { Some(Vec::new()) } else { hpack::decode(&block) };
        Ok(Some(Http2Event::Headers { stream, fields, end }))
    }

    /// Removes padding and priority from a HEADERS frame.
    fn strip_padding(&mut self) -> Result<(), Http2Error> {
        let short = Http2Error::Frame("headers without their beginning");
        let padded = self.header.has_flag(frame::PADDED);
        let front = usize::from(padded) + if self.header.has_flag(frame::PRIORITY) { 5 } else { 0 };
        let pad = if padded { self.payload.first().copied().unwrap_or(0) } else { 0 };
        let end =
            self.payload.len().checked_sub(pad.into()).filter(|end| *end >= front).ok_or(short)?;
        self.payload.truncate(end);
        self.payload.drain(..front);
        Ok(())
    }
}

impl SendWindow {
    /// Makes the window larger, or smaller.
    ///
    /// # Errors
    /// It becomes larger than a window may be.
    pub(crate) fn add(&mut self, by: impl Into<i64>) -> Result<(), Http2Error> {
        self.0 += by.into();
        match self.0 > WINDOW.into() {
            true => Err(Http2Error::Frame("a window larger than there is")),
            false => Ok(()),
        }
    }
}

fn window_update(out: &mut Vec<u8>, stream: u32, by: u32) {
    frame::write(out, frame::WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
}

fn number(payload: &[u8], at: usize) -> Result<u32, Http2Error> {
    let bytes = payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or(Http2Error::Frame("a frame that is too short"))
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    printable(&cut(&text, MAX_NAME_BYTES), PrintForm::Line).into_owned()
}

/// The number of received bytes after which a window is updated: half of the largest window.
pub(crate) const WINDOW_STEP: u32 = 1 << 30;

/// The largest header block that is read. Those that say why a stream ended are far smaller.
const LARGEST_BLOCK: usize = 65_536;

#[cfg(test)]
mod tests;
