//! One connection's task: reads into the thread's buffer, feeds the session, writes what it says.
//!
//! A connection owns no read buffer, and a write buffer only while the server does not read.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::xds::Session;

/// What a task needs of a socket.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// A socket and what is said over it.
pub(crate) struct Connection<I> {
    io: I,
    session: Session,
    unsent: Vec<u8>,
    /// At most so many bytes are read at once.
    bite: usize,
    /// Bytes read since the pace was last looked at.
    eaten: usize,
}

impl<I: Socket> Connection<I> {
    pub(crate) fn new(io: I, session: Session, unsent: Vec<u8>) -> Self {
        Self { io, session, unsent, bite: usize::MAX, eaten: 0 }
    }

    /// Reads until the server has introduced itself.
    ///
    /// # Errors
    /// It does not, in words.
    pub(crate) async fn introduce(&mut self) -> Result<(), String> {
        self.run(|session, _| session.settings_received()).await
    }

    /// Lets the session say something now.
    pub(crate) fn say<T>(&mut self, say: impl FnOnce(&mut Session, &mut Vec<u8>) -> T) -> T {
        say(&mut self.session, &mut self.unsent)
    }

    /// Reads and answers until `done`, which sees what was read since it last asked.
    ///
    /// # Errors
    /// The connection is of no use any more, in words.
    pub(crate) async fn run(
        &mut self,
        mut done: impl FnMut(&Session, usize) -> bool,
    ) -> Result<(), String> {
        poll_fn(|cx| {
            loop {
                let wrote = self.flush(cx)?;
                if done(&self.session, self.eaten) {
                    return Poll::Ready(Ok(()));
                }
                // A server that does not read is not read from either, or answers would pile up.
                if wrote.is_pending() && self.unsent.len() > PILE {
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
    /// The connection is of no use any more, in words.
    pub(crate) async fn run_slowly(&mut self, bytes_per_second: u32) -> Result<(), String> {
        self.bite = (bytes_per_second as usize / 10).max(1);
        loop {
            self.run(|_, eaten| eaten > 0).await?;
            let pause = std::mem::take(&mut self.eaten) as f64 / f64::from(bytes_per_second);
            tokio::time::sleep(Duration::from_secs_f64(pause)).await;
        }
    }

    /// Says why all streams are lost.
    pub(crate) fn close(&mut self, why: &str) {
        self.session.close(why);
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        SPACE.with(|space| {
            let Space { input, output } = &mut *space.borrow_mut();
            let most = self.bite.min(input.len());
            let mut buffer = ReadBuf::new(&mut input[..most]);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut buffer)).map_err(|e| told(&e))?;
            let read = buffer.filled();
            if read.is_empty() {
                return Poll::Ready(Err(CLOSED.to_owned()));
            }
            self.eaten = self.eaten.saturating_add(read.len());
            output.clear();
            let fed = self.session.feed(read, output);
            self.write(cx, output).map_err(|e| told(&e))?;
            Poll::Ready(fed.map_err(|broken| broken.to_string()))
        })
    }

    /// Writes at once as much as the socket takes, and keeps the rest.
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

    /// Writes what was kept and what waits behind it. Ready when nothing is left.
    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        while !self.unsent.is_empty() || self.session.has_unsent() {
            let mut sent = 0;
            while sent < self.unsent.len() {
                match Pin::new(&mut self.io).poll_write(cx, &self.unsent[sent..]) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(CLOSED.to_owned())),
                    Poll::Ready(Ok(wrote)) => sent += wrote,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(told(&error))),
                    Poll::Pending => {
                        self.unsent.drain(..sent);
                        return Poll::Pending;
                    }
                }
            }
            self.unsent = Vec::new();
            self.session.pump(&mut self.unsent);
            if self.unsent.is_empty() {
                break; // what is left waits for the server to open its window
            }
        }
        Pin::new(&mut self.io).poll_flush(cx).map_err(|error| told(&error))
    }
}

/// The buffers of a thread, used by one connection at a time and never across an await.
struct Space {
    input: Vec<u8>,
    output: Vec<u8>,
}

thread_local! {
    static SPACE: RefCell<Space> =
        RefCell::new(Space { input: vec![0; INPUT], output: Vec::new() });
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => format!("the connection failed: {error}"),
    }
}

const CLOSED: &str = "the server closed the connection";

const INPUT: usize = 262_144;

const PILE: usize = 1 << 20;
