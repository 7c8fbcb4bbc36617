//! All that the server prints, read as it comes, so that the server never waits for a reader.

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use anyhow::Result;

use crate::stage::{PATIENCE, until};

/// The number of bytes that are kept.
const KEPT: usize = 32 << 20;

/// The log of a server.
#[derive(Clone, Default)]
pub(crate) struct Log {
    bytes: Arc<Mutex<Vec<u8>>>,
    readers: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Log {
    /// Keeps what a program prints, up to a bound; it reads on beyond it.
    pub(crate) fn collect(&self, mut from: impl Read + Send + 'static) {
        let bytes = Arc::clone(&self.bytes);
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(size @ 1..) = from.read(&mut buffer) {
                if let Ok(mut bytes) = bytes.lock()
                    && bytes.len() < KEPT
                {
                    bytes.extend_from_slice(&buffer[..size]);
                }
            }
        });
        if let Ok(mut readers) = self.readers.lock() {
            readers.push(reader);
        }
    }

    /// All that was printed so far.
    pub(crate) fn text(&self) -> String {
        self.bytes.lock().map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// The end of it.
    pub(crate) fn tail(&self) -> String {
        let text = self.text();
        text.chars().skip(text.chars().count().saturating_sub(600)).collect()
    }

    /// Waits until a text is in it.
    pub(crate) async fn has(&self, text: &str) -> Result<()> {
        let what = format!("the log has `{}`", text.escape_debug());
        until(PATIENCE, &what, async || Ok(self.text().contains(text))).await
    }

    /// Waits until all of it is read, after the end of the process.
    pub(crate) async fn is_whole(&self) -> Result<()> {
        until(PATIENCE, "the log is read", async || {
            let readers = self.readers.lock();
            Ok(readers.is_ok_and(|readers| readers.iter().all(JoinHandle::is_finished)))
        })
        .await
    }
}
