//! The signals by which an operator controls the server while it runs.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorSignal {
    /// Stop in good order; the second time, stop at once.
    Stop,
    /// Read the directory and the certificates again.
    Reload,
}

/// The signals the process listens to.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Starts to listen. From now on the signals do not end the process by themselves.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the server is told to stop. This is cancel-safe.
    pub(crate) async fn stop(&mut self) {
        while self.next().await != OperatorSignal::Stop {}
    }

    /// The next request. This is cancel-safe.
    pub(crate) async fn next(&mut self) -> OperatorSignal {
        tokio::select! {
            Some(()) = self.terminate.recv() => OperatorSignal::Stop,
            Some(()) = self.interrupt.recv() => OperatorSignal::Stop,
            Some(()) = self.hangup.recv() => OperatorSignal::Reload,
            else => std::future::pending().await,
        }
    }
}
