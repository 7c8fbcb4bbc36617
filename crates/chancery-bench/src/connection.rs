//! A socket and the session on it: reads into the thread's buffer, feeds the session, and writes
//! what the session has to send.
//!
//! A connection owns no read buffer, and owns a write buffer only while the server does not read.
//! Not here: frames ([`crate::http2`]) and what is said in them ([`crate::xds`], [`crate::load`]).

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::http2::Http2Error;

/// A stream of bytes in both directions: TCP, TLS or a Unix socket.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// The client's side of one connection, without I/O: bytes in, bytes out.
pub(crate) trait Session {
    /// Returns true if the settings of the server were received.
    fn settings_received(&self) -> bool;

    /// Reads bytes of the server; the answers are appended to `out`.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Http2Error>;

    /// Writes more of the bytes that wait for a window or for room in the buffer.
    fn pump(&mut self, out: &mut Vec<u8>);

    /// Returns true if bytes wait for a window or for room in the buffer.
    fn has_unsent(&self) -> bool;

    /// Reports all streams as lost that have not ended.
    fn close(&mut self, why: &str);
}

/// A socket and the session on it.
pub(crate) struct Connection<I, S> {
    io: I,
    session: S,
    unsent: Vec<u8>,
    /// The most bytes that are read at once.
    max_read: usize,
    /// The number of bytes read since the last pause of a slow reader.
    bytes_read: usize,
}

impl<I: Socket, S: Session> Connection<I, S> {
    pub(crate) fn new(io: I, session: S, unsent: Vec<u8>) -> Self {
        Self { io, session, unsent, max_read: usize::MAX, bytes_read: 0 }
    }

    /// Reads until the server has sent its settings, which are the first frame of a connection.
    ///
    /// # Errors
    /// It does not send them, in words.
    pub(crate) async fn wait_for_settings(&mut self) -> Result<(), String> {
        self.run(|session, _| session.settings_received()).await
    }

    /// Calls `send` with the session and the buffer for what it sends.
    pub(crate) fn with_session<T>(&mut self, send: impl FnOnce(&mut S, &mut Vec<u8>) -> T) -> T {
        send(&mut self.session, &mut self.unsent)
    }

    /// Reads and answers until `done`, which is called with the number of bytes read.
    ///
    /// # Errors
    /// The connection has failed, in words.
    pub(crate) async fn run(
        &mut self,
        mut done: impl FnMut(&S, usize) -> bool,
    ) -> Result<(), String> {
        poll_fn(|cx| {
            loop {
                let wrote = self.flush(cx)?;
                if done(&self.session, self.bytes_read) {
                    return Poll::Ready(Ok(()));
                }
                // Nothing is read from a server that does not read: the answers would pile up.
                if wrote.is_pending() && self.unsent.len() > MAX_UNSENT {
                    return Poll::Pending;
                }
                ready!(self.read(cx))?;
            }
        })
        .await
    }

    /// Reads no faster than this.
    ///
    /// # Errors
    /// The connection has failed, in words.
    pub(crate) async fn run_slowly(&mut self, bytes_per_second: u32) -> Result<(), String> {
        self.max_read = (bytes_per_second as usize / 10).max(1);
        loop {
            self.run(|_, bytes_read| bytes_read > 0).await?;
            let pause = std::mem::take(&mut self.bytes_read) as f64 / f64::from(bytes_per_second);
            tokio::time::sleep(Duration::from_secs_f64(pause)).await;
        }
    }

    /// Reports all streams as lost, with the reason.
    pub(crate) fn close(&mut self, why: &str) {
        self.session.close(why);
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        BUFFERS.with(|buffers| {
            let Buffers { input, output } = &mut *buffers.borrow_mut();
            let most = self.max_read.min(input.len());
            let mut buffer = ReadBuf::new(&mut input[..most]);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)).map_err(|e| describe(&e))?;
            let read = buffer.filled();
            if read.is_empty() {
                return Poll::Ready(Err(CLOSED.to_owned()));
            }
            self.bytes_read = self.bytes_read.saturating_add(read.len());
            output.clear();
            let fed = self.session.feed(read, output);
            self.write(cx, output).map_err(|e| describe(&e))?;
            Poll::Ready(fed.map_err(|broken| broken.to_string()))
        })
    }

    /// Writes as much as the socket takes at once, and keeps the rest.
    fn write(&mut self, cx: &mut Context<'_>, mut bytes: &[u8]) -> io::Result<()> {
        while self.unsent.is_empty() && !bytes.is_empty() {
            match Pin::new(&mut self.io).poll_write(cx, bytes)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(wrote) => bytes = &bytes[wrote..],
                Poll::Pending => break,
            }
        }
        self.unsent.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the bytes that were kept, and then those that wait in the session. Ready when nothing
    /// is left.
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        while !self.unsent.is_empty() || self.session.has_unsent() {
            let mut sent = 0;
            while sent < self.unsent.len() {
                match Pin::new(&mut self.io).poll_write(cx, &self.unsent[sent..]) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(CLOSED.to_owned())),
                    Poll::Ready(Ok(wrote)) => sent += wrote,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(describe(&error))),
                    Poll::Pending => {
                        self.unsent.drain(..sent);
                        return Poll::Pending;
                    }
                }
            }
            self.unsent = Vec::new();
            self.session.pump(&mut self.unsent);
            if self.unsent.is_empty() {
                break; // The rest waits for the server to enlarge a window.
            }
        }
        Pin::new(&mut self.io).poll_flush(cx).map_err(|error| describe(&error))
    }
}

/// The buffers of a thread, used by one connection at a time and never across an await.
struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> =
        RefCell::new(Buffers { input: vec![0; READ_BUFFER], output: Vec::new() });
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => format!("the connection failed: {error}"),
    }
}

const CLOSED: &str = "the server closed the connection";

const READ_BUFFER: usize = 262_144;

/// The number of unsent bytes beyond which nothing is read.
const MAX_UNSENT: usize = 1 << 20;
