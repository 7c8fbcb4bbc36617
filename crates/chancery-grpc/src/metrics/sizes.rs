//! The bytes of the messages of a call, without the frames that carry them (gRFC A66).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{Label, Metric, MetricsRecorder};

/// The bytes of messages, compressed if they are, in each direction.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Sizes {
    /// Gives both to a recorder.
    pub(super) fn observe(
        &self,
        recorder: &dyn MetricsRecorder,
        [sent, received]: [&'static Metric; 2],
        labels: &[Label<'_>],
    ) {
        for (metric, size) in [(sent, &self.sent), (received, &self.received)] {
            recorder.observe(metric, size.load(Ordering::Relaxed) as f64, labels);
        }
    }
}

/// Counts the bytes of messages of one direction, as pieces of its stream go by.
#[derive(Debug)]
pub(crate) struct SizeCounter {
    sizes: Arc<Sizes>,
    direction: Direction,
    /// The bytes of the head of the next message that have gone by.
    head: usize,
    /// The length of the message, as far as the head has said it; then what is left of the message.
    left: u32,
}

/// The direction of messages, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Sent,
    Received,
}

/// A body whose messages are counted.
#[derive(Debug)]
pub(crate) struct CountedBody<B> {
    inner: B,
    counter: SizeCounter,
}

impl SizeCounter {
    pub(crate) fn of_sent(sizes: &Arc<Sizes>) -> Self {
        Self::new(sizes, Direction::Sent)
    }

    pub(crate) fn of_received(sizes: &Arc<Sizes>) -> Self {
        Self::new(sizes, Direction::Received)
    }

    fn new(sizes: &Arc<Sizes>, direction: Direction) -> Self {
        Self { sizes: Arc::clone(sizes), direction, head: 0, left: 0 }
    }

    /// The next piece of the stream, which may have a part of a message, or several.
    pub(crate) fn count(&mut self, mut piece: &[u8]) {
        let mut bytes = 0;
        while let Some((first, rest)) = piece.split_first() {
            if self.head == HEAD_BYTES && self.left > 0 {
                let here = piece.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                bytes += here as u64;
                self.left -= u32::try_from(here).unwrap_or(self.left);
                piece = &piece[here..];
            } else {
                if self.head == HEAD_BYTES {
                    (self.head, self.left) = (0, 0);
                }
                // The first byte says whether the message is compressed, and the next four are its length.
                if self.head > 0 {
                    self.left = self.left << 8 | u32::from(*first);
                }
                self.head += 1;
                piece = rest;
            }
        }
        let total = match self.direction {
            Direction::Sent => &self.sizes.sent,
            Direction::Received => &self.sizes.received,
        };
        total.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl<B> CountedBody<B> {
    pub(crate) fn new(inner: B, counter: SizeCounter) -> Self {
        Self { inner, counter }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for CountedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.counter.count(data);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The bytes before each message: a flag and its length.
const HEAD_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> Vec<u8> {
        let length_bytes = u32::try_from(length).unwrap().to_be_bytes();
        [&[1][..], &length_bytes, &vec![7; length]].concat()
    }

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        // C-138
        let stream = [message(3), message(0), message(0), message(258), message(1)].concat();
        for piece in 1..=stream.len() {
            let sizes = Arc::default();
            let mut counter = SizeCounter::of_sent(&sizes);
            stream.chunks(piece).for_each(|piece| counter.count(piece));
            assert_eq!(sizes.sent.load(Ordering::Relaxed), 262, "pieces of {piece}");
            assert_eq!(sizes.received.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn a_message_that_is_cut_off_counts_as_far_as_it_came() {
        // C-138
        let sizes = Arc::default();
        SizeCounter::of_received(&sizes).count(&message(300)[..105]);
        SizeCounter::of_received(&sizes).count(&[0xff; 4]);
        assert_eq!(sizes.received.load(Ordering::Relaxed), 100);
    }
}
