//! The memory that a node takes while it is read, compared with the limit of the server.
//!
//! A map of one entry has five bytes in JSON or six in protobuf, and more than six hundred in
//! memory. So the parts of a node that can be so small are counted before they are kept: while JSON
//! is read, and before protobuf is decoded. Not here: the bytes of its text (`request_size`), and the
//! count of a node that is kept (`chancery_core::Node::held_bytes`), which this one resembles.

use chancery_core::Value;
use chancery_core::server::RequestLimits;

use crate::request_size::RequestTooLarge;

/// The memory that a node takes as far as it was read.
#[derive(Debug)]
pub(crate) struct NodeMemory {
    found: usize,
    limit: usize,
}

impl NodeMemory {
    /// Nothing yet.
    pub(crate) fn new(limits: &RequestLimits) -> Self {
        Self { found: 0, limit: limits.max_node_memory() }
    }

    /// Returns true if a node of so many bytes as protobuf cannot exceed the limit.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        bytes.saturating_mul(MOST_GROWTH) <= self.limit - self.found.min(self.limit)
    }

    /// Adds a text.
    pub(crate) fn add_text(&mut self, length: usize) -> Result<(), RequestTooLarge> {
        self.add(if length == 0 { 0 } else { length + PIECE })
    }

    /// Adds a value to a list that has `others`.
    pub(crate) fn add_element(&mut self, others: usize) -> Result<(), RequestTooLarge> {
        self.add(size_of::<Value>() + if others == 0 { PIECE } else { 0 })
    }

    /// Adds a key and a value to a map that has `others`.
    pub(crate) fn add_entry(&mut self, others: usize) -> Result<(), RequestTooLarge> {
        self.add(if others.is_multiple_of(MAP_NODE) { MAP_NODE_BYTES } else { 0 })
    }

    /// The error, if the limit is exceeded.
    pub(crate) fn check(&self) -> Result<(), RequestTooLarge> {
        let limit = self.limit;
        if self.found > limit { Err(RequestTooLarge::NodeMemory { limit }) } else { Ok(()) }
    }

    fn add(&mut self, bytes: usize) -> Result<(), RequestTooLarge> {
        self.found = self.found.saturating_add(bytes);
        self.check()
    }
}

/// The entries for which a node of a B-tree has room.
const MAP_NODE: usize = 11;

/// The bytes of a node of a B-tree.
const MAP_NODE_BYTES: usize = MAP_NODE * (size_of::<String>() + size_of::<Value>()) + 2 * PIECE;

/// The share of the allocator in each piece of memory.
const PIECE: usize = 16;

/// The most bytes in memory for each byte of protobuf: those of a map of one entry for its six.
const MOST_GROWTH: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_be_too_large_is_not_counted() {
        let memory = |max_node_bytes| {
            NodeMemory::new(&RequestLimits { max_node_bytes, ..RequestLimits::NONE })
        };
        assert!(memory(1 << 20).has_room_for(64 << 10));
        assert!(!memory(1 << 20).has_room_for((64 << 10) + 1));
        assert!(memory(usize::MAX).has_room_for(usize::MAX));
        assert!(MAP_NODE_BYTES + size_of::<Value>() + PIECE <= 6 * MOST_GROWTH);
    }

    #[test]
    fn each_part_takes_what_it_takes() {
        let mut memory =
            NodeMemory::new(&RequestLimits { max_node_bytes: 100, ..RequestLimits::NONE });
        assert_eq!(memory.add_text(0), Ok(()));
        assert_eq!(memory.found, 0);
        assert_eq!(memory.add_text(4), Ok(()));
        assert_eq!(memory.found, 4 + PIECE);
        assert_eq!(memory.add_entry(0), Ok(()));
        assert_eq!(memory.add_entry(1), Ok(()));
        assert_eq!(memory.found, 4 + PIECE + MAP_NODE_BYTES);
        let too_large = Err(RequestTooLarge::NodeMemory { limit: 800 });
        assert_eq!(memory.add_entry(11), too_large);
        assert_eq!(memory.check(), too_large);
    }
}
