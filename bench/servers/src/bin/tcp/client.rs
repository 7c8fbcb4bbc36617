//! One client of the floor, which is greeted and then written to.

use std::io::{self, ErrorKind, Read, Write};

use bytes::{Buf, Bytes};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::frames::{self, OpeningProgress};

/// The bound on the bytes before the first answer: more than a client sends.
const MAX_GREETING: usize = 1 << 20;

pub(crate) struct FloorClient {
    stream: TcpStream,
    token: Token,
    /// The bytes up to the first request.
    inbox: Vec<u8>,
    progress: OpeningProgress,
    /// The bytes that did not fit into the socket.
    rest: Bytes,
    /// True if the poller watches for room.
    waits: bool,
}

impl FloorClient {
    pub(crate) fn new(stream: TcpStream, token: Token, registry: &Registry) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (inbox, progress, rest) = (Vec::new(), OpeningProgress::Nothing, Bytes::new());
        let mut client = Self { stream, token, inbox, progress, rest, waits: false };
        registry.register(&mut client.stream, token, Interest::READABLE)?;
        Ok(client)
    }

    /// Reads or writes after the poller has reported the socket.
    pub(crate) fn ready(&mut self, first: &Bytes, registry: &Registry) -> io::Result<()> {
        if self.progress == OpeningProgress::Request {
            return self.write(registry);
        }
        self.read()?;
        let progress = frames::progress(&self.inbox);
        if progress != OpeningProgress::Nothing && self.progress == OpeningProgress::Nothing {
            self.stream.write_all(&frames::greeting())?;
        }
        self.progress = progress;
        if progress == OpeningProgress::Request {
            self.inbox = Vec::new();
            registry.deregister(&mut self.stream)?;
            self.send(first, registry)?;
        }
        Ok(())
    }

    /// Sends a message, unless one before it is still being written: that one is newer than what
    /// the client has, and so it stays at that.
    pub(crate) fn send(&mut self, message: &Bytes, registry: &Registry) -> io::Result<()> {
        if self.progress != OpeningProgress::Request || !self.rest.is_empty() {
            return Ok(());
        }
        match self.stream.write(message) {
            Ok(written) if written == message.len() => return Ok(()),
            Ok(written) => self.rest = message.slice(written..),
            Err(fault) if fault.kind() == ErrorKind::WouldBlock => self.rest = message.clone(),
            Err(fault) => return Err(fault),
        }
        self.write(registry)
    }

    fn write(&mut self, registry: &Registry) -> io::Result<()> {
        while self.rest.has_remaining() {
            match self.stream.write(&self.rest) {
                Ok(written) => self.rest.advance(written),
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => return self.wait(registry),
                Err(fault) => return Err(fault),
            }
        }
        self.rest = Bytes::new();
        if self.waits {
            self.waits = false;
            registry.deregister(&mut self.stream)?;
        }
        Ok(())
    }

    fn wait(&mut self, registry: &Registry) -> io::Result<()> {
        if !self.waits {
            self.waits = true;
            registry.register(&mut self.stream, self.token, Interest::WRITABLE)?;
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) if self.inbox.len() > MAX_GREETING => {
                    return Err(ErrorKind::InvalidData.into());
                }
                Ok(read) => self.inbox.extend_from_slice(&buffer[..read]),
                Err(fault) if fault.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Reads what there is and forgets it. Errors show when it is written to next.
    pub(crate) fn drain(&mut self) {
        let mut buffer = [0; 16_384];
        while matches!(self.stream.read(&mut buffer), Ok(1..)) {}
    }
}
