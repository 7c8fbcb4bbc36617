//! A socket that tells what the peer says of the connection itself: that it has begun as HTTP/2 does, with its
//! settings, which say how many calls it takes, and that it is to end (`GOAWAY`). A peer that stays silent, or speaks
//! something else, does not count as connected. Clients send the preface of HTTP/2 before them. Not here: what the
//! frames say (`h2`).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A socket with somebody who waits for its first frame, and somebody who waits for the last.
pub(crate) struct Greeting<T> {
    inner: T,
    heads: Heads,
    /// Told when the first frame is one of settings; `None` after the first frame.
    begins: Option<oneshot::Sender<()>>,
    /// Told when the peer has said that the connection is to end, and that has been read.
    leaves: Option<oneshot::Sender<()>>,
    is_leaving: bool,
}

/// The news of a [`Greeting`]. News that will not come any more come as an error.
pub(crate) struct Told {
    /// The settings have come.
    pub(crate) begun: oneshot::Receiver<()>,
    /// The peer takes no more calls on the connection.
    pub(crate) leaving: oneshot::Receiver<()>,
}

/// The heads of the frames in bytes that come in pieces.
#[derive(Default)]
struct Heads {
    head: [u8; HEAD],
    /// The bytes of it that have come.
    filled: usize,
    /// The bytes of the frame after it that are still to come.
    left: usize,
}

/// The bytes of the head of a frame.
const HEAD: usize = 9;
/// The bytes of the preface of a client.
const PREFACE: usize = 24;
/// The types of frames.
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

impl Heads {
    /// Takes bytes that have come, and tells of each frame that begins: its type, and whether it is one of the
    /// connection, which is the stream 0.
    fn take(&mut self, mut bytes: &[u8], mut tell: impl FnMut(u8, bool)) {
        loop {
            let passed = self.left.min(bytes.len());
            (self.left, bytes) = (self.left - passed, &bytes[passed..]);
            let taken = (HEAD - self.filled).min(bytes.len());
            if taken == 0 {
                return;
            }
            self.head[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            (self.filled, bytes) = (self.filled + taken, &bytes[taken..]);
            if self.filled < HEAD {
                return;
            }
            let [high, middle, low, kind, _, stream @ ..] = self.head;
            self.left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            self.filled = 0;
            tell(kind, stream == [0; 4]);
        }
    }
}

impl<T> Greeting<T> {
    /// Returns the socket of a server, and what is told of it.
    pub(super) fn new(inner: T) -> (Self, Told) {
        Self::after(0, inner)
    }

    /// Returns the socket of a client, and what is told of it.
    pub(crate) fn of_client(inner: T) -> (Self, Told) {
        Self::after(PREFACE, inner)
    }

    /// The bytes of the preface are passed like those of a frame.
    fn after(preface: usize, inner: T) -> (Self, Told) {
        let (begins, begun) = oneshot::channel();
        let (leaves, leaving) = oneshot::channel();
        let greeting = Self {
            inner,
            heads: Heads { left: preface, ..Heads::default() },
            begins: Some(begins),
            leaves: Some(leaves),
            is_leaving: false,
        };
        (greeting, Told { begun, leaving })
    }

    /// Looks at bytes that have come.
    fn look(&mut self, bytes: &[u8]) {
        let Self { heads, begins, is_leaving, .. } = self;
        heads.take(bytes, |kind, is_of_connection| match (begins.take(), kind) {
            (Some(begins), SETTINGS) if is_of_connection => {
                // Nobody waits any more if the time was over.
                let _ = begins.send(());
            }
            (None, GOAWAY) if is_of_connection => *is_leaving = true,
            _ => {}
        });
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Greeting<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The bytes that were read before have been heard, because more is asked for.
        if self.is_leaving {
            // Nobody waits any more if the connection has ended.
            let _ = self.leaves.take().map(|leaves| leaves.send(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.look(&buffer.filled()[before..]);
        match read {
            // Servers of C++ end TLS without its last words. HTTP/2 knows by itself where its frames and streams
            // end, and an error here would hide the reason that the peer has given with `GOAWAY`.
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Poll::Ready(Ok(()))
            }
            read => read,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Greeting<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Returns true if a peer that sends these bytes has begun as it should. They come one by one.
    async fn has_begun(of_client: bool, bytes: &[u8]) -> bool {
        let socket = socket(bytes);
        let (mut greeting, mut told) =
            if of_client { Greeting::of_client(socket) } else { Greeting::new(socket) };
        let mut byte = [0];
        while greeting.read(&mut byte).await.expect("a byte or the end") > 0 {}
        told.begun.try_recv().is_ok()
    }

    fn socket(bytes: &[u8]) -> tokio::io::Join<&[u8], tokio::io::Sink> {
        tokio::io::join(bytes, tokio::io::sink())
    }

    #[tokio::test]
    async fn a_peer_begins_with_its_settings() {
        // C-113, C-140
        let settings = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
        let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat();
        assert!(has_begun(false, &settings).await);
        assert!(!has_begun(false, &settings[..8]).await);
        assert!(!has_begun(false, b"HTTP/1.1 400 Bad Request").await);
        assert!(has_begun(true, &preface).await);
        assert!(!has_begun(true, &preface[..32]).await);
        assert!(!has_begun(true, &settings).await);
        assert!(!has_begun(true, b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await);
    }

    /// A socket of TLS that was cut off.
    struct CutOff;

    impl AsyncRead for CutOff {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()))
        }
    }

    #[tokio::test]
    async fn tls_that_ends_without_its_last_words_has_ended() {
        let (mut socket, _told) = Greeting::new(CutOff);
        assert_eq!(socket.read_to_end(&mut Vec::new()).await.expect("an end"), 0);
    }

    /// A frame of this type and length.
    fn frame(kind: u8, stream: u8, length: usize) -> Vec<u8> {
        let [.., middle, low] = length.to_be_bytes();
        let head = [0, middle, low, kind, 0, 0, 0, 0, stream];
        // The content of a frame looks like the head of another.
        head.into_iter()
            .chain([0, 0, 0, GOAWAY, 0, 0, 0, 0, 0].into_iter().cycle().take(length))
            .collect()
    }

    #[test]
    fn frames_are_told_apart_however_they_come() {
        let frames = [(4, 0, 0), (0, 1, 300), (7, 0, 8), (0, 1, 1), (1, 3, 9)];
        let bytes = frames.map(|(kind, stream, length)| frame(kind, stream, length)).concat();
        let expected = frames.map(|(kind, stream, _)| (kind, stream == 0));
        for size in 1..=bytes.len() {
            let (mut heads, mut told) = (Heads::default(), Vec::new());
            for piece in bytes.chunks(size) {
                heads.take(piece, |kind, is_of_connection| told.push((kind, is_of_connection)));
            }
            assert_eq!(told, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn settings_are_what_a_peer_begins_with() {
        let begun = |bytes: &[u8]| {
            let (mut greeting, mut told) = Greeting::new(());
            greeting.look(bytes);
            told.begun.try_recv().is_ok()
        };
        assert!(begun(&frame(SETTINGS, 0, 6)));
        assert!(!begun(&frame(SETTINGS, 0, 6)[..8]));
        assert!(!begun(&frame(SETTINGS, 1, 6)));
        assert!(!begun(&[frame(0, 0, 0), frame(SETTINGS, 0, 0)].concat()));
        assert!(!begun(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    }
}
