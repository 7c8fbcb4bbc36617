//! The reports of servers about their load that come by themselves, and not with the end of a call (gRFC
//! A51). A driver asks for them where a policy wants them. Not here: the bytes of such a stream.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Time;
use chancery_core::client::load::OrcaReport;

/// A wish for the reports of a server.
#[derive(Clone, Debug)]
pub struct LoadWatch {
    /// The time between two reports, as it is asked for.
    pub period: Duration,
    /// Hears of each report.
    pub watcher: Arc<dyn LoadWatcher>,
}

/// Hears of the load of a server.
pub trait LoadWatcher: Send + Sync + fmt::Debug {
    /// A report has come, at this time.
    fn reported(&self, report: &OrcaReport, now: Time);
}
