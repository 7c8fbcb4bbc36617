//! The state of a server as its program is told of it (C-141).

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServingState {
    /// Connections are taken.
    Serving,
    /// Connections are closed as soon as they are made, for this reason.
    NotServing(Arc<str>),
}

/// The function of a program that is told of states.
pub(super) type OnState = Box<dyn FnMut(SocketAddr, &ServingState) + Send>;

/// The last state, and who is told of the next.
pub(super) struct States {
    told: OnState,
    last: Option<ServingState>,
}

impl States {
    /// Tells this function, or else the log.
    pub(super) fn new(told: Option<OnState>) -> Self {
        Self { told: told.unwrap_or_else(|| Box::new(log)), last: None }
    }

    /// Tells of a state, unless it is the one that was told last.
    pub(super) fn set(&mut self, address: SocketAddr, state: ServingState) {
        if self.last.as_ref() != Some(&state) {
            (self.told)(address, &state);
            self.last = Some(state);
        }
    }
}

fn log(address: SocketAddr, state: &ServingState) {
    match state {
        ServingState::Serving => tracing::info!(%address, "serving"),
        ServingState::NotServing(reason) => tracing::warn!(%address, "not serving: {reason}"),
    }
}

impl fmt::Display for ServingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serving => f.write_str("serving"),
            Self::NotServing(reason) => write!(f, "not serving: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_state_is_told_once_until_another_one_comes() {
        // C-141
        let told = Arc::<Mutex<Vec<String>>>::default();
        let list = Arc::clone(&told);
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut states = States::new(Some(Box::new(move |of, state| {
            assert_eq!(of, address);
            list.lock().unwrap().push(state.to_string());
        })));
        let because = |why: &str| ServingState::NotServing(why.into());
        for state in [
            because("a"),
            because("a"),
            because("b"),
            ServingState::Serving,
            ServingState::Serving,
            because("b"),
        ] {
            states.set(address, state);
        }
        let expected = ["not serving: a", "not serving: b", "serving", "not serving: b"];
        assert_eq!(*told.lock().unwrap(), expected);
    }
}
