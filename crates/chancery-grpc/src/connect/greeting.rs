//! A socket that tells when the peer has first said something. The first that a server says is how many
//! calls it takes, so one that accepts connections and stays silent does not count as connected.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A socket with somebody who waits for its first byte.
pub(super) struct Greeting<T> {
    inner: T,
    waits: Option<oneshot::Sender<()>>,
}

impl<T> Greeting<T> {
    /// Returns the socket, and what is told of its first byte.
    pub(super) fn new(inner: T) -> (Self, oneshot::Receiver<()>) {
        let (waits, told) = oneshot::channel();
        (Self { inner, waits: Some(waits) }, told)
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
        if buffer.filled().len() > before
            && let Some(waits) = self.waits.take()
        {
            // Nobody waits any more if the time was over.
            let _ = waits.send(());
        }
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
