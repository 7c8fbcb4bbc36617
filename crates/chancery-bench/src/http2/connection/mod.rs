//! One HTTP/2 connection: takes frames apart as their bytes come, and answers what needs answering.
//!
//! The payload of DATA is handed on in whatever pieces arrive and never kept; other frames are kept
//! until they are whole, and none may be larger than what we announced. What is to be written goes
//! to the caller's buffer. Windows are opened as far as they go and topped up rarely, so a response
//! is never held up by us unless the caller stops reading.

use super::frame::{self, FIRST_WINDOW, FRAME_SIZES, FrameHeader, HEADER_SIZE, WINDOW};
use super::hpack::{self, Field};

/// A connection, after the preface was sent.
#[derive(Debug)]
pub(crate) struct Http2Connection {
    head: [u8; HEADER_SIZE],
    have: u8,
    now: FrameHeader,
    /// Payload of the frame that has not come yet.
    left: u32,
    /// The last so many of them are padding, which the first of them says.
    pad: u32,
    awaits_pad: bool,
    /// It was told that the frame ends the stream.
    ended: bool,
    kept: Vec<u8>,
    /// The stream whose header block goes on in the next frame.
    block_of: Option<(u32, u8)>,
    settled: bool,
    received: u32,
    window: SendWindow,
    peer: PeerSettings,
    largest: u32,
}

/// How much may still be sent: on a connection, or on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendWindow(i64);

/// What the server said of itself.
#[derive(Clone, Copy, Debug)]
struct PeerSettings {
    window: u32,
    frame: u32,
    streams: u32,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A piece of a body. `end` says that the server says no more.
    Data { stream: u32, bytes: &'a [u8], end: bool },
    /// A header block; nothing if it cannot be read.
    Headers { stream: u32, fields: Option<Vec<Field>>, end: bool },
    /// The stream was given up, with this code.
    Reset { stream: u32, code: u32 },
    /// The server ends the connection after stream `last`.
    GoAway { last: u32, code: u32, text: String },
    /// More may be sent on a stream.
    Opened { stream: u32, by: u32 },
    /// More, or less, may be sent on every stream.
    Resized { by: i64 },
}

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Http2Error {
    /// The first bytes are no HTTP/2.
    #[error("the server does not speak HTTP/2 here; its answer begins with `{0}`")]
    NoHttp2(String),
    /// A frame larger than we said we take.
    #[error("the server sent a frame of {found} bytes, and at most {most} were announced")]
    TooLarge { found: u32, most: u32 },
    /// A frame that says nothing sensible.
    #[error("the server broke HTTP/2: {0}")]
    Frame(&'static str),
}

impl Http2Connection {
    /// Begins a connection; `largest` is the frame size we announce.
    pub(crate) fn open(largest: u32, out: &mut Vec<u8>) -> Self {
        let largest = largest.clamp(FRAME_SIZES.0, FRAME_SIZES.1);
        out.extend_from_slice(frame::PREFACE);
        let mut settings = Vec::new();
        for (key, value) in [
            (frame::SET_TABLE, 0),
            (frame::SET_PUSH, 0),
            (frame::SET_WINDOW, WINDOW),
            (frame::SET_FRAME, largest),
        ] {
            settings.extend_from_slice(&key.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frame::write(out, frame::SETTINGS, 0, 0, &settings);
        window_update(out, 0, WINDOW - FIRST_WINDOW);
        Self {
            head: [0; HEADER_SIZE],
            have: 0,
            now: FrameHeader::default(),
            left: 0,
            pad: 0,
            awaits_pad: false,
            ended: false,
            kept: Vec::new(),
            block_of: None,
            settled: false,
            received: 0,
            window: SendWindow(FIRST_WINDOW.into()),
            peer: PeerSettings { window: FIRST_WINDOW, frame: FRAME_SIZES.0, streams: u32::MAX },
            largest,
        }
    }

    /// The next event in `input`, which is eaten up to it; nothing if more bytes are needed.
    ///
    /// # Errors
    /// The connection is of no use any more.
    pub(crate) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Http2Error> {
        loop {
            if usize::from(self.have) < HEADER_SIZE && !self.begin(input, out)? {
                return Ok(None);
            }
            let event = if self.now.kind == frame::DATA {
                self.data(input)?
            } else if self.keep(input) {
                self.control(out)?
            } else {
                return Ok(None);
            };
            if event.is_some() || usize::from(self.have) == HEADER_SIZE && input.is_empty() {
                return Ok(event);
            }
        }
    }

    /// Whether the server has introduced itself.
    pub(crate) fn settled(&self) -> bool {
        self.settled
    }

    /// How many streams the server takes on this connection.
    pub(crate) fn streams(&self) -> u32 {
        self.peer.streams
    }

    /// What a new stream may send.
    pub(crate) fn stream_window(&self) -> SendWindow {
        SendWindow(self.peer.window.into())
    }

    /// Opens a stream.
    pub(crate) fn request(&self, stream: u32, block: &[u8], out: &mut Vec<u8>) {
        frame::write(out, frame::HEADERS, frame::END_HEADERS, stream, block);
    }

    /// How much of `wanted` bytes may be sent in one frame now.
    pub(crate) fn sendable(&self, window: SendWindow, wanted: usize) -> usize {
        let most = self.window.0.min(window.0).clamp(0, self.peer.frame.into());
        wanted.min(usize::try_from(most).unwrap_or(0))
    }

    /// Leaves place in `out` for the head of a frame and says where; [`Self::finish_data`] fills it in.
    pub(crate) fn begin_data(out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_SIZE]);
        start
    }

    /// Makes what was written after `start` one DATA frame; says no if it does not fit.
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

    /// Lets the server send more on a stream that has sent a lot.
    pub(crate) fn release(stream: u32, by: u32, out: &mut Vec<u8>) {
        window_update(out, stream, by);
    }

    /// Reads the head of a frame; says whether it is whole.
    fn begin(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, Http2Error> {
        let have = usize::from(self.have);
        let taken = split(input, HEADER_SIZE - have);
        self.head[have..have + taken.len()].copy_from_slice(taken);
        self.have += taken.len() as u8;
        if usize::from(self.have) < HEADER_SIZE {
            return Ok(false);
        }
        self.now = FrameHeader::parse(self.head);
        self.check()?;
        self.left = self.now.length;
        self.pad = 0;
        self.ended = false;
        self.awaits_pad = self.now.kind == frame::DATA && self.now.has(frame::PADDED);
        if self.now.kind == frame::DATA {
            self.release_connection(out);
        }
        Ok(true)
    }

    fn check(&self) -> Result<(), Http2Error> {
        if !self.settled && self.now.kind != frame::SETTINGS {
            return Err(Http2Error::NoHttp2(printable(&self.head)));
        }
        if self.now.length > self.largest {
            return Err(Http2Error::TooLarge { found: self.now.length, most: self.largest });
        }
        match (self.block_of, self.now.kind) {
            (Some((stream, _)), frame::CONTINUATION) if stream == self.now.stream => Ok(()),
            (None, frame::CONTINUATION) | (Some(_), _) => {
                Err(Http2Error::Frame("a header block was interrupted"))
            }
            (None, frame::PUSH_PROMISE) => Err(Http2Error::Frame("it pushes, though told not to")),
            (None, _) => Ok(()),
        }
    }

    /// Gives back what the frame will take of the connection's window, when it has become a lot.
    fn release_connection(&mut self, out: &mut Vec<u8>) {
        self.received += self.now.length;
        if self.received >= WINDOW_STEP {
            window_update(out, 0, self.received);
            self.received = 0;
        }
    }

    /// A piece of a DATA frame.
    fn data<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Http2Error> {
        if self.awaits_pad && !self.pad_came(input)? {
            return Ok(None);
        }
        if self.left > self.pad {
            let bytes = split(input, (self.left - self.pad) as usize);
            self.left -= bytes.len() as u32;
            return Ok((!bytes.is_empty()).then(|| self.piece(bytes)));
        }
        if self.now.has(frame::END_STREAM) && !self.ended {
            return Ok(Some(self.piece(&[])));
        }
        self.left -= split(input, self.left as usize).len() as u32;
        if self.left == 0 {
            self.have = 0;
        }
        Ok(None)
    }

    /// Reads how much of a padded frame is padding.
    fn pad_came(&mut self, input: &mut &[u8]) -> Result<bool, Http2Error> {
        if self.left == 0 {
            return Err(Http2Error::Frame("a padded frame without its padding"));
        }
        let [pad] = split(input, 1) else { return Ok(false) };
        self.awaits_pad = false;
        self.left -= 1;
        self.pad = u32::from(*pad);
        match self.pad > self.left {
            true => Err(Http2Error::Frame("more padding than payload")),
            false => Ok(true),
        }
    }

    fn piece<'a>(&mut self, bytes: &'a [u8]) -> Event<'a> {
        let end = self.left == self.pad && self.now.has(frame::END_STREAM);
        self.ended |= end;
        if self.left == 0 {
            self.have = 0;
        }
        Event::Data { stream: self.now.stream, bytes, end }
    }

    /// Keeps the payload of a frame that is not DATA; says whether it is whole.
    fn keep(&mut self, input: &mut &[u8]) -> bool {
        let bytes = split(input, self.left as usize);
        self.left -= bytes.len() as u32;
        self.kept.extend_from_slice(bytes);
        self.left == 0
    }

    fn control<'a>(&mut self, out: &mut Vec<u8>) -> Result<Option<Event<'a>>, Http2Error> {
        self.have = 0;
        if matches!(self.now.kind, frame::HEADERS | frame::CONTINUATION) {
            return self.block();
        }
        let payload = std::mem::take(&mut self.kept);
        let stream = self.now.stream;
        Ok(match self.now.kind {
            frame::SETTINGS if self.now.has(frame::ACK) => None,
            frame::SETTINGS => self.settings(&payload, out)?,
            frame::PING if self.now.has(frame::ACK) => None,
            frame::PING if payload.len() == 8 => {
                frame::write(out, frame::PING, frame::ACK, 0, &payload);
                None
            }
            frame::RST_STREAM => Some(Event::Reset { stream, code: number(&payload, 0)? }),
            frame::GOAWAY => Some(Event::GoAway {
                last: number(&payload, 0)? & WINDOW,
                code: number(&payload, 4)?,
                text: printable(payload.get(8..).unwrap_or_default()),
            }),
            frame::WINDOW_UPDATE => self.opened(number(&payload, 0)? & WINDOW)?,
            _ => None,
        })
    }

    fn opened<'a>(&mut self, by: u32) -> Result<Option<Event<'a>>, Http2Error> {
        if self.now.stream != 0 {
            return Ok(Some(Event::Opened { stream: self.now.stream, by }));
        }
        self.window.open(by)?;
        Ok(Some(Event::Resized { by: 0 }))
    }

    fn settings<'a>(
        &mut self,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'a>>, Http2Error> {
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
        self.settled = true;
        frame::write(out, frame::SETTINGS, frame::ACK, 0, &[]);
        Ok(Some(Event::Resized { by: i64::from(self.peer.window) - before }))
    }

    /// A header block, or a part of it.
    fn block<'a>(&mut self) -> Result<Option<Event<'a>>, Http2Error> {
        if self.kept.len() > LARGEST_BLOCK {
            return Err(Http2Error::Frame("headers beyond any use"));
        }
        if self.now.kind == frame::HEADERS {
            self.strip()?;
        }
        let (stream, flags) = self.block_of.take().unwrap_or((self.now.stream, self.now.flags));
        if !self.now.has(frame::END_HEADERS) {
            self.block_of = Some((stream, flags));
            return Ok(None);
        }
        let (block, end) = (std::mem::take(&mut self.kept), flags & frame::END_STREAM != 0);
        // Thousands of streams begin with success, and nobody asks in which words.
        let fine = !end && hpack::begins_with_success(&block);
        let fields = if fine { Some(Vec::new()) } else { hpack::decode(&block) };
        Ok(Some(Event::Headers { stream, fields, end }))
    }

    /// Takes out of a HEADERS frame what is no header block.
    fn strip(&mut self) -> Result<(), Http2Error> {
        let short = Http2Error::Frame("headers without their beginning");
        let padded = self.now.has(frame::PADDED);
        let front = usize::from(padded) + if self.now.has(frame::PRIORITY) { 5 } else { 0 };
        let pad = if padded { self.kept.first().copied().unwrap_or(0) } else { 0 };
        let end =
            self.kept.len().checked_sub(pad.into()).filter(|end| *end >= front).ok_or(short)?;
        self.kept.truncate(end);
        self.kept.drain(..front);
        Ok(())
    }
}

impl SendWindow {
    /// Takes in what the other side allows more, or less.
    ///
    /// # Errors
    /// It becomes more than there can be.
    pub(crate) fn open(&mut self, by: impl Into<i64>) -> Result<(), Http2Error> {
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

/// At most so many bytes from the front.
fn split<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}

fn number(payload: &[u8], at: usize) -> Result<u32, Http2Error> {
    let bytes = payload.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or(Http2Error::Frame("a frame that is too short"))
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(200).flat_map(char::escape_debug).collect()
}

/// After so many bytes the window is topped up; half of what there is.
pub(crate) const WINDOW_STEP: u32 = 1 << 30;

/// The headers that say why a stream ended are far smaller.
const LARGEST_BLOCK: usize = 65_536;

#[cfg(test)]
mod tests;
