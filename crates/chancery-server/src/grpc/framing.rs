//! gRPC messages in the bytes of HTTP/2 bodies.
//!
//! [`chancery_proto::frames`] finds messages in chunks. Here bodies are read, and responses become
//! chunks.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use chancery_core::server::{Response, Segment};
use chancery_proto::{frames, wire};
use http_body::Body;
use tonic::Status;

use super::parts::Parts;
use super::status;

/// The size of a frame's header: a flag and a length.
const HEADER: usize = 5;

/// The messages in the body of a request.
pub(crate) struct RequestMessages<B> {
    body: B,
    found: frames::Messages,
}

/// The next thing that a client does on its half of the stream.
pub(crate) enum NextMessage {
    /// It sends a message.
    Message(Bytes),
    /// It ends its half.
    End,
    /// It is gone.
    Gone,
}

impl<B: Body<Data = Bytes> + Unpin> RequestMessages<B> {
    /// Reads `body`, and refuses messages above `limit` bytes.
    pub(crate) fn new(body: B, limit: usize) -> Self {
        Self { body, found: frames::Messages::new(limit) }
    }

    /// The number of bytes that have arrived and are in no message yet.
    pub(crate) fn held_bytes(&self) -> usize {
        self.found.held_bytes()
    }

    /// Returns true if a part of a message has arrived, and not the rest.
    pub(crate) fn is_within(&self) -> bool {
        !self.found.is_between()
    }

    /// The next message.
    ///
    /// # Errors
    /// When the client breaks the framing or the limit, or compresses.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<NextMessage, Status>> {
        loop {
            if let Some(message) = self.found.next().map_err(status::of_frame_error)? {
                return Poll::Ready(Ok(NextMessage::Message(message)));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.found.push(frame.into_data().unwrap_or_default()),
                Some(Err(_)) => return Poll::Ready(Ok(NextMessage::Gone)),
                None if self.found.is_between() => return Poll::Ready(Ok(NextMessage::End)),
                None => return Poll::Ready(Err(status::cut_short())),
            }
        }
    }
}

/// A message in its frame, of a stream that is no discovery stream.
pub(crate) fn frame_message(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    // Whoever makes one has a bound that is far below.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Adds the frame of a response, whose other fields are `own`. Returns the size of the message.
pub(crate) fn frame_response(response: &Response, own: &[u8], out: &mut Frames) -> usize {
    // Most responses are one small resource, for which a list would cost more than the copy.
    if let [Segment::Resource(_)] = response.entries.segments()
        && let Some(part) = wire::encode_entries(response).next()
        && part.len() + own.len() <= COPIED
    {
        let size = part.len();
        return copy([part], size, own, out);
    }
    frame(Parts::of(response), own, out)
}

/// Adds the frame of a message in parts, which protobuf lets stand in any order. Returns the size of
/// the message.
///
/// A small message is copied, because a list of its parts would cost more. Of a larger one the shared
/// parts are kept as references until the connection takes them. The part that is the stream's own
/// comes last: the connection takes it only when it has sent nearly all that is before it, so a poll
/// for more shows that the client took the large parts.
fn frame((shared, size): (Parts, usize), own: &[u8], out: &mut Frames) -> usize {
    if size + own.len() <= COPIED {
        return copy(shared.iter(), size, own, out);
    }
    out.open.reserve(HEADER);
    let size = out.begin(size + own.len());
    out.close();
    out.parts.append(shared);
    out.open.extend_from_slice(own);
    size
}

/// Adds the frame of a small message.
fn copy(
    shared: impl IntoIterator<Item = Bytes>,
    size: usize,
    own: &[u8],
    out: &mut Frames,
) -> usize {
    out.open.reserve(HEADER + size + own.len());
    let size = out.begin(size + own.len());
    shared.into_iter().for_each(|part| out.open.extend_from_slice(&part));
    out.open.extend_from_slice(own);
    size
}

/// The size in bytes up to which a part is copied into a chunk with its neighbours.
const COPIED: usize = 8 * 1024;
/// The size in bytes of a chunk that is gathered from small parts.
const GATHERED: usize = 32 * 1024;

/// Frames that wait to be sent.
///
/// They are kept in parts, most of which are shared with other streams, and a chunk is made when it
/// is taken. So a client that does not read keeps references and one chunk.
#[derive(Default)]
pub(crate) struct Frames {
    parts: Parts,
    open: BytesMut,
    bytes: usize,
}

impl Frames {
    /// The next chunk: one large part, or small parts that lie together.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let first = self.pop_part()?;
        if self.parts.is_empty() && self.open.is_empty() {
            self.bytes = 0;
            return Some(first);
        }
        let next = self.parts.first().map_or(self.open.len(), |part| part.len());
        let chunk = if first.len() <= COPIED && (1..=COPIED).contains(&next) {
            self.gather(&first)
        } else {
            first
        };
        self.bytes = self.bytes.saturating_sub(chunk.len());
        Some(chunk)
    }

    /// Begins the frame of a message of this size, in the open part.
    fn begin(&mut self, size: usize) -> usize {
        self.open.put_u8(0);
        // A message of 4 GiB cannot be sent at all; clients refuse anything near it.
        self.open.put_u32(u32::try_from(size).unwrap_or(u32::MAX));
        self.bytes += HEADER + size;
        size
    }

    /// The number of bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The number of bytes of memory that are kept for this stream alone, with the next chunk.
    pub(crate) fn held_bytes(&self) -> usize {
        if self.parts.is_empty() {
            return self.open.capacity();
        }
        self.open.capacity() + self.parts.held_bytes() + self.copied_next()
    }

    /// The number of bytes that are copied into the next chunk.
    fn copied_next(&self) -> usize {
        let mut copied = 0;
        for part in self.parts.iter().take_while(|part| part.len() <= COPIED) {
            copied += part.len();
            if copied >= GATHERED {
                return GATHERED;
            }
        }
        copied
    }

    /// A chunk of this part and the small ones that follow it.
    fn gather(&mut self, first: &Bytes) -> Bytes {
        let mut chunk = BytesMut::with_capacity(self.bytes.min(GATHERED));
        chunk.extend_from_slice(first);
        while let Some(part) = self.parts.first()
            && part.len() <= COPIED
            && chunk.len() + part.len() <= GATHERED
        {
            chunk.extend_from_slice(&part);
            self.pop_part();
        }
        if self.parts.is_empty() && chunk.len() + self.open.len() <= GATHERED {
            chunk.extend_from_slice(&self.open);
            self.open = BytesMut::new();
        }
        chunk.freeze()
    }

    fn pop_part(&mut self) -> Option<Bytes> {
        self.parts.pop().or_else(|| self.take_open())
    }

    /// Adds the frames of others behind these.
    pub(crate) fn append(&mut self, others: Self) {
        self.close();
        self.parts.append(others.parts);
        self.open = others.open;
        self.bytes += others.bytes;
    }

    /// Ends the open part.
    fn close(&mut self) {
        if let Some(closed) = self.take_open() {
            self.parts.push(closed);
        }
    }

    fn take_open(&mut self) -> Option<Bytes> {
        (!self.open.is_empty()).then(|| std::mem::take(&mut self.open).freeze())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use http_body::Frame;

    use super::*;

    fn parts(all: impl IntoIterator<Item = Bytes>) -> (Parts, usize) {
        let (mut parts, mut size) = (Parts::default(), 0);
        for part in all {
            size += part.len();
            parts.push(part);
        }
        (parts, size)
    }

    /// A body of prepared chunks.
    struct Chunks(VecDeque<Bytes>);

    impl Body for Chunks {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
        }
    }

    fn read(chunks: Vec<Vec<u8>>, limit: usize) -> Result<Vec<Bytes>, Status> {
        let chunks = Chunks(chunks.into_iter().map(Bytes::from).collect());
        let mut messages = RequestMessages::new(chunks, limit);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut all = Vec::new();
        loop {
            match messages.poll_next(&mut cx) {
                Poll::Ready(Ok(NextMessage::Message(message))) => all.push(message),
                Poll::Ready(Ok(_)) => return Ok(all),
                Poll::Ready(Err(status)) => return Err(status),
                Poll::Pending => panic!("the chunks never wait"),
            }
        }
    }

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        let mut out = Frames::default();
        for message in messages {
            frame(parts([]), message, &mut out);
        }
        let mut all = Vec::new();
        while let Some(chunk) = out.pop() {
            all.extend_from_slice(&chunk);
        }
        assert_eq!(out.len(), 0);
        all
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let bytes = framed(&[b"one", b"", b"three"]);
        for size in 1..=bytes.len() {
            let chunks = bytes.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(read(chunks, 5).unwrap(), [&b"one"[..], b"", b"three"], "{size}");
        }
    }

    #[test]
    fn a_request_at_the_limit_is_read_and_one_past_it_is_refused() {
        // S-110
        let bytes = framed(&[&[7; 100]]);
        assert_eq!(read(vec![bytes.clone()], 100).unwrap().len(), 1);
        let status = read(vec![bytes], 99).unwrap_err();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    }

    #[test]
    fn a_request_that_is_cut_short_is_an_error() {
        let status = read(vec![b"\0\0\0\0\x02x".to_vec()], 100).unwrap_err();
        assert_eq!(status.code(), tonic::Code::Internal);
    }

    #[test]
    fn compression_is_refused_by_name() {
        let status = read(vec![b"\x01\0\0\0\x01x".to_vec()], 100).unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unimplemented);
    }

    #[test]
    fn frames_are_put_together_in_order() {
        let large = Bytes::from(vec![1; COPIED + 1]);
        let (mut all, mut others) = (Frames::default(), Frames::default());
        frame(parts([]), b"a", &mut all);
        frame(parts([large.clone()]), b"b", &mut others);
        all.append(others);
        frame(parts([]), b"c", &mut all);
        let chunks: Vec<_> = std::iter::from_fn(|| all.pop()).collect();
        let expected = [&framed(&[b"a"])[..], &[0, 0, 0, 32, 2], &large, b"b", &framed(&[b"c"])];
        assert_eq!(chunks.concat(), expected.concat());
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn large_shared_bytes_are_not_copied_and_small_frames_lie_together() {
        let large = Bytes::from(vec![1; COPIED + 1]);
        let mut out = Frames::default();
        frame(parts([Bytes::from_static(b"s")]), b"a", &mut out);
        frame(parts([large.clone()]), b"b", &mut out);
        frame(parts([Bytes::from_static(b"s")]), b"c", &mut out);
        assert_eq!(out.len(), 7 + 6 + large.len() + 7);
        assert_eq!(out.pop().unwrap().len(), 7 + 5);
        let shared = out.pop().unwrap();
        assert_eq!(shared.as_ptr(), large.as_ptr());
        assert_eq!(&out.pop().unwrap()[..], b"b\0\0\0\0\x02sc");
        assert!(out.pop().is_none());
    }

    #[test]
    fn a_response_of_many_small_shared_parts_is_kept_as_references() {
        let shared: Vec<Bytes> = (0..5_000_u32).map(|it| vec![it as u8; 2_000].into()).collect();
        let mut out = Frames::default();
        let size = frame(parts(shared.clone()), b"own", &mut out);
        assert_eq!(size, 5_000 * 2_000 + 3);
        assert!(out.held_bytes() < size / 20, "{} bytes are held", out.held_bytes());
        let mut all = Vec::new();
        while let Some(chunk) = out.pop() {
            assert!(chunk.len() <= GATHERED, "a chunk of {} bytes", chunk.len());
            all.extend_from_slice(&chunk);
        }
        let message: Vec<u8> = shared.iter().flatten().chain(b"own").copied().collect();
        assert!(all[HEADER..] == message);
        assert_eq!((out.len(), out.held_bytes()), (0, 0));
    }

    #[test]
    fn the_parts_that_are_of_this_stream_alone_count_in_full() {
        let mut out = Frames::default();
        frame(parts([Bytes::from(vec![1; 100_000])]), b"", &mut out);
        assert!(out.held_bytes() > 100_000);
        while out.pop().is_some() {}
        assert_eq!(out.held_bytes(), 0);
    }
}
