//! The endpoints of `pick_first` as values, for those who ask. Not here: the states themselves.

use std::sync::Arc;

use super::{Attempt, Phase, PickFirst};
use crate::balancing::connectivity::{Connectivity, SubchannelState};
use crate::balancing::description::DescribedEndpoint;

impl PickFirst {
    /// Describes each endpoint, in the order in which they are tried. One with several addresses that are
    /// tried one after another is described once, by the address that is connected or else the first.
    pub(in crate::balancing) fn describe(&self) -> Vec<DescribedEndpoint> {
        let mut described = Vec::<DescribedEndpoint>::new();
        for (place, attempt) in self.attempts.iter().enumerate() {
            let is_selected = self.phase == Phase::Ready { place };
            let last = described.last();
            let is_known = last.is_some_and(|it| Arc::ptr_eq(&it.endpoint, &attempt.endpoint));
            if is_known && !is_selected {
                continue;
            }
            if is_known {
                described.pop();
            }
            described.push(self.describe_attempt(attempt, is_selected));
        }
        described
    }

    fn describe_attempt(&self, attempt: &Attempt, is_selected: bool) -> DescribedEndpoint {
        let is_ejected = is_selected && self.is_ejected();
        let has_another = matches!(self.phase, Phase::Ready { .. }) && !is_selected;
        let (state, error) = match &attempt.state {
            _ if is_ejected => (Connectivity::TransientFailure, Some(self.error())),
            _ if is_selected => (Connectivity::Ready, None),
            // Its connection was given up, and its error with it.
            _ if has_another && attempt.has_failed => (Connectivity::Idle, Some(GIVEN_UP.into())),
            SubchannelState::Failed(error) => {
                (Connectivity::TransientFailure, Some(Arc::clone(error)))
            }
            _ if attempt.has_failed => (Connectivity::TransientFailure, Some(self.error())),
            SubchannelState::Connecting => (Connectivity::Connecting, None),
            SubchannelState::Idle | SubchannelState::Ready => (Connectivity::Idle, None),
        };
        DescribedEndpoint {
            id: None,
            endpoint: Arc::clone(&attempt.endpoint),
            state,
            connected: is_selected.then_some(attempt.address),
            is_ejected,
            error,
        }
    }
}

const GIVEN_UP: &str = "it had failed when another one was connected";
