//! The estimate of the bytes that a stream keeps on behalf of its peer.
//!
//! A driver shares its memory among peers, so it has to know how much of it each stream takes. The
//! machine does not ask its allocator. It knows how many names and keys it keeps and how long their
//! texts are, and adds what a shared text and an entry of a B-tree cost besides (a test compares the
//! sum with what the process takes). Resources and their texts are the operator's and do not count. A
//! text of the client counts as long as something keeps it, also after its name is unsubscribed; where
//! nobody knows whether another has it too, it counts twice.

/// The cost of a shared text besides its bytes: two reference counts, and the allocator's share.
const TEXT: usize = 28;

/// The number of entries that a B-tree of few entries has room for.
pub(crate) const NODE: usize = 11;

/// The number of bytes of a shared text.
pub(crate) fn text(length: usize) -> usize {
    length + TEXT
}

/// The number of bytes of the entries of a B-tree whose key and value have that size together. Its
/// nodes are between half full and full.
pub(crate) fn tree(entries: usize, entry: usize) -> usize {
    entries * (entry + entry / 2 + 2)
}
