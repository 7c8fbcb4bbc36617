//! Writes gathered: what HTTP writes frame by frame goes to the socket once per poll.
//!
//! h2 writes and flushes each DATA frame by itself, which is a system call for every 16 KB and for
//! every stream. Here a write only fills a buffer, and the connection's task calls
//! [`Cork::poll_push`] when it has polled all there was to poll.
//!
//! What was taken is written, in order, or the connection fails: a socket that takes no more stops
//! the writer until everything held is gone (so a peer that does not read holds [`ROOM`] bytes at
//! most), and shutting down writes what is held first. The buffer belongs to the thread and is
//! there for the length of a poll; a connection keeps bytes of its own only while its socket is
//! full.
//!
//! Above TLS, not below: records are then as full as can be.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// How many bytes are gathered before they are written: as many as stay in the nearest cache. More
/// was measured to be slower, not faster.
const ROOM: usize = 32 * 1024;

thread_local! {
    /// The buffer of whoever is polled on this thread.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A connection whose writes are gathered. One half is with HTTP, the other with the task.
pub(crate) struct Cork<I>(Arc<Mutex<Corked<I>>>);

struct Corked<I> {
    io: I,
    /// What was read before HTTP was there to read it.
    first: io::Cursor<Vec<u8>>,
    /// When the peer was heard last.
    heard: Instant,
    held: Vec<u8>,
    /// How many of the bytes held are written.
    written: usize,
    /// Whether the socket takes no more at present.
    full: bool,
    /// Whether what was written may be in a buffer of TLS.
    unflushed: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Cork<I> {
    /// Gathers what is written to `io`, of which `first` was read already.
    pub(crate) fn new(io: I, first: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Corked {
            io,
            first: io::Cursor::new(first),
            heard: Instant::now(),
            held: Vec::new(),
            written: 0,
            full: false,
            unflushed: false,
        })))
    }

    /// Writes what is held. To be called after each poll of what writes, with the same waker.
    pub(crate) fn poll_push(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.lock().poll_push(cx)
    }

    /// When the peer was heard last.
    pub(crate) fn heard(&self) -> Instant {
        self.lock().heard
    }

    /// Nothing panics with the lock held but what is broken already.
    fn lock(&self) -> MutexGuard<'_, Corked<I>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I> Clone for Cork<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> Corked<I> {
    fn poll_take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.full || self.held.len() >= ROOM {
            ready!(self.poll_push(cx))?;
        }
        if self.held.capacity() == 0 {
            self.held = buffer();
        }
        let taken = bytes.len().min(ROOM - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.full = true;
        while self.written < self.held.len() {
            let rest = &self.held[self.written..];
            let Poll::Ready(written) = Pin::new(&mut self.io).poll_write(cx, rest) else {
                self.keep_the_rest();
                return Poll::Pending;
            };
            match written? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
            self.unflushed = true;
        }
        self.give_back();
        if self.unflushed {
            ready!(Pin::new(&mut self.io).poll_flush(cx))?;
            self.unflushed = false;
        }
        self.full = false;
        Poll::Ready(Ok(()))
    }

    /// A peer that does not read keeps no more memory than there are bytes for it.
    fn keep_the_rest(&mut self) {
        let rest = &self.held[self.written..];
        if rest.len() <= self.held.capacity() / 2 {
            let rest = rest.to_vec();
            self.give_back();
            self.held = rest;
        }
    }

    fn give_back(&mut self) {
        self.written = 0;
        let mut buffer = std::mem::take(&mut self.held);
        if buffer.capacity() >= ROOM {
            buffer.clear();
            SPARE.set(buffer);
        }
    }
}

fn buffer() -> Vec<u8> {
    let spare = SPARE.take();
    if spare.capacity() == 0 { Vec::with_capacity(ROOM) } else { spare }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for Cork<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut corked = self.lock();
        if corked.first.get_ref().is_empty() {
            let before = buffer.filled().len();
            let read = Pin::new(&mut corked.io).poll_read(cx, buffer);
            if buffer.filled().len() > before {
                corked.heard = Instant::now();
            }
            return read;
        }
        ready!(Pin::new(&mut corked.first).poll_read(cx, buffer))?;
        if corked.first.position() >= corked.first.get_ref().len() as u64 {
            corked.first = io::Cursor::default();
        }
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Cork<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_take(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut corked = self.lock();
        let mut taken = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let some = match corked.poll_take(cx, slice) {
                Poll::Ready(Ok(some)) => some,
                // An error is found again by the next write, a full socket too.
                _ if taken > 0 => break,
                none => return none,
            };
            taken += some;
            if some < slice.len() {
                break;
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// What is held is as good as flushed, as long as the socket takes it: the task pushes it.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut corked = self.lock();
        if corked.full { corked.poll_push(cx) } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut corked = self.lock();
        ready!(corked.poll_push(cx))?;
        Pin::new(&mut corked.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
