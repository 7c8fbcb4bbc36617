//! The readiness of the server, for `/ready`: loading, ready, or stopping.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicU8, Ordering};

/// The state of readiness, shared by the code that changes it and the code that shows it.
#[derive(Debug, Default)]
pub(crate) struct Readiness(AtomicU8);

/// A phase in the life of the server, as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadinessState {
    /// The directory was not read yet.
    Loading,
    /// The server serves the directory.
    Ready,
    /// The server is about to stop.
    Draining,
}

impl Readiness {
    /// The phase the server is in.
    pub(crate) fn state(&self) -> ReadinessState {
        match self.0.load(Ordering::Acquire) {
            0 => ReadinessState::Loading,
            1 => ReadinessState::Ready,
            _ => ReadinessState::Draining,
        }
    }

    /// Moves on to `state`, unless a later state was reached already.
    pub(crate) fn advance(&self, state: ReadinessState) {
        self.0.fetch_max(state as u8, Ordering::AcqRel);
    }
}

impl Display for ReadinessState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loading => "not ready: the first load is not complete",
            Self::Ready => "ready",
            Self::Draining => "not ready: the server is stopping",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_stops_never_becomes_ready_again() {
        let readiness = Readiness::default();
        assert_eq!(readiness.state(), ReadinessState::Loading);
        readiness.advance(ReadinessState::Ready);
        assert_eq!(readiness.state(), ReadinessState::Ready);
        readiness.advance(ReadinessState::Draining);
        readiness.advance(ReadinessState::Ready);
        assert_eq!(readiness.state(), ReadinessState::Draining);
    }
}
