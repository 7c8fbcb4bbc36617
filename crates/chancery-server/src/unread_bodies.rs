//! The bytes of requests that have arrived on one connection over HTTP/2 and that no stream has taken:
//! bodies, and a head that is not whole.
//!
//! h2 keeps them, and does not say how many there are. Bodies are counted for each stream, because what
//! comes for a stream that has ended is thrown away by h2. Not here: the frames
//! (`connection::executor::cork::data_meter`), and who is charged (`connection::unread`).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of a stream on its connection. Later streams have higher ones.
type StreamNumber = u32;

/// The bytes that trailers take at most: as many as a head may have, in a map of fields.
const TRAILERS: usize = 48 * 1024;

/// The bytes that no stream of one connection has taken.
#[derive(Default)]
pub(crate) struct UnreadBodies(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// The bytes of each stream, in the order of their numbers: of streams whose bodies can be read,
    /// and of those whose requests h2 has not given out yet.
    streams: Vec<(StreamNumber, usize)>,
    /// The highest number of a stream whose request was given out.
    last: StreamNumber,
    /// The bytes of a head that is not whole.
    head: usize,
    sum: usize,
}

impl UnreadBodies {
    /// Notes bytes that came for a stream.
    pub(crate) fn received(&self, stream: StreamNumber, bytes: usize) {
        let mut counts = self.lock();
        match counts.find(stream) {
            Ok(at) => counts.streams[at].1 += bytes,
            Err(at) if stream > counts.last => counts.streams.insert(at, (stream, bytes)),
            Err(_) => return,
        }
        counts.sum += bytes;
    }

    /// Notes that the request of a stream was given out. h2 gives requests out in the order of their
    /// streams, and some not at all.
    pub(crate) fn opened(&self, stream: StreamNumber) {
        let mut counts = self.lock();
        let (Ok(first) | Err(first)) = counts.find(counts.last.saturating_add(1));
        let (Ok(own) | Err(own)) = counts.find(stream);
        let passed_over: usize = counts.streams.drain(first..own.max(first)).map(|it| it.1).sum();
        counts.sum -= passed_over;
        if let Err(at) = counts.find(stream) {
            if counts.streams.is_empty() {
                counts.streams.reserve_exact(1); // Most connections have one stream.
            }
            counts.streams.insert(at, (stream, 0));
        }
        counts.last = counts.last.max(stream);
    }

    /// Notes bytes that were taken from a stream.
    pub(crate) fn taken(&self, stream: StreamNumber, bytes: usize) {
        let mut counts = self.lock();
        let Ok(at) = counts.find(stream) else { return };
        let taken = bytes.min(counts.streams[at].1);
        counts.streams[at].1 -= taken;
        counts.sum -= taken;
    }

    /// Notes that the body of a stream is read no more.
    pub(crate) fn closed(&self, stream: StreamNumber) {
        let mut counts = self.lock();
        let Ok(at) = counts.find(stream) else { return };
        let (_, left) = counts.streams.remove(at);
        counts.sum -= left;
    }

    /// Notes that a head came for a stream. If it is a second one, it is kept until the body was read.
    pub(crate) fn trailers(&self, stream: StreamNumber) {
        let mut counts = self.lock();
        if let Ok(at) = counts.find(stream) {
            counts.streams[at].1 += TRAILERS;
            counts.sum += TRAILERS;
        }
    }

    /// Notes how much there is of a head that is not whole.
    pub(crate) fn set_head(&self, bytes: usize) {
        self.lock().head = bytes;
    }

    /// The number of all bytes that no stream has taken.
    pub(crate) fn sum(&self) -> usize {
        let counts = self.lock();
        counts.sum + counts.head
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// The place of a stream, or the one that it would have.
    fn find(&self, stream: StreamNumber) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&stream, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_they_are_taken_or_their_stream_is_closed() {
        let unread = UnreadBodies::default();
        unread.received(1, 10);
        unread.opened(1);
        unread.received(1, 5);
        assert_eq!(unread.sum(), 15);
        unread.taken(1, 12);
        assert_eq!(unread.sum(), 3);
        unread.closed(1);
        assert_eq!(unread.sum(), 0);
    }

    #[test]
    fn trailers_count_until_their_stream_is_closed() {
        let unread = UnreadBodies::default();
        unread.trailers(1);
        assert_eq!(unread.sum(), 0, "the head of the request");
        unread.opened(1);
        unread.trailers(1);
        assert_eq!(unread.sum(), TRAILERS);
        unread.closed(1);
        assert_eq!(unread.sum(), 0);
    }

    #[test]
    fn bytes_for_a_stream_that_has_ended_do_not_count() {
        let unread = UnreadBodies::default();
        unread.opened(1);
        unread.opened(5);
        unread.closed(1);
        unread.received(1, 10);
        unread.received(3, 10);
        assert_eq!(unread.sum(), 0);
        unread.closed(5);
        unread.taken(5, 10);
        assert_eq!(unread.sum(), 0);
    }

    #[test]
    fn bytes_for_a_request_that_is_never_given_out_are_forgotten() {
        let unread = UnreadBodies::default();
        unread.received(1, 10);
        unread.received(3, 20);
        unread.received(5, 40);
        assert_eq!(unread.sum(), 70);
        unread.opened(3);
        assert_eq!(unread.sum(), 60);
    }
}
