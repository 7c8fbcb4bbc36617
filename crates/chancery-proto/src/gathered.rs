//! Bytes that are gathered until there are enough of them.
//!
//! They are kept in blocks, and put together when they are all there. One buffer that grows would be
//! copied again and again, and what the allocator keeps of buffers of many sizes was measured as
//! several times the bytes themselves. Not here: how many bytes may be gathered.

use bytes::{Bytes, BytesMut};

/// The size of a block.
const BLOCK: usize = 64 * 1024;

/// Bytes that are gathered until there are enough of them.
#[derive(Debug, Default)]
pub struct Gathered {
    /// Blocks of [`BLOCK`] bytes, which take as much memory.
    full: Vec<BytesMut>,
    open: BytesMut,
}

impl Gathered {
    /// Adds bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.open.len() >= BLOCK {
                self.full.push(std::mem::take(&mut self.open));
            }
            let part = bytes.len().min(BLOCK - self.open.len());
            self.make_room_for(part);
            self.open.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
        }
    }

    /// Makes room in the open block, which doubles until it is as large as a block.
    fn make_room_for(&mut self, more: usize) {
        let wanted = self.open.len() + more;
        if wanted > BLOCK / 2 && self.open.capacity() < wanted {
            let mut block = BytesMut::with_capacity(BLOCK);
            block.extend_from_slice(&self.open);
            self.open = block;
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.full.len() * BLOCK + self.open.len()
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The number of bytes of memory.
    pub fn held_bytes(&self) -> usize {
        self.full.len() * BLOCK + self.open.capacity()
    }

    /// The bytes at the beginning: all of them, if they are few.
    pub fn beginning(&self) -> &[u8] {
        self.full.first().unwrap_or(&self.open)
    }

    /// Takes all bytes.
    pub fn take(&mut self) -> Bytes {
        let size = self.len();
        let (full, open) = (std::mem::take(&mut self.full), std::mem::take(&mut self.open));
        if full.is_empty() {
            return open.freeze();
        }
        let mut all = BytesMut::with_capacity(size);
        // Each block is given back when it is copied.
        full.into_iter().for_each(|block| all.extend_from_slice(&block));
        all.extend_from_slice(&open);
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_that_were_added_however_they_came() {
        let bytes: Vec<u8> = (0..3 * BLOCK + 7).map(|at| (at % 251) as u8).collect();
        for part in [1, 1_000, 12_345, BLOCK / 2, BLOCK / 2 + 1, BLOCK, BLOCK + 1, bytes.len()] {
            let mut gathered = Gathered::default();
            bytes.chunks(part).for_each(|part| gathered.push(part));
            for block in &gathered.full {
                assert_eq!((block.len(), block.capacity()), (BLOCK, BLOCK), "in parts of {part}");
            }
            assert_eq!(gathered.len(), bytes.len());
            assert!(gathered.held_bytes() < bytes.len() + 2 * BLOCK, "in parts of {part}");
            assert_eq!(&gathered.beginning()[..100], &bytes[..100]);
            assert!(gathered.take() == bytes, "in parts of {part}");
            assert_eq!((gathered.is_empty(), gathered.held_bytes()), (true, 0));
        }
    }
}
