//! FIFOs, which std cannot make.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Makes a FIFO.
pub(crate) fn fifo(path: &Path) {
    let mut made = Command::new("mkfifo").arg(path).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while made.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "`mkfifo` has not ended");
        thread::park_timeout(Duration::from_millis(1));
    }
    assert!(path.symlink_metadata().is_ok());
}
