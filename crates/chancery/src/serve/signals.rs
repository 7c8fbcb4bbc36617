//! What the operator says while the server runs.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// One thing an operator can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorSignal {
    /// Stop, in good order; a second time, at once.
    Stop,
    /// Read everything again.
    Reload,
}

/// The signals the process listens to.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// From now on the signals do not end the process by themselves.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next thing that is said. Cancel-safe.
    pub(crate) async fn next(&mut self) -> OperatorSignal {
        tokio::select! {
            Some(()) = self.terminate.recv() => OperatorSignal::Stop,
            Some(()) = self.interrupt.recv() => OperatorSignal::Stop,
            Some(()) = self.hangup.recv() => OperatorSignal::Reload,
            else => std::future::pending().await,
        }
    }
}
