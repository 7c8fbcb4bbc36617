//! The last moment of a connection that was drained.
//!
//! A socket that is closed with bytes in it that nobody has read resets the connection, and the client may lose what
//! the server said last: up to which call it has answered. So the server reads on until the client closes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A socket that goes back to its owner when it is dropped.
pub(super) struct Lent<T> {
    /// `None` only once it is dropped.
    inner: Option<T>,
    owner: Option<oneshot::Sender<T>>,
}

/// The owner of a socket that is lent.
pub(super) struct Owner<T>(oneshot::Receiver<T>);

impl<T> Lent<T> {
    pub(super) fn new(inner: T) -> (Self, Owner<T>) {
        let (owner, returned) = oneshot::channel();
        (Self { inner: Some(inner), owner: Some(owner) }, Owner(returned))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Owner<T> {
    /// Reads on a socket that was dropped until the client closes it, or the time is over.
    pub(super) async fn linger(mut self) {
        let Ok(mut socket) = self.0.try_recv() else { return };
        let reading = async {
            socket.shutdown().await?;
            let mut buffer = [0; 1024];
            while socket.read(&mut buffer).await? > 0 {}
            io::Result::Ok(())
        };
        // Whatever goes wrong, the connection is over.
        let _ = timeout(LONGEST, reading).await;
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let (Some(inner), Some(owner)) = (self.inner.take(), self.owner.take()) {
            // An owner that has gone does not want it.
            let _ = owner.send(inner);
        }
    }
}

impl<T: Unpin> Lent<T> {
    fn inner(&mut self) -> io::Result<Pin<&mut T>> {
        self.inner.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Lent<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner()?.poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Lent<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner()?.poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner()?.poll_shutdown(cx)
    }
}

/// The time that a client has to close a connection, as with gRPC for Go.
const LONGEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_drained_connection_is_read_until_the_client_closes() {
        let (socket, mut client) = duplex(16);
        let (lent, owner) = Lent::new(socket);
        drop(lent);
        let lingering = tokio::spawn(owner.linger());
        // More than the socket holds.
        client.write_all(&[0; 64]).await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the server has nothing more to say");
        drop(client);
        lingering.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_close_is_not_waited_for() {
        let (socket, client) = duplex(16);
        let (lent, owner) = Lent::new(socket);
        drop(lent);
        let began = Instant::now();
        owner.linger().await;
        assert_eq!(began.elapsed(), LONGEST);
        drop(client);
    }
}
