//! The thread that writes log lines to stderr.
//!
//! Only this thread waits for whoever reads stderr. It writes to a descriptor of its own, because a
//! write through `std::io::stderr` holds a lock for which others would wait. Not here: the lines
//! that wait ([`LineBuffer`]).

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::buffer::LineBuffer;

/// Starts the thread.
pub(super) fn spawn(buffer: Arc<LineBuffer>) -> io::Result<()> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let thread = thread::Builder::new().name("log".to_owned());
    thread.spawn(move || write_all(&buffer, stderr)).map(drop)
}

/// Writes lines until there are no more.
fn write_all(buffer: &LineBuffer, mut to: impl Write) {
    while let Some(lines) = buffer.take() {
        let mut rest = &*lines;
        while !rest.is_empty() {
            match to.write(rest) {
                Ok(0) => break,
                Ok(written) => {
                    buffer.wrote(written);
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another process made the pipe one that does not block.
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(PAUSE),
                Err(_) => break,
            }
        }
        if !rest.is_empty() {
            buffer.failed(&lines);
        }
    }
}

/// The pause before the next attempt to write to a pipe that is full and does not block.
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    /// A pipe that takes three bytes at once, and is sometimes interrupted or full.
    #[derive(Default)]
    struct Halting {
        got: Vec<u8>,
        calls: u32,
    }

    impl Write for &mut Halting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            match self.calls % 3 {
                0 => Err(ErrorKind::Interrupted.into()),
                1 => Err(ErrorKind::WouldBlock.into()),
                _ => self.got.write(&bytes[..bytes.len().min(3)]),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn buffer() -> (LineBuffer, Counter) {
        let dropped = Counter::default();
        (LineBuffer::new(100, dropped.clone(), |lines| format!("{lines} dropped\n")), dropped)
    }

    #[test]
    fn all_lines_are_written_piece_by_piece() {
        let (buffer, _) = buffer();
        buffer.push(b"one line\n");
        buffer.push(b"another\n");
        buffer.close(Duration::ZERO);
        let mut to = Halting::default();
        write_all(&buffer, &mut to);
        assert_eq!(to.got, b"one line\nanother\n");
    }

    #[test]
    fn lines_for_nobody_are_counted() {
        let (buffer, dropped) = buffer();
        buffer.push(b"one line\n");
        buffer.push(b"another\n");
        buffer.close(Duration::ZERO);
        // An empty slice takes no byte, like a pipe without a reader.
        write_all(&buffer, &mut [0; 0][..]);
        assert_eq!(dropped.get(), 2);
    }
}
