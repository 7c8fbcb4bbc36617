//! Encodings that streams in the same state share.
//!
//! What a response is made of is equal for all streams that go from one version of a type to
//! another. The first of them encodes it; the others wait for that and take the same bytes. For
//! streams that want everything the machines say where the bytes are kept, and they go when the
//! version does. Here are those of streams that happen to have asked for the same: the oldest make
//! room for new ones; whoever still sends them keeps them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use chancery_core::server::{Response, Share, ShareKey};
use chancery_core::{TypeUrl, Variant};
use chancery_proto::wire::encode_entries;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    type_url: TypeUrl,
    variant: Variant,
    wrapped: bool,
    share: ShareKey,
}

/// A bounded set of encodings.
pub(crate) struct EncodeCache {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    encodings: HashMap<Key, Encoding>,
    oldest_first: VecDeque<Key>,
    bytes: usize,
}

struct Encoding {
    bytes: Arc<OnceLock<Bytes>>,
    /// What it counts for: the size of the bodies, which is known before they are encoded.
    weight: usize,
}

impl EncodeCache {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// The encoded entries of `response`.
    pub(crate) fn entries(&self, response: &Response) -> Bytes {
        let encode = || encode_entries(response);
        match &response.share {
            Some(Share::Place(encodings)) => encodings.encoding(response, encode).clone(),
            Some(Share::Key(key)) => self.slot(response, key).get_or_init(encode).clone(),
            None => encode(),
        }
    }

    /// Where the encoding is or will be. The lock is not held while it is made.
    fn slot(&self, response: &Response, share: &ShareKey) -> Arc<OnceLock<Bytes>> {
        let key = Key {
            type_url: response.type_url.clone(),
            variant: response.variant,
            wrapped: response.wrapped,
            share: *share,
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = state.encodings.get(&key) {
            return Arc::clone(&known.bytes);
        }
        let encoding = Encoding { bytes: Arc::default(), weight: weight(response) };
        let bytes = Arc::clone(&encoding.bytes);
        if encoding.weight <= self.limit {
            state.insert(key, encoding);
            state.shrink(self.limit);
        }
        bytes
    }
}

impl State {
    fn insert(&mut self, key: Key, encoding: Encoding) {
        self.bytes += encoding.weight;
        self.oldest_first.push_back(key.clone());
        self.encodings.insert(key, encoding);
    }

    fn shrink(&mut self, limit: usize) {
        while self.bytes > limit {
            let Some(key) = self.oldest_first.pop_front() else { return };
            if let Some(encoding) = self.encodings.remove(&key) {
                self.bytes -= encoding.weight;
            }
        }
    }
}

/// About the size of the encoding, with what the cache itself needs.
fn weight(response: &Response) -> usize {
    const AROUND_AN_ENTRY: usize = 256;
    let bodies = response.entries.iter().map(|entry| {
        let body = entry.resource.as_ref().map_or(0, |resource| resource.body().len());
        body + entry.name.len() + AROUND_AN_ENTRY
    });
    AROUND_AN_ENTRY + bodies.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use chancery_core::Resource;
    use chancery_core::server::ResponseEntry;

    use super::*;

    fn response(to: u128, share: bool) -> Response {
        let resource = Arc::new(Resource::new("a".parse().unwrap(), vec![0; 1000].into()));
        Response {
            variant: Variant::Sotw,
            type_url: TypeUrl::new("envoy.config.cluster.v3.Cluster"),
            version: "1".into(),
            nonce: "1".into(),
            entries: Arc::new([ResponseEntry {
                name: "a".into(),
                aliases: Vec::new(),
                resource: Some(resource),
                ttl: false,
                heartbeat: false,
            }]),
            removed: Vec::new(),
            errors: Vec::new(),
            wrapped: false,
            share: share.then_some(Share::Key(ShareKey(to))),
        }
    }

    #[test]
    fn streams_in_the_same_state_send_the_same_bytes() {
        // S-111
        let cache = EncodeCache::new(1 << 20);
        let [one, two] = [cache.entries(&response(1, true)), cache.entries(&response(1, true))];
        assert_eq!(one.as_ptr(), two.as_ptr());
        assert_ne!(one.as_ptr(), cache.entries(&response(2, true)).as_ptr());
        let wrapped = Response { wrapped: true, ..response(1, true) };
        assert_ne!(one, cache.entries(&wrapped));
    }

    #[test]
    fn what_is_not_shared_is_not_kept() {
        let cache = EncodeCache::new(1 << 20);
        let [one, two] = [cache.entries(&response(1, false)), cache.entries(&response(1, false))];
        assert_eq!(one, two);
        assert_ne!(one.as_ptr(), two.as_ptr());
        assert_eq!(cache.state.lock().unwrap().bytes, 0);
    }

    #[test]
    fn the_oldest_make_room_at_the_limit() {
        let each = weight(&response(1, true));
        let cache = EncodeCache::new(2 * each);
        let first = cache.entries(&response(1, true));
        let second = cache.entries(&response(2, true));
        assert_eq!(first.as_ptr(), cache.entries(&response(1, true)).as_ptr(), "at the limit");
        cache.entries(&response(3, true));
        assert_eq!(second.as_ptr(), cache.entries(&response(2, true)).as_ptr());
        assert_ne!(first.as_ptr(), cache.entries(&response(1, true)).as_ptr(), "one past it");
    }
}
