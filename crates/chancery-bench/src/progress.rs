//! One line on the terminal that says how far a run is; nothing where nobody looks.

use std::io::{self, IsTerminal, Write};

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    dirty: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: io::stderr().is_terminal(), dirty: false }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.shown {
            // Nobody is left to be told that the terminal is gone.
            write!(io::stderr(), "\r\x1b[K{text}").ok();
            self.dirty = true;
        }
    }

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
