//! What tells a driver that streams send the same entries, so that it encodes them once.
//!
//! The core knows no encoding. It only says what is alike, and keeps a place for the bytes where
//! they live as long as what they are made of.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::{Response, ResponseEntry};
use crate::Variant;

/// That other streams send the same entries.
///
/// For equal `variant`, `wrapped` and `type_url`, what is shared has one encoding.
#[derive(Clone, Debug)]
pub enum Share {
    /// They have the same place for the encoding.
    Place(Arc<Encodings>),
    /// They have the same key.
    Key(ShareKey),
}

/// A digest of the entries of a response: equal keys, equal entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShareKey(pub u128);

/// Where drivers keep the encoding of entries that many streams send, once for each form.
#[derive(Default)]
pub struct Encodings([OnceLock<Bytes>; 3]);

impl Encodings {
    /// The encoding in the form of `response`, made by `encode` if nobody did before.
    pub fn encoding(&self, response: &Response, encode: impl FnOnce() -> Bytes) -> &Bytes {
        let [plain, wrapped, delta] = &self.0;
        let place = match response.variant {
            Variant::Sotw if response.wrapped => wrapped,
            Variant::Sotw => plain,
            Variant::Delta => delta,
        };
        place.get_or_init(encode)
    }
}

impl fmt::Debug for Encodings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encodings")
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Place(one), Self::Place(other)) => Arc::ptr_eq(one, other),
            (Self::Key(one), Self::Key(other)) => one == other,
            _ => false,
        }
    }
}

impl ShareKey {
    /// The digest of these entries.
    pub(crate) fn of(entries: &[ResponseEntry]) -> Self {
        let mut hash = Xxh3::new();
        for entry in entries {
            hash.update(entry.name.as_bytes());
            hash.update(&[0, u8::from(entry.ttl), u8::from(entry.heartbeat)]);
            for alias in &entry.aliases {
                hash.update(alias.as_bytes());
                hash.update(&[0]);
            }
            if let Some(resource) = &entry.resource {
                hash.update(&resource.content().to_le_bytes());
                resource.version().hash_into(&mut hash);
            }
        }
        Self(hash.digest128())
    }
}
