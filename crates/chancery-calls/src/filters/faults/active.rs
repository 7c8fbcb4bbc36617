//! The faults that are going on in the process, whose number is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of calls with a fault that is not over. A process has one, for all of its channels.
#[derive(Clone, Debug, Default)]
pub struct ActiveFaults(Arc<AtomicU32>);

/// One of the active faults, until it is dropped.
#[derive(Debug)]
pub struct FaultPermit(Arc<AtomicU32>);

impl ActiveFaults {
    /// The number of active faults.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one more, unless there are as many as this already.
    pub(super) fn begin(&self, limit: Option<u32>) -> Option<FaultPermit> {
        let limit = limit.unwrap_or(u32::MAX);
        let one_more = |count: u32| (count < limit).then(|| count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(FaultPermit(Arc::clone(&self.0)))
    }
}

impl Drop for FaultPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
