//! A connection whose bytes are the attack's own.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::frame::{PREFACE, frame, setting};
use super::{ATTACKER, dial};

/// The time that a peer which takes nothing may hold up a write of the attack.
const STALL: Duration = Duration::from_secs(2);

/// The pause before another look at a peer that takes nothing at the moment.
const BREATH: Duration = Duration::from_millis(1);

/// A connection, and the bytes that were written to it.
pub(crate) struct Raw {
    io: TcpStream,
    pub(crate) written: u64,
}

/// The end of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Taken,
    /// The server reads no more, so the attack holds nothing of it.
    Stalled,
    Closed,
}

impl Raw {
    pub(crate) async fn dial(to: SocketAddr) -> io::Result<Self> {
        Self::dial_from(ATTACKER, to, true).await
    }

    pub(crate) async fn dial_from(from: Ipv4Addr, to: SocketAddr, reads: bool) -> io::Result<Self> {
        Ok(Self { io: dial(from, to, reads).await?, written: 0 })
    }

    /// Connects and says the preface of HTTP/2, with a window of this size for each stream.
    pub(crate) async fn http2(to: SocketAddr, window: u32) -> io::Result<Self> {
        let mut raw = Self::dial(to).await?;
        raw.write(&[PREFACE, &setting(4, window), &frame(4, 1, 0, &[])].concat()).await;
        Ok(raw)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Write {
        match timeout(STALL, self.io.write_all(bytes)).await {
            Ok(Ok(())) => {
                self.written += bytes.len() as u64;
                Write::Taken
            }
            Ok(Err(_)) => Write::Closed,
            Err(_) => Write::Stalled,
        }
    }

    /// Writes the same bytes again and again until the time is over or the server closes, and reads
    /// what comes meanwhile. Returns the number of bytes that were read.
    pub(crate) async fn repeat(&mut self, bytes: &[u8], until: Instant) -> usize {
        let (mut at, mut read) = (0, 0);
        while Instant::now() < until {
            let written = match self.io.try_write(&bytes[at..]) {
                Ok(size) => size,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => 0,
                Err(_) => break,
            };
            self.written += written as u64;
            at = (at + written) % bytes.len();
            loop {
                match self.waiting() {
                    0 => break,
                    size => read += size,
                }
            }
            match written {
                0 => sleep(BREATH).await,
                _ => yield_now().await,
            }
        }
        read
    }

    /// Reads until the server closes, or for this time at most.
    pub(crate) async fn read_to_end(&mut self, most: Duration) -> Answer {
        let mut answer = Answer { bytes: Vec::new(), closed: false };
        let read = async {
            let mut buffer = vec![0; 16 * 1024];
            loop {
                match self.io.read(&mut buffer).await {
                    Ok(0) | Err(_) => return true,
                    Ok(size) if answer.bytes.len() < MOST => {
                        answer.bytes.extend_from_slice(&buffer[..size]);
                    }
                    Ok(_) => {}
                }
            }
        };
        answer.closed = timeout(most, read).await.unwrap_or(false);
        answer
    }

    /// Reads what is there, and returns true if the server has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match self.io.try_read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(fault) => return fault.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    /// The bytes that wait to be read, without waiting for more.
    pub(crate) fn waiting(&self) -> usize {
        let mut buffer = vec![0; 16 * 1024];
        self.io.try_read(&mut buffer).unwrap_or(0)
    }
}

/// The number of bytes of an answer that are kept.
const MOST: usize = 1 << 20;

/// The answer to bytes of an attack.
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) closed: bool,
}

impl Answer {
    /// The statuses of the answers over HTTP/1.1.
    pub(crate) fn statuses(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let heads = text.split("HTTP/1.1 ").skip(1);
        heads.map(|head| head.chars().take(3).collect()).collect()
    }

    /// The error code of a GOAWAY, if there was one.
    pub(crate) fn goaway(&self) -> Option<u32> {
        let mut frames = super::frame::frames(&self.bytes).into_iter();
        let last = frames.rfind(|(kind, ..)| *kind == super::frame::GOAWAY);
        let code = last?.2.get(4..8)?;
        Some(u32::from_be_bytes(code.try_into().ok()?))
    }
}
