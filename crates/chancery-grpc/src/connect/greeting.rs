//! A socket that tells when the peer has begun as a server of HTTP/2 does: with its settings, which say how
//! many calls it takes. One that stays silent, or speaks something else, does not count as connected.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A socket with somebody who waits for its first byte.
pub(super) struct Greeting<T> {
    inner: T,
    /// The first bytes that have come, as long as they are not a whole head of a frame.
    head: Vec<u8>,
    waits: Option<oneshot::Sender<()>>,
}

/// The bytes of the head of a frame.
const HEAD: usize = 9;
/// The type of a frame with settings.
const SETTINGS: u8 = 4;

impl<T> Greeting<T> {
    /// Returns the socket, and what is told when the settings come.
    pub(super) fn new(inner: T) -> (Self, oneshot::Receiver<()>) {
        let (waits, told) = oneshot::channel();
        (Self { inner, head: Vec::new(), waits: Some(waits) }, told)
    }

    /// Looks at bytes that have come, until the head of the first frame is whole.
    fn look(&mut self, bytes: &[u8]) {
        if self.waits.is_none() {
            return;
        }
        let missing = HEAD.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        if self.head.len() < HEAD {
            return;
        }
        let Some(waits) = self.waits.take() else { return };
        // Settings are a frame of the connection: its stream is 0.
        if matches!(self.head[..], [_, _, _, SETTINGS, _, 0, 0, 0, 0]) {
            // Nobody waits any more if the time was over.
            let _ = waits.send(());
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Greeting<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        self.look(&buffer.filled()[before..]);
        read
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
