//! A socket that tells when the peer has begun as HTTP/2 does: with its settings, which say how many calls it
//! takes. One that stays silent, or speaks something else, does not count as connected. Clients send the
//! preface of HTTP/2 before them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// A socket with somebody who waits for its first byte.
pub(crate) struct Greeting<T> {
    inner: T,
    /// The number of bytes before the head of the first frame.
    skipped: usize,
    /// The first bytes that have come, until the head of the first frame is whole.
    head: Vec<u8>,
    waits: Option<oneshot::Sender<()>>,
}

/// The bytes of the head of a frame.
const HEAD: usize = 9;
/// The bytes of the preface of a client.
const PREFACE: usize = 24;
/// The type of a frame with settings.
const SETTINGS: u8 = 4;

impl<T> Greeting<T> {
    /// Returns the socket of a server, and what is told when its settings come.
    pub(super) fn new(inner: T) -> (Self, oneshot::Receiver<()>) {
        Self::after(0, inner)
    }

    /// Returns the socket of a client, and what is told when its settings come.
    pub(crate) fn of_client(inner: T) -> (Self, oneshot::Receiver<()>) {
        Self::after(PREFACE, inner)
    }

    fn after(skipped: usize, inner: T) -> (Self, oneshot::Receiver<()>) {
        let (waits, told) = oneshot::channel();
        (Self { inner, skipped, head: Vec::new(), waits: Some(waits) }, told)
    }

    /// Looks at bytes that have come, until the head of the first frame is whole.
    fn look(&mut self, bytes: &[u8]) {
        if self.waits.is_none() {
            return;
        }
        let missing = (self.skipped + HEAD).saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..missing.min(bytes.len())]);
        let Some(head) = self.head.get(self.skipped..self.skipped + HEAD) else { return };
        // Settings are a frame of the connection: its stream is 0.
        let is_settings = matches!(head, [_, _, _, SETTINGS, _, 0, 0, 0, 0]);
        let Some(waits) = self.waits.take() else { return };
        if is_settings {
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
        told.try_recv().is_ok()
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
}
