//! A queue of parts of responses, in blocks.
//!
//! A response to a client that named ten thousand resources has as many parts, and a thousand such
//! clients may come at once. The blocks are small, so that memory which one stream gives back serves
//! the next one: the allocator of glibc takes large blocks from the heap too, once it has seen some,
//! and what is left between them was measured as twice the memory of a subscribed name.

use std::collections::VecDeque;

use bytes::Bytes;

/// The number of parts in a block.
const BLOCK: usize = 256;

/// Parts, in their order.
#[derive(Default)]
pub(super) struct Parts {
    blocks: VecDeque<VecDeque<Bytes>>,
}

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Bytes> {
        self.iter().next()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.blocks.iter().flatten()
    }

    pub(super) fn push(&mut self, part: Bytes) {
        match self.blocks.back_mut() {
            Some(block) if block.len() < BLOCK => block.push_back(part),
            _ => self.blocks.push_back(VecDeque::from([part])),
        }
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let block = self.blocks.front_mut()?;
        let part = block.pop_front();
        if block.is_empty() {
            self.blocks.pop_front();
        }
        if self.is_empty() {
            self.blocks = VecDeque::new();
        }
        part
    }

    pub(super) fn append(&mut self, mut others: Self) {
        self.blocks.append(&mut others.blocks);
    }

    /// The number of bytes of the references.
    pub(super) fn held_bytes(&self) -> usize {
        let full = self.blocks.len().saturating_sub(1) * BLOCK;
        let last = self.blocks.back().map_or(0, VecDeque::capacity);
        (full + last) * size_of::<Bytes>() + self.blocks.capacity() * size_of::<VecDeque<Bytes>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_in_their_order() {
        let (mut parts, mut others) = (Parts::default(), Parts::default());
        let part = |at: usize| Bytes::from(at.to_string());
        (0..BLOCK + 1).for_each(|at| parts.push(part(at)));
        (BLOCK + 1..3 * BLOCK).for_each(|at| others.push(part(at)));
        parts.append(others);
        parts.push(part(3 * BLOCK));
        assert_eq!(parts.first(), Some(&part(0)));
        assert_eq!(parts.iter().count(), 3 * BLOCK + 1);
        for at in 0..=3 * BLOCK {
            assert_eq!(parts.pop(), Some(part(at)));
        }
        assert_eq!((parts.pop(), parts.held_bytes()), (None, 0));
    }
}
