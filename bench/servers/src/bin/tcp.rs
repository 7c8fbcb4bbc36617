//! The floor of the kernel: a loop that writes prebuilt bytes to one socket after the other.
//!
//! ```text
//!   change --> write to every socket --> those that are full wait for the poller --> the rest
//! ```
//!
//! It speaks just enough HTTP/2 for the driver: settings, an acknowledgement of the client's, the
//! head of the response, and DATA frames of the default size, all made before the first client
//! comes. It parses no header and knows no window. One stream per connection, the first one. Later
//! answers of clients are left in the socket. With `--drain` they are read after each loop and
//! dropped.

#[path = "tcp/client.rs"]
mod client;
#[path = "tcp/frames.rs"]
mod frames;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel, sync_channel};

use anyhow::{Context, Result};
use bytes::Bytes;
use chancery_bench_servers::control::Control;
use chancery_bench_servers::flags::ServerFlags;
use chancery_bench_servers::message::FloorMessages;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::client::FloorClient;

const LISTENER: Token = Token(0);
const COMMAND: Token = Token(1);
/// The first client has this token, the next one the next.
const CLIENTS: usize = 2;

fn main() -> Result<()> {
    let flags = ServerFlags::read()?;
    let messages = FloorMessages::new(&flags);
    let payload = messages.payload();
    let poll = Poll::new()?;
    let mut listener = TcpListener::bind(flags.listen).context("cannot listen")?;
    let xds = listener.local_addr()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let waker = Arc::new(Waker::new(poll.registry(), COMMAND)?);
    let (command, commands) = sync_channel(1);
    let (answer, answers) = channel();
    let floor = Floor {
        poll,
        listener,
        clients: Vec::new(),
        first: [frames::head(), frames::data(&messages.first)].concat().into(),
        changes: messages.changes.map(|message| frames::data(&message)),
        made: 0,
        drain: flags.drain,
    };
    std::thread::spawn(move || floor.run(&commands, &mut || answer.send(()).is_ok()));
    let control = Control::new()?;
    control.ready(xds, Some(payload))?;
    control.execute(|| {
        command.send(()).map_err(io::Error::other)?;
        waker.wake()?;
        answers.recv().map_err(io::Error::other)
    })?;
    Ok(())
}

struct Floor {
    poll: Poll,
    listener: TcpListener,
    clients: Vec<Option<FloorClient>>,
    first: Bytes,
    changes: [Bytes; 2],
    /// The number of changes so far.
    made: usize,
    drain: bool,
}

impl Floor {
    fn run(mut self, commands: &Receiver<()>, done: &mut dyn FnMut() -> bool) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    COMMAND => {
                        commands.try_recv().map_err(io::Error::other)?;
                        self.change();
                        done();
                    }
                    Token(token) => self.serve(token - CLIENTS),
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(fault) => return Err(fault),
            };
            let token = Token(CLIENTS + self.clients.len());
            self.clients.push(Some(FloorClient::new(stream, token, self.poll.registry())?));
        }
    }

    /// Writes the next change to all clients, which is the measured work.
    fn change(&mut self) {
        let message = &self.changes[self.made % 2];
        self.made += 1;
        let registry = self.poll.registry();
        for client in &mut self.clients {
            if client.as_mut().is_some_and(|client| client.send(message, registry).is_err()) {
                *client = None;
            }
        }
        if self.drain {
            self.clients.iter_mut().flatten().for_each(FloorClient::drain);
        }
    }

    fn serve(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        let outcome =
            client.as_mut().map(|present| present.ready(&self.first, self.poll.registry()));
        if outcome.is_some_and(|outcome| outcome.is_err()) {
            *client = None;
        }
    }
}
