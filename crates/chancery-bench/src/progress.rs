//! The progress of a run, as one line on the terminal. Nothing is written if the standard error is
//! no terminal.

use std::io::{self, IsTerminal, Write};

/// The line of the progress.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    dirty: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: io::stderr().is_terminal(), dirty: false }
    }

    /// Replaces the line.
    pub(crate) fn show(&mut self, text: &str) {
        if self.shown {
            // An error means that the terminal is gone, and nothing can be done about it.
            write!(io::stderr(), "\r\x1b[K{text}").ok();
            self.dirty = true;
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.dirty) {
            write!(io::stderr(), "\r\x1b[K").ok();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
