//! Gathers writes: the frames that HTTP writes one by one go to the socket once per poll.
//!
//! h2 writes and flushes each DATA frame by itself, which is a system call for every 16 KB and for
//! every stream. Here a write only fills a buffer, and the executor calls [`Cork::poll_uncork`] when
//! it has polled everything that was ready.
//!
//! The bytes that were accepted are written in order, or the connection fails. A socket that takes no
//! more stops the writer until everything held is written, so a peer that does not read keeps
//! [`ROOM`] bytes at most; shutting down writes the held bytes first. The buffer belongs to the thread
//! and is lent for the length of a poll: a connection keeps bytes of its own only while its socket is
//! full.
//!
//! The cork is above TLS and not below it, so that TLS records are as full as they can be.

mod data_meter;

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::activity::ConnectionActivity;
use data_meter::DataMeter;

/// The number of bytes that are gathered before they are written. They stay in the nearest cache of
/// the processor; a larger buffer was measured to be slower.
const ROOM: usize = 32 * 1024;

/// The number of bytes that are read in one poll of the task, after which they are charged, and others run.
const READ_AT_ONCE: usize = 128 * 1024;

thread_local! {
    /// The buffer for the connection that is polled on this thread.
    static SPARE_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The times at which a socket moved bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketTimes {
    /// The time of the last read that brought bytes.
    pub(crate) last_read: Instant,
    /// The time since which the socket has taken nothing although bytes wait for it.
    pub(crate) full_since: Option<Instant>,
}

/// A socket whose writes are gathered. HTTP has one handle of it and the executor another one.
pub(crate) struct Cork<I>(Arc<Mutex<CorkState<I>>>);

struct CorkState<I> {
    io: I,
    /// The bytes that were read and that HTTP has not: those of its beginning, or frames that are more
    /// than one poll of the task takes.
    first: io::Cursor<Vec<u8>>,
    /// The time of the last read that brought bytes.
    last_read: Instant,
    /// Counts the bytes of request bodies over HTTP/2.
    data: Option<DataMeter>,
    /// The number of bytes that were read in this poll of the task.
    read: usize,
    held: Vec<u8>,
    /// The number of held bytes that are written already.
    written: usize,
    /// True while the socket takes no more.
    full: bool,
    /// The time since which the socket has taken nothing, while it is full.
    full_since: Option<Instant>,
    /// True while written bytes may be in a buffer of TLS.
    unflushed: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Cork<I> {
    /// Gathers what is written to `io`, of which `first` was read already.
    pub(crate) fn new(io: I, first: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(CorkState {
            io,
            first: io::Cursor::new(first),
            last_read: Instant::now(),
            data: None,
            read: 0,
            held: Vec::new(),
            written: 0,
            full: false,
            full_since: None,
            unflushed: false,
        })))
    }

    /// Writes the held bytes. Call it after each poll of the writer, with the writer's waker.
    pub(crate) fn poll_uncork(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        state.read = 0;
        state.data.iter_mut().for_each(DataMeter::make_room);
        state.poll_uncork(cx)
    }

    /// Returns true if nothing more is read before the next call of [`poll_uncork`](Self::poll_uncork).
    pub(crate) fn is_sated(&self) -> bool {
        self.lock().is_sated()
    }

    /// The number of bytes that are held, and that were read and are not taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let state = self.lock();
        state.held.len() + state.first.get_ref().len()
    }

    /// Counts the bytes of request bodies from now on, which is before the first read.
    pub(crate) fn count_data(&self, activity: &Arc<ConnectionActivity>) {
        self.lock().data = Some(DataMeter::new(Arc::clone(activity)));
    }

    /// The times at which the socket moved bytes.
    pub(crate) fn socket_times(&self) -> SocketTimes {
        let state = self.lock();
        SocketTimes { last_read: state.last_read, full_since: state.full_since }
    }

    /// A panic with the lock held can only come from the socket, which is of no use then.
    fn lock(&self) -> MutexGuard<'_, CorkState<I>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<I> Clone for Cork<I> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> CorkState<I> {
    fn poll_gather(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.full || self.held.len() >= ROOM {
            ready!(self.poll_uncork(cx))?;
        }
        if self.held.capacity() == 0 {
            self.held = buffer();
        }
        let taken = bytes.len().min(ROOM - self.held.len());
        self.held.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_uncork(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.full = true;
        while self.written < self.held.len() {
            let rest = &self.held[self.written..];
            let Poll::Ready(written) = Pin::new(&mut self.io).poll_write(cx, rest) else {
                self.full_since.get_or_insert_with(Instant::now);
                self.shrink_to_rest();
                return Poll::Pending;
            };
            match written? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
            self.full_since = None;
            self.unflushed = true;
        }
        self.return_buffer();
        if self.unflushed {
            if Pin::new(&mut self.io).poll_flush(cx)?.is_pending() {
                self.full_since.get_or_insert_with(Instant::now);
                return Poll::Pending;
            }
            self.full_since = None;
            self.unflushed = false;
        }
        self.full = false;
        Poll::Ready(Ok(()))
    }

    /// Moves the unwritten bytes to a smaller buffer if they fill less than half of this one: a peer
    /// that does not read keeps no more memory than there are bytes for it.
    fn shrink_to_rest(&mut self) {
        let rest = &self.held[self.written..];
        if rest.len() <= self.held.capacity() / 2 {
            let rest = rest.to_vec();
            self.return_buffer();
            self.held = rest;
        }
    }

    /// Reads what was read before HTTP began to read, and then from the socket.
    fn poll_first_or_socket(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.get_ref().is_empty() {
            let before = buffer.filled().len();
            let read = Pin::new(&mut self.io).poll_read(cx, buffer);
            if buffer.filled().len() > before {
                self.last_read = Instant::now();
            }
            return read;
        }
        ready!(Pin::new(&mut self.first).poll_read(cx, buffer))?;
        if self.first.position() >= self.first.get_ref().len() as u64 {
            self.first = io::Cursor::default();
        }
        Poll::Ready(Ok(()))
    }

    /// Returns true if nothing more is read in this poll of the task.
    fn is_sated(&self) -> bool {
        self.read >= READ_AT_ONCE || self.data.as_ref().is_some_and(DataMeter::is_full)
    }

    /// Counts the bytes that were read into `buffer` after the first `before`. Further frames than HTTP
    /// takes now are kept.
    fn count(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        let new = &buffer.filled()[before..];
        let for_now = self.data.as_mut().map_or(new.len(), |data| data.count(new));
        self.read += for_now;
        if for_now < new.len() {
            let position = usize::try_from(self.first.position()).unwrap_or(usize::MAX);
            let behind = self.first.get_ref().get(position..).unwrap_or_default();
            self.first = io::Cursor::new([&new[for_now..], behind].concat());
            buffer.set_filled(before + for_now);
        }
    }

    fn return_buffer(&mut self) {
        self.written = 0;
        let mut buffer = std::mem::take(&mut self.held);
        if buffer.capacity() >= ROOM {
            buffer.clear();
            SPARE_BUFFER.set(buffer);
        }
    }
}

fn buffer() -> Vec<u8> {
    let spare = SPARE_BUFFER.take();
    if spare.capacity() == 0 { Vec::with_capacity(ROOM) } else { spare }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncRead for Cork<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (mut corked, before) = (self.lock(), buffer.filled().len());
        if corked.is_sated() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = corked.poll_first_or_socket(cx, buffer);
        corked.count(buffer, before);
        read
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Cork<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_gather(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut corked = self.lock();
        let mut taken = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let some = match corked.poll_gather(cx, slice) {
                Poll::Ready(Ok(some)) => some,
                // The next write finds an error or a full socket again.
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

    /// Held bytes count as flushed while the socket takes bytes: the executor writes them.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut corked = self.lock();
        if corked.full { corked.poll_uncork(cx) } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut corked = self.lock();
        ready!(corked.poll_uncork(cx))?;
        Pin::new(&mut corked.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
