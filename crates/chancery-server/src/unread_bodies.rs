//! The bytes of requests that have arrived on one connection over HTTP/2 and that no stream has taken:
//! bodies, and a head that is not whole.
//!
//! h2 keeps them, and does not say how many there are. Bodies are counted for each stream, because what
//! comes for a stream that has ended is thrown away by h2. A frame costs more than its bytes: it has an
//! entry in a list, which h2 never makes shorter, and keeps the buffer that it was read with. Not here:
//! the frames (`connection::executor::cork::data_meter`), and who is charged
//! (`connection::http_charge`).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of a stream on its connection. Later streams have higher ones.
type StreamNumber = u32;

/// The bytes that trailers take at most: as many as a head may have, in a map of fields.
const TRAILERS: usize = 48 * 1024;

/// The size in bytes of the entry of a frame.
const ENTRY: usize = 256;
/// A number of entries that are part of what any connection is charged for.
const FEW_ENTRIES: usize = 32;

/// The bytes that no stream of one connection has taken.
#[derive(Default)]
pub(crate) struct UnreadBodies(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// The streams in the order of their numbers: those whose bodies can be read, and those whose
    /// requests h2 has not given out yet.
    streams: Vec<UnreadBody>,
    /// The highest number of a stream whose request was given out.
    last: StreamNumber,
    /// The bytes of a head that is not whole.
    head: usize,
    /// The bytes of all streams, with those that their frames keep.
    sum: usize,
    /// The frames of all streams.
    frames: usize,
    /// The most frames that there were at once.
    most_frames: usize,
}

/// The bytes of one stream.
#[derive(Clone, Copy, Default)]
struct UnreadBody {
    stream: StreamNumber,
    /// The number of frames, not counting one without bytes at the end.
    frames: u32,
    bytes: usize,
    /// The bytes of others that the frames keep.
    kept: usize,
}

impl UnreadBodies {
    /// Notes the first bytes of a frame that came for a stream. The frame keeps so many others.
    pub(crate) fn began(&self, stream: StreamNumber, bytes: usize, kept: usize) {
        let mut counts = self.lock();
        counts.add(UnreadBody { stream, frames: 1, bytes, kept });
        counts.most_frames = counts.most_frames.max(counts.frames);
    }

    /// Notes further bytes of the frame.
    pub(crate) fn received(&self, stream: StreamNumber, bytes: usize) {
        self.lock().add(UnreadBody { stream, bytes, ..UnreadBody::default() });
    }

    /// Notes that the request of a stream was given out. h2 gives requests out in the order of their
    /// streams, and some not at all.
    pub(crate) fn opened(&self, stream: StreamNumber) {
        let mut counts = self.lock();
        let (Ok(first) | Err(first)) = counts.find(counts.last.saturating_add(1));
        let (Ok(own) | Err(own)) = counts.find(stream);
        let mut passed_over = UnreadBody::default();
        counts.streams.drain(first..own.max(first)).for_each(|body| passed_over.add(body));
        counts.subtract(passed_over);
        if let Err(at) = counts.find(stream) {
            if counts.streams.is_empty() {
                counts.streams.reserve_exact(1); // Most connections have one stream.
            }
            counts.streams.insert(at, UnreadBody { stream, ..UnreadBody::default() });
        }
        counts.last = counts.last.max(stream);
    }

    /// Notes that a frame with so many bytes was taken from a stream.
    pub(crate) fn taken(&self, stream: StreamNumber, bytes: usize) {
        let mut counts = self.lock();
        let Ok(at) = counts.find(stream) else { return };
        let taken = counts.streams[at].take_frame(bytes);
        counts.subtract(taken);
    }

    /// Notes that the body of a stream is read no more.
    pub(crate) fn closed(&self, stream: StreamNumber) {
        let mut counts = self.lock();
        let Ok(at) = counts.find(stream) else { return };
        let left = counts.streams.remove(at);
        counts.subtract(left);
    }

    /// Notes that a head came for a stream. If it is a second one, it is kept until the body was read.
    pub(crate) fn trailers(&self, stream: StreamNumber) {
        let mut counts = self.lock();
        if counts.find(stream).is_ok() {
            counts.add(UnreadBody { stream, bytes: TRAILERS, ..UnreadBody::default() });
        }
    }

    /// Notes how much there is of a head that is not whole.
    pub(crate) fn set_head(&self, bytes: usize) {
        self.lock().head = bytes;
    }

    /// The number of all bytes that no stream has taken, with those that their frames keep.
    pub(crate) fn sum(&self) -> usize {
        let counts = self.lock();
        counts.sum + counts.head
    }

    /// The number of bytes of the list of frames, which doubles when it is full.
    pub(crate) fn entries(&self) -> usize {
        match self.lock().most_frames {
            0..=FEW_ENTRIES => 0,
            most => most.next_power_of_two() * ENTRY,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// The place of a stream, or the one that it would have.
    fn find(&self, stream: StreamNumber) -> Result<usize, usize> {
        self.streams.binary_search_by_key(&stream, |body| body.stream)
    }

    /// Adds to what a stream has, unless it has ended.
    fn add(&mut self, more: UnreadBody) {
        match self.find(more.stream) {
            Ok(at) => self.streams[at].add(more),
            Err(at) if more.stream > self.last => self.streams.insert(at, more),
            Err(_) => return,
        }
        self.sum += more.bytes + more.kept;
        self.frames += more.frames as usize;
    }

    fn subtract(&mut self, less: UnreadBody) {
        self.sum -= less.bytes + less.kept;
        self.frames -= less.frames as usize;
    }
}

impl UnreadBody {
    fn add(&mut self, more: Self) {
        self.frames += more.frames;
        self.bytes += more.bytes;
        self.kept += more.kept;
    }

    /// Takes one frame, with as much of what all of them keep as of any other.
    fn take_frame(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        let (frames, kept) = match self.frames {
            0 | 1 => (self.frames, self.kept),
            frames => (1, self.kept / frames as usize),
        };
        self.bytes -= bytes;
        self.frames -= frames;
        self.kept -= kept;
        Self { stream: self.stream, frames, bytes, kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_they_are_taken_or_their_stream_is_closed() {
        let unread = UnreadBodies::default();
        unread.began(1, 10, 0);
        unread.opened(1);
        unread.began(1, 2, 0);
        unread.received(1, 3);
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
        unread.began(1, 10, 1);
        unread.began(3, 10, 1);
        assert_eq!(unread.sum(), 0);
        unread.closed(5);
        unread.taken(5, 10);
        assert_eq!(unread.sum(), 0);
    }

    #[test]
    fn bytes_for_a_request_that_is_never_given_out_are_forgotten() {
        let unread = UnreadBodies::default();
        for (stream, bytes) in [(1, 10), (3, 20), (5, 40)] {
            unread.began(stream, bytes, 1);
        }
        assert_eq!(unread.sum(), 73);
        unread.opened(3);
        assert_eq!(unread.sum(), 62);
    }

    #[test]
    fn what_frames_keep_counts_until_the_last_of_them_is_taken() {
        let unread = UnreadBodies::default();
        unread.opened(1);
        for kept in [100, 200, 300] {
            unread.began(1, 1, kept);
        }
        let sums = (0..3).map(|_| {
            unread.taken(1, 1);
            unread.sum()
        });
        assert_eq!(sums.collect::<Vec<_>>(), [402, 201, 0]);
        // The end of a body is a frame without bytes, which did not count.
        unread.taken(1, 0);
        assert_eq!(unread.sum(), 0);
    }

    #[test]
    fn the_list_of_frames_counts_as_long_as_it_ever_was() {
        let unread = UnreadBodies::default();
        unread.opened(1);
        for _ in 0..FEW_ENTRIES {
            unread.began(1, 1, 0);
        }
        assert_eq!((unread.sum(), unread.entries()), (FEW_ENTRIES, 0));
        unread.began(1, 1, 0);
        unread.closed(1);
        assert_eq!((unread.sum(), unread.entries()), (0, 2 * FEW_ENTRIES * ENTRY));
    }
}
