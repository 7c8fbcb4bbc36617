//! Whether clients should come.

use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicU8, Ordering};

/// Shared by the one who changes it and those who tell it.
#[derive(Debug, Default)]
pub(crate) struct Readiness(AtomicU8);

/// The life of the server, as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadinessState {
    /// The directory has not been read once.
    Loading,
    /// It is served.
    Ready,
    /// The server is about to stop.
    Draining,
}

impl Readiness {
    /// Where in its life the server is.
    pub(crate) fn state(&self) -> ReadinessState {
        match self.0.load(Ordering::Acquire) {
            0 => ReadinessState::Loading,
            1 => ReadinessState::Ready,
            _ => ReadinessState::Draining,
        }
    }

    /// Moves on; there is no way back.
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
