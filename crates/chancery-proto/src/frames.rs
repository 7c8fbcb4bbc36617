//! The framing of messages in the bytes of a gRPC stream.
//!
//! A frame is a flag, a length in four bytes, and that many bytes ([gRPC over
//! HTTP/2](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)). A message that lies in
//! one chunk is not copied. A longer one is gathered as it arrives, and its stated length alone
//! allocates nothing.
//!
//! This module does not know where chunks come from. How a server puts many messages, with shared
//! parts, into chunks is not here either.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::gathered::Gathered;

/// The size of a flag and a length.
const HEADER: usize = 5;
/// The size of a buffer into which readers of HTTP/2 read. A chunk is a part of one, and keeps it.
const BUFFER: usize = 16 * 1024;

/// Finds messages in chunks: [`push`](Self::push) a chunk, then call [`next`](Self::next) until it
/// returns no message.
#[derive(Debug)]
pub struct Messages {
    limit: usize,
    chunk: Bytes,
    /// The beginning of a message whose end has not arrived.
    begun: Gathered,
}

/// The reason why bytes are not readable messages; the peer is at fault. Nothing behind that point
/// can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The flag of a message says that it is compressed.
    #[error("a message is compressed, which nobody asked for")]
    Compressed,
    /// The length of a message is above the limit.
    #[error("a message has {size} bytes; {limit} are allowed")]
    TooLarge {
        /// The stated length.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

/// Frames a message, in a chunk of its own.
pub fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER + message.len());
    frame.put_u8(0);
    // A message of 4 GiB cannot be sent at all: no receiver accepts anything near it.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.extend_from_slice(message);
    frame.freeze()
}

impl Messages {
    /// Creates a reader of messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, chunk: Bytes::new(), begun: Gathered::default() }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            self.chunk = [&self.chunk[..], &chunk].concat().into();
        }
    }

    /// The number of bytes of memory that are kept until messages are whole.
    pub fn held_bytes(&self) -> usize {
        let chunk = if self.chunk.is_empty() { 0 } else { self.chunk.len().max(BUFFER) };
        chunk + self.begun.held_bytes()
    }

    /// The next message. The result is `Ok(None)` while its end has not arrived.
    ///
    /// # Errors
    /// Fails if the peer compresses, or if a message is above the limit.
    #[expect(clippy::should_implement_trait, reason = "an iterator ends where this has to wait")]
    pub fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        if self.begun.is_empty() && self.chunk.len() >= HEADER {
            let size = self.size_in(&self.chunk)?;
            if self.chunk.len() - HEADER >= size {
                let mut message = self.chunk.split_to(HEADER + size);
                self.gather(0);
                message.advance(HEADER);
                return Ok(Some(message));
            }
        }
        self.gather(HEADER);
        if self.begun.len() < HEADER {
            return Ok(None);
        }
        let size = self.size_in(self.begun.beginning())?;
        self.gather(HEADER + size);
        if self.begun.len() < HEADER + size {
            return Ok(None);
        }
        let mut message = self.begun.take();
        message.advance(HEADER);
        Ok(Some(message))
    }

    /// Returns true if all bytes so far were whole messages, so that the stream may end here.
    pub fn is_between(&self) -> bool {
        self.begun.is_empty() && self.chunk.is_empty()
    }

    /// Moves bytes from the chunk to the message that has begun, until it has `wanted` bytes.
    fn gather(&mut self, wanted: usize) {
        let missing = wanted.saturating_sub(self.begun.len()).min(self.chunk.len());
        self.begun.push(&self.chunk.split_to(missing));
        if self.chunk.is_empty() {
            // An empty slice of a chunk would keep the whole chunk in memory.
            self.chunk = Bytes::new();
        }
    }

    fn size_in(&self, header: &[u8]) -> Result<usize, FrameError> {
        let (flag, limit) = (header[0], self.limit);
        if flag != 0 {
            return Err(FrameError::Compressed);
        }
        let size = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if size > limit { Err(FrameError::TooLarge { size, limit }) } else { Ok(size) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// All messages in the chunks, and true if the chunks end with the last message.
    fn found<'c>(
        chunks: impl IntoIterator<Item = &'c [u8]>,
        limit: usize,
    ) -> Result<(Vec<Bytes>, bool), FrameError> {
        let mut messages = Messages::new(limit);
        let mut all = Vec::new();
        for chunk in chunks {
            messages.push(Bytes::copy_from_slice(chunk));
            while let Some(message) = messages.next()? {
                all.push(message);
            }
        }
        Ok((all, messages.is_between()))
    }

    #[test]
    fn a_message_is_a_flag_a_length_and_its_bytes() {
        assert_eq!(&framed(b"ab")[..], b"\0\0\0\0\x02ab");
    }

    proptest! {
        #[test]
        fn messages_are_found_however_they_are_cut(
            sent in vec(vec(any::<u8>(), 0..9), 0..5),
            size in 1usize..20,
            missing in 0usize..4,
        ) {
            let bytes = sent.iter().map(|message| framed(message)).collect::<Vec<_>>().concat();
            let (all, between) = found(bytes.chunks(size), 8).unwrap();
            prop_assert_eq!(&all, &sent);
            prop_assert!(between);
            let cut = bytes.len().saturating_sub(missing);
            let (all, between) = found(bytes[..cut].chunks(size), 8).unwrap();
            prop_assert_eq!(between, cut == bytes.len());
            prop_assert!(all.iter().zip(&sent).all(|(one, other)| one == other));
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in vec(0u8..3, 0..40), size in 1usize..9) {
            let _ = found(bytes.chunks(size), 1000);
        }
    }

    #[test]
    fn chunks_may_come_before_messages_are_asked_for() {
        let bytes = [framed(b"one"), framed(b"two")].concat();
        let mut messages = Messages::new(3);
        bytes.chunks(4).for_each(|chunk| messages.push(Bytes::copy_from_slice(chunk)));
        assert_eq!(messages.next().unwrap().unwrap(), "one");
        assert!(!messages.is_between());
        assert_eq!(messages.next().unwrap().unwrap(), "two");
        assert!(messages.next().unwrap().is_none() && messages.is_between());
    }

    #[test]
    fn a_message_that_waits_behind_another_keeps_the_buffer_of_both() {
        let mut messages = Messages::new(3);
        messages.push([framed(b"one"), framed(b"two")].concat().into());
        messages.next().unwrap().unwrap();
        assert_eq!(messages.held_bytes(), BUFFER);
        messages.next().unwrap().unwrap();
        assert_eq!(messages.held_bytes(), 0);
    }

    #[test]
    fn a_message_in_one_chunk_is_not_copied() {
        let chunk = Bytes::from([framed(b"one"), framed(b"two")].concat());
        let mut messages = Messages::new(3);
        messages.push(chunk.clone());
        let message = messages.next().unwrap().unwrap();
        assert_eq!(message.as_ptr(), chunk[HEADER..].as_ptr());
    }

    #[test]
    fn a_message_at_the_limit_is_read_and_one_past_it_is_refused() {
        let bytes = framed(&[7; 100]);
        assert_eq!(found([&bytes[..]], 100).unwrap().0.len(), 1);
        let error = found([&bytes[..]], 99).unwrap_err();
        assert_eq!(error, FrameError::TooLarge { size: 100, limit: 99 });
        // The same holds when the chunk ends behind the header: nothing is gathered first.
        assert_eq!(found([&bytes[..3], &bytes[3..5]], 99).unwrap_err(), error);
    }

    #[test]
    fn a_large_length_alone_costs_no_memory() {
        let mut messages = Messages::new(1 << 30);
        messages.push(Bytes::from_static(b"\0\x03\xff\xff\xff123"));
        assert_eq!(messages.next(), Ok(None));
        assert!(messages.begun.held_bytes() < 1024);
    }

    #[test]
    fn compressed_messages_are_refused() {
        assert_eq!(found([&b"\x01\0\0\0\x01x"[..]], 100).unwrap_err(), FrameError::Compressed);
    }
}
