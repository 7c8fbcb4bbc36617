//! Polls that were answered with the same response again and again.
//!
//! A poll is no session, so this is only a memory of the last responses: bounded, and lost without
//! harm. It holds hashes, not names.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use chancery_core::{SotwRequest, TypeUrl};

/// The number of clients and types that are remembered.
const REMEMBERED: usize = 16 * 1024;
/// The number of times that the same response is given without delay: responses get lost, and people try things.
const FREE_REPEATS: u32 = 3;

/// The last responses.
#[derive(Default)]
pub(crate) struct RepeatedPolls {
    hasher: RandomState,
    state: Mutex<PollMemory>,
}

#[derive(Default)]
struct PollMemory {
    responses: HashMap<u64, LastResponse>,
    oldest_first: VecDeque<u64>,
}

/// The response that a client was sent last, and how many times in a row.
struct LastResponse {
    /// A hash of the version that was served and the version that the client said it has.
    versions: u64,
    times: u32,
}

impl RepeatedPolls {
    /// Counts a response. Returns how many times it was given in a row, if that is too often.
    pub(crate) fn count(
        &self,
        type_url: &TypeUrl,
        request: &SotwRequest,
        served: &str,
    ) -> Option<u32> {
        let node = request.node.as_ref().map(|node| (&node.id, &node.cluster));
        let client = self.hasher.hash_one((node, type_url, &request.names));
        let versions = self.hasher.hash_one((served, &request.version));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let times = state.count(client, versions);
        (times > FREE_REPEATS).then_some(times)
    }
}

impl PollMemory {
    fn count(&mut self, client: u64, versions: u64) -> u32 {
        if let Some(answered) = self.responses.get_mut(&client) {
            let same = answered.versions == versions;
            answered.times = if same { answered.times.saturating_add(1) } else { 1 };
            answered.versions = versions;
            return answered.times;
        }
        if self.oldest_first.len() >= REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.responses.remove(&oldest);
        }
        self.oldest_first.push_back(client);
        self.responses.insert(client, LastResponse { versions, times: 1 });
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_answer_in_a_row_counts() {
        // S-022
        let repeats = RepeatedPolls::default();
        let cds = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        let still = |version: &str| SotwRequest { version: version.into(), ..Default::default() };
        for _ in 0..FREE_REPEATS {
            assert_eq!(repeats.count(&cds, &still("w"), "x"), None);
        }
        assert_eq!(repeats.count(&cds, &still("w"), "x"), Some(FREE_REPEATS + 1));
        assert_eq!(repeats.count(&cds, &still("w"), "y"), None);
        assert_eq!(repeats.count(&cds, &still("y"), "z"), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let repeats = RepeatedPolls::default();
        let cds = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        for name in 0..REMEMBERED + 10 {
            let names = [name.to_string()].iter().collect();
            repeats.count(&cds, &SotwRequest { names, ..Default::default() }, "x");
        }
        assert_eq!(repeats.state.lock().unwrap().responses.len(), REMEMBERED);
    }
}
