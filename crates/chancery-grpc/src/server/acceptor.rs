//! The listening socket of a server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::notice::Notice;

/// The listening socket. It waits for a while after an error, as with too many open files: there is always
/// another connection that fails at once.
pub(super) struct Acceptor {
    listener: TcpListener,
    paused_until: Option<Instant>,
    /// The log hears now and then that there are too many connections.
    full: Notice,
}

impl Acceptor {
    pub(super) fn new(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        Ok(Self { listener, paused_until: None, full: Notice::default() })
    }

    /// Waits for a connection. Dropping the future loses none.
    pub(super) async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            if let Some(until) = self.paused_until {
                sleep_until(until).await;
                self.paused_until = None;
            }
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if is_of_peer(&error) => {}
                Err(error) => {
                    tracing::warn!("no connection can be accepted for a while: {error}");
                    self.paused_until = Some(Instant::now() + PAUSE);
                }
            }
        }
    }

    /// There are as many connections as may be. The log hears of it now and then.
    pub(super) fn is_full(&self, most: usize) {
        if self.full.is_due() {
            tracing::warn!(
                "{most} connections are open; others are closed as soon as they are made"
            );
        }
    }
}

/// Returns true if the error is about one connection, whose peer went away early.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The time for which nothing is accepted after an error.
const PAUSE: Duration = Duration::from_millis(250);
