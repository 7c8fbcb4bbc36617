//! Polls that were answered with the same response again and again.
//!
//! A poll is no session, so this is only a memory of the last responses: bounded, and lost without
//! harm. It holds hashes, not names.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use chancery_core::{SotwRequest, TypeUrl};

use crate::budget::PeerKey;
use crate::policy::Peer;

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
    /// Counts a response. Returns how many times it was given in a row, if that is too often. A client
    /// is known by its peer as well as by its node, so that nobody's polls count as another's; without
    /// a node, it is its connection.
    pub(crate) fn count(
        &self,
        (key, peer): (&PeerKey, &Peer),
        type_url: &TypeUrl,
        request: &SotwRequest,
        served: &str,
    ) -> Option<u32> {
        let node = request.node.as_ref().filter(|node| !node.id.is_empty());
        let node = node.map(|node| (&node.id, &node.cluster)).ok_or(peer.address);
        let client = self.hasher.hash_one((key, node, type_url, &request.names));
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
    use std::sync::Arc;

    use chancery_core::Node;

    use super::*;

    const CDS: &str = "envoy.config.cluster.v3.Cluster";

    fn peer(port: u16) -> Peer {
        let address = Some(([127, 0, 0, 1], port).into());
        Peer { address, tls: false, certificates: Vec::new() }
    }

    fn count(
        repeats: &RepeatedPolls,
        host: u8,
        port: u16,
        request: &SotwRequest,
        served: &str,
    ) -> Option<u32> {
        let key = PeerKey::Address([127, 0, 0, host].into());
        repeats.count((&key, &peer(port)), &TypeUrl::new(CDS), request, served)
    }

    #[test]
    fn only_the_same_answer_in_a_row_counts() {
        // S-022
        let repeats = RepeatedPolls::default();
        let still = |version: &str| SotwRequest { version: version.into(), ..Default::default() };
        for _ in 0..FREE_REPEATS {
            assert_eq!(count(&repeats, 1, 1, &still("w"), "x"), None);
        }
        assert_eq!(count(&repeats, 1, 1, &still("w"), "x"), Some(FREE_REPEATS + 1));
        assert_eq!(count(&repeats, 1, 1, &still("w"), "y"), None);
        assert_eq!(count(&repeats, 1, 1, &still("y"), "z"), None);
    }

    #[test]
    fn polls_of_others_do_not_count() {
        let repeats = RepeatedPolls::default();
        let node = Node { id: "n".into(), ..Node::default() };
        let named = SotwRequest { node: Some(Arc::new(node)), ..Default::default() };
        let nameless = SotwRequest::default();
        for _ in 0..=FREE_REPEATS {
            count(&repeats, 1, 1, &named, "x");
            count(&repeats, 1, 1, &nameless, "x");
        }
        assert_eq!(count(&repeats, 2, 1, &named, "x"), None, "a stranger stated the same node");
        assert_eq!(count(&repeats, 1, 2, &nameless, "x"), None, "without a node");
        let again = Some(FREE_REPEATS + 2);
        assert_eq!(count(&repeats, 1, 2, &named, "x"), again, "on another connection");
    }

    #[test]
    fn the_memory_is_bounded() {
        let repeats = RepeatedPolls::default();
        for name in 0..REMEMBERED + 10 {
            let names = [name.to_string()].iter().collect();
            count(&repeats, 1, 1, &SotwRequest { names, ..Default::default() }, "x");
        }
        assert_eq!(repeats.state.lock().unwrap().responses.len(), REMEMBERED);
    }
}
