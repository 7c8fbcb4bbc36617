//! Whether the other end of a connection has said enough to be taken for a client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// No request of any version of HTTP is shorter.
const ENOUGH: usize = 16;

/// A connection whose bytes read are counted.
pub(crate) struct Heard<I> {
    io: I,
    bytes: Count,
}

/// How many bytes were read, up to some.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl<I> Heard<I> {
    pub(crate) fn new(io: I) -> (Self, Count) {
        let bytes = Count::default();
        (Self { io, bytes: bytes.clone() }, bytes)
    }
}

impl Count {
    pub(crate) fn enough(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= ENOUGH
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Heard<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buffer);
        if !self.bytes.enough() {
            self.bytes.0.fetch_add(buffer.filled().len() - before, Ordering::Relaxed);
        }
        polled
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Heard<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
