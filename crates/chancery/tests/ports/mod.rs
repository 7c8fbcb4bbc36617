//! Ports for tests that run at the same time, also in several processes.
//!
//! Asking the kernel for a free port is not enough: between the question and the use another test,
//! or any outgoing connection, may take it. So ports come from below the range of outgoing
//! connections, and each is reserved by a lock on a file, which the kernel drops with the process.

use std::fs::{self, File};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port of 127.0.0.1 that is this test's while the value lives.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port that nobody listens on.
    pub(crate) fn reserve() -> Self {
        let start = u16::try_from(std::process::id() % u32::from(COUNT)).expect("less than COUNT");
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
            if let Some(port) = Self::lock(FIRST + (start + step) % COUNT) {
                return port;
            }
        }
        panic!("every port from {FIRST} on is taken");
    }

    fn lock(number: u16) -> Option<Self> {
        let dir = std::env::temp_dir().join("chancery-test-ports");
        fs::create_dir_all(&dir).expect("the temporary directory can be written");
        let lock = File::create(dir.join(number.to_string())).ok()?;
        lock.try_lock().ok()?;
        TcpListener::bind(("127.0.0.1", number)).ok()?;
        Some(Self { number, _lock: lock })
    }

    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// As clients write it.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}

#[test]
fn two_reservations_are_two_ports() {
    let (one, two) = (Port::reserve(), Port::reserve());
    assert_ne!(one.number(), two.number());
    assert!(Port::lock(one.number()).is_none());
}
