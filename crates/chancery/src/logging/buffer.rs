//! The lines that wait for the writer of the log: a bounded piece of memory.
//!
//! Whoever logs never waits for a reader of the log. A line for which there is no room is dropped;
//! the number of dropped lines stands in the next line that is written, and in a metric. After a
//! drop there is room again when half of the buffer is free, so that whole runs of lines are
//! missing and not every other one. The lines stand one after the other in one piece of memory, so
//! their bytes are all that they cost. Not here: the form of a line (`format`) and the writing of
//! bytes (`writer`).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

/// Lines between those who log and the thread that writes them.
pub(super) struct LineBuffer {
    state: Mutex<BufferState>,
    /// Notified when lines come, and when the writer has written some or ends.
    changed: Condvar,
    limit: usize,
    /// The number of all lines that were dropped.
    dropped: Counter,
    /// Writes the line that says how many lines were dropped.
    notice: Box<dyn Fn(u64) -> String + Send + Sync>,
}

#[derive(Default)]
struct BufferState {
    /// The lines that nobody writes yet.
    waiting: Vec<u8>,
    /// The lines among them that say how many were dropped.
    notices: Vec<Notice>,
    /// The bytes that were taken and are not written yet.
    taken: usize,
    /// The lines that say how many were dropped, among the lines that were taken.
    taken_notices: Vec<Notice>,
    /// The lines that were dropped since the last line that says how many.
    dropped: u64,
    /// True from a drop until half of the buffer is free.
    full: bool,
    /// True after a write failed, until one succeeds.
    failing: bool,
    /// True while the writer has nothing to do. Waking it is a call of the system, which most lines
    /// do not need.
    idle: bool,
    /// True when no more lines come.
    closed: bool,
    /// True when the writer has ended.
    ended: bool,
}

/// A line that says how many lines were dropped. If it is lost, its number has to be told again.
struct Notice {
    /// The place of its end among the lines it stands with: the bytes up to there.
    end: usize,
    /// The number that it tells.
    dropped: u64,
}

impl LineBuffer {
    /// A buffer of `limit` bytes.
    pub(super) fn new(
        limit: usize,
        dropped: Counter,
        notice: impl Fn(u64) -> String + Send + Sync + 'static,
    ) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self { state, changed, limit, dropped, notice: Box::new(notice) }
    }

    /// Adds a line with its line feed, if there is room for it.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        let held = state.waiting.len() + state.taken;
        let room = if state.full { self.limit / 2 } else { self.limit };
        if state.closed || held + line.len() > room {
            state.full = true;
            state.dropped += 1;
            self.dropped.inc();
        } else {
            state.full = false;
            self.tell_dropped(&mut state);
            state.waiting.extend_from_slice(line);
        }
        if std::mem::take(&mut state.idle) {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Adds the last text of the process, whether or not there is room.
    pub(super) fn push_last(&self, text: &[u8]) {
        let mut state = self.lock();
        self.tell_dropped(&mut state);
        state.waiting.extend_from_slice(text);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for lines, and takes them all. Returns `None` when there are no more.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if state.waiting.is_empty() && !state.failing {
                self.tell_dropped(&mut state);
            }
            if !state.waiting.is_empty() {
                let lines = std::mem::take(&mut state.waiting);
                state.taken = lines.len();
                state.taken_notices = std::mem::take(&mut state.notices);
                return Some(lines);
            }
            if state.closed {
                state.ended = true;
                self.changed.notify_all();
                return None;
            }
            state.idle = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that bytes of what was taken are written.
    pub(super) fn wrote(&self, bytes: usize) {
        let mut state = self.lock();
        state.taken = state.taken.saturating_sub(bytes);
        state.failing = false;
    }

    /// Notes that the rest of the `taken` lines cannot be written. The notices in it are no lines that
    /// anybody logged: their numbers are told again.
    pub(super) fn failed(&self, taken: &[u8]) {
        let mut state = self.lock();
        let written = taken.len().saturating_sub(std::mem::take(&mut state.taken));
        let (mut notices, mut told) = (0, 0);
        for lost in state.taken_notices.drain(..).filter(|notice| notice.end > written) {
            notices += 1;
            told += lost.dropped;
        }
        let ends = taken[written..].iter().filter(|byte| **byte == b'\n').count() as u64;
        let lines = ends.saturating_sub(notices);
        state.failing = true;
        state.dropped += lines + told;
        self.dropped.inc_by(lines);
    }

    /// Takes no more lines, and waits until all are written, but no longer than this.
    pub(super) fn close(&self, within: Duration) {
        let mut state = self.lock();
        state.closed = true;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(state, within, |state| !state.ended);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds the line that says how many lines were dropped, if any were.
    fn tell_dropped(&self, state: &mut BufferState) {
        if state.dropped > 0 {
            let dropped = std::mem::take(&mut state.dropped);
            state.waiting.extend_from_slice((self.notice)(dropped).as_bytes());
            let end = state.waiting.len();
            state.notices.push(Notice { end, dropped });
        }
    }

    /// No code panics with the lock held, and what it guards would be whole even then.
    fn lock(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(limit: usize) -> LineBuffer {
        LineBuffer::new(limit, Counter::default(), |dropped| format!("dropped {dropped}\n"))
    }

    fn taken(buffer: &LineBuffer) -> String {
        let lines = buffer.take().unwrap();
        buffer.wrote(lines.len());
        String::from_utf8(lines).unwrap()
    }

    #[test]
    fn the_next_line_says_how_many_were_dropped() {
        let buffer = buffer(8);
        for _ in 0..5 {
            buffer.push(b"line\n");
        }
        assert_eq!(buffer.dropped.get(), 4);
        assert_eq!(taken(&buffer), "line\n");
        buffer.push(b"abc\n");
        assert_eq!(taken(&buffer), "dropped 4\nabc\n");
    }

    #[test]
    fn that_lines_were_dropped_is_told_without_a_next_line_too() {
        let buffer = buffer(8);
        buffer.push(b"longer than the buffer\n");
        assert_eq!(taken(&buffer), "dropped 1\n");
    }

    #[test]
    fn without_a_buffer_the_log_says_that_lines_are_dropped() {
        let buffer = std::sync::Arc::new(buffer(0));
        let (writer, (sender, receiver)) = (buffer.clone(), std::sync::mpsc::channel());
        let writing = std::thread::spawn(move || sender.send(taken(&writer)));
        buffer.push(b"line\n");
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), "dropped 1\n");
        writing.join().unwrap().unwrap();
    }

    #[test]
    fn lines_are_taken_again_when_half_of_the_buffer_is_free() {
        let buffer = buffer(10);
        buffer.push(b"123456789\n");
        buffer.push(b"a\n");
        let lines = buffer.take().unwrap();
        buffer.wrote(4);
        buffer.push(b"b\n");
        buffer.wrote(lines.len() - 4);
        buffer.push(b"c\n");
        assert_eq!(taken(&buffer), "dropped 2\nc\n");
    }

    #[test]
    fn what_is_being_written_counts() {
        let buffer = buffer(8);
        buffer.push(b"1234567\n");
        let _lines = buffer.take().unwrap();
        buffer.push(b"8\n");
        assert_eq!(buffer.dropped.get(), 1);
    }

    #[test]
    fn a_failed_write_counts_as_dropped_lines_and_is_told_with_the_next_line() {
        let buffer = buffer(80);
        buffer.push(b"a\n");
        buffer.push(b"b\n");
        buffer.failed(&buffer.take().unwrap());
        buffer.push(b"c\n");
        assert_eq!(taken(&buffer), "dropped 2\nc\n");
    }

    #[test]
    fn a_lost_notice_is_no_lost_line_and_its_number_is_told_again() {
        let buffer = buffer(80);
        for lost in 1..=5 {
            buffer.push(b"line\n");
            buffer.failed(&buffer.take().unwrap());
            assert_eq!(buffer.dropped.get(), lost);
        }
        buffer.push(b"line\n");
        assert_eq!(taken(&buffer), "dropped 5\nline\n");
    }

    #[test]
    fn a_notice_that_was_written_is_not_told_again() {
        let buffer = buffer(8);
        buffer.push(b"longer than the buffer\n");
        buffer.push(b"a\n");
        buffer.push(b"longer than the buffer\n");
        let lines = buffer.take().unwrap();
        assert_eq!(lines, b"dropped 1\na\n");
        buffer.wrote(b"dropped 1\na".len());
        buffer.failed(&lines);
        assert_eq!(buffer.dropped.get(), 3);
        buffer.push(b"b\n");
        assert_eq!(taken(&buffer), "dropped 2\nb\n");
    }

    #[test]
    fn after_the_last_text_there_is_nothing_more() {
        let buffer = buffer(4);
        buffer.push_last(b"a text without room\n");
        buffer.close(Duration::ZERO);
        buffer.push(b"late\n");
        assert_eq!(taken(&buffer), "a text without room\n");
        assert_eq!(taken(&buffer), "dropped 1\n");
        assert!(buffer.take().is_none());
    }
}
