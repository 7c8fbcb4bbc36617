//! The machine of one report server while it runs: a lock, a clock, and the wakers of the tasks
//! that wait.
//!
//! It is for load reports what `engine` is for discovery; a server without gRPC has none. Not here:
//! when a report is due and what is in it (`chancery_core::client::load`), and the stream
//! (`grpc::report_stream`).

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_core::client::Settings;
use chancery_core::client::load::{
    ClusterCounters, LoadKey, LoadMessage, LoadReport, LoadReporter, LoadResponse,
};
use chancery_core::{ErrorDetail, Node, Time};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::bootstrap::XdsServer;
use crate::bootstrap::scheme::Scheme;
use crate::event_log::EventLog;

/// All servers of a client, with a driver for each that takes load reports (C-134).
pub(crate) struct ReportDrivers(Vec<(XdsServer, Option<Arc<ReportDriver>>)>);

/// The driver of one report server, shared by its task and by the counters.
pub(crate) struct ReportDriver {
    reporter: Mutex<LoadReporter>,
    began: Instant,
    /// Wakes the task of the server. Only that task waits for it, in one place at a time.
    changed: Notify,
    /// Wakes a close that waits, when a stream has ended.
    stream_ended: Notify,
    event_log: Arc<EventLog>,
    uri: Arc<str>,
}

/// The reason why loads cannot be reported to a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The bootstrap has no such server, with this address, these credentials and these features
    /// (C-083).
    #[error("the bootstrap has no server `{uri}` like this one, and loads go to no other")]
    Unknown {
        /// The URI of the server.
        uri: String,
    },
    /// The server is one of REST or a file.
    #[error("server `{uri}` is not spoken to over gRPC, and loads are reported over nothing else")]
    NoStreams {
        /// The URI of the server.
        uri: String,
    },
}

impl ReportDrivers {
    /// Makes the drivers of these servers.
    pub(crate) fn new(
        servers: &[XdsServer],
        node: Node,
        settings: &Settings,
        event_log: &Arc<EventLog>,
    ) -> Self {
        let node = Arc::new(node);
        let all = servers.iter().zip(0_u64..).map(|(server, place)| {
            let is_streamed = matches!(server.scheme(), Ok(Scheme::Grpc));
            let driver = || {
                // The number differs from that of any stream of discovery, so that they do not
                // retry in step.
                let number = place | (1 << 32);
                let reporter = LoadReporter::new(Arc::clone(&node), settings.clone(), number);
                Arc::new(ReportDriver::new(server, reporter, Arc::clone(event_log)))
            };
            (server.clone(), is_streamed.then(driver))
        });
        Self(all.collect())
    }

    /// Returns the servers that take load reports, each with its driver.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&XdsServer, &Arc<ReportDriver>)> {
        self.0.iter().filter_map(|(server, driver)| Some((server, driver.as_ref()?)))
    }

    /// Returns the driver of a server of the bootstrap; loads are reported to no other (C-083).
    pub(crate) fn find(&self, server: &XdsServer) -> Result<&Arc<ReportDriver>, LoadError> {
        let known = self.0.iter().find(|(known, _)| known == server);
        let uri = || server.uri.clone();
        let (_, driver) = known.ok_or_else(|| LoadError::Unknown { uri: uri() })?;
        driver.as_ref().ok_or_else(|| LoadError::NoStreams { uri: uri() })
    }

    /// Returns a server by its index.
    pub(crate) fn server(&self, place: usize) -> Option<&XdsServer> {
        self.0.get(place).map(|(server, _)| server)
    }

    /// Has all of them send a last report and end their streams.
    pub(crate) fn begin_close(&self) {
        self.drivers().for_each(|driver| driver.update(|reporter, _| reporter.close()));
    }

    /// Waits until there is no stream.
    pub(crate) async fn streams_ended(&self) {
        for driver in self.drivers() {
            let mut ended = pin!(driver.stream_ended.notified());
            loop {
                // Before it is looked, so that no end is missed.
                ended.as_mut().enable();
                if driver.lock().is_at_rest() {
                    break;
                }
                ended.as_mut().await;
                ended.set(driver.stream_ended.notified());
            }
        }
    }

    fn drivers(&self) -> impl Iterator<Item = &Arc<ReportDriver>> {
        self.0.iter().filter_map(|(_, driver)| driver.as_ref())
    }
}

impl ReportDriver {
    fn new(server: &XdsServer, reporter: LoadReporter, event_log: Arc<EventLog>) -> Self {
        Self {
            reporter: Mutex::new(reporter),
            began: Instant::now(),
            changed: Notify::new(),
            stream_ended: Notify::new(),
            event_log,
            uri: server.uri.as_str().into(),
        }
    }

    pub(super) fn join(&self, key: LoadKey) -> Arc<ClusterCounters> {
        self.update(|reporter, now| reporter.add_cluster(now, key))
    }

    pub(super) fn leave(&self, key: &LoadKey) {
        self.update(|reporter, _| reporter.remove_cluster(key));
    }

    /// Waits until a stream is to be opened.
    pub(crate) async fn due(&self) {
        self.wait(|reporter, now| reporter.is_due(now).then_some(())).await;
    }

    /// Waits until no load is reported any more.
    pub(crate) async fn unwanted(&self) {
        self.wait(|reporter, _| (!reporter.is_wanted()).then_some(())).await;
    }

    /// Waits for the next message of a stream that has room for it. The message leaves the machine:
    /// the caller sends it, or gives it [back](Self::report_unsent).
    pub(crate) async fn next(&self) -> LoadMessage {
        self.wait(LoadReporter::next_message).await
    }

    pub(crate) fn opened(&self) {
        self.update(LoadReporter::opened);
    }

    pub(crate) fn ended(&self, error: ErrorDetail) {
        self.update(|reporter, now| reporter.ended(now, error));
        self.stream_ended.notify_waiters();
    }

    pub(crate) fn answered(&self, answer: LoadResponse) {
        self.update(|reporter, now| reporter.answered(now, answer));
    }

    pub(crate) fn report_unsent(&self, report: &LoadReport) {
        self.update(|reporter, now| reporter.not_sent(now, report));
    }

    /// Waits until `ask` returns a value, and calls it whenever that may have changed.
    async fn wait<T>(&self, mut ask: impl FnMut(&mut LoadReporter, Time) -> Option<T>) -> T {
        loop {
            let (answer, deadline) = {
                let mut reporter = self.lock();
                (ask(&mut reporter, self.now()), reporter.deadline())
            };
            if let Some(answer) = answer {
                return answer;
            }
            // A time beyond the range of the clock never comes.
            match deadline.and_then(|at| self.began.checked_add(at.0)) {
                Some(at) => timeout_at(at, self.changed.notified()).await.unwrap_or_default(),
                None => self.changed.notified().await,
            }
        }
    }

    /// Changes the machine, and wakes its task.
    fn update<T>(&self, update: impl FnOnce(&mut LoadReporter, Time) -> T) -> T {
        let mut reporter = self.lock();
        let answer = update(&mut reporter, self.now());
        let events = reporter.take_events();
        drop(reporter);
        self.event_log.loads(&self.uri, &events);
        self.changed.notify_one();
        answer
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    /// Takes the lock, also after a panic: the machine is a plain value, and the keeper reports the
    /// panic.
    fn lock(&self) -> MutexGuard<'_, LoadReporter> {
        self.reporter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
