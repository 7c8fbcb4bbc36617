//! Load reports: a program counts its calls, and the servers that ask for it are sent the numbers
//! (LRS).
//!
//! A [`Load`] counts for one cluster. Counting takes a lock of that cluster and locality for a
//! moment, and never waits for a server.

use std::fmt;
use std::sync::Arc;

use chancery_core::Locality;
use chancery_core::client::load::{ClusterCounters, LoadKey, LocalityCounters};
pub use chancery_core::client::load::{OrcaReport, ReportedMetrics};

pub use crate::report_driver::LoadError;
use crate::report_driver::ReportDriver;
use crate::session::Session;

/// Counts the calls to one cluster, for a server. Cloning it is cheap.
///
/// Loads are reported as long as a clone exists or a counted call is in progress. A report is sent
/// once: if the stream breaks before the server has read it, it is lost. Calls that are counted
/// while the server cannot be reached are reported later.
///
/// ```no_run
/// use chancery_client::{Bootstrap, Client, Options};
/// use chancery_client::bootstrap::Locality;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let bootstrap = Bootstrap::discover(None)?;
/// let client = Client::new(&bootstrap, Options::default())?;
/// let load = client.load(&bootstrap.servers[0], "orders", "")?;
/// let here = load.locality(&Locality { zone: "a".to_owned(), ..Locality::default() });
///
/// let call = here.started();
/// match std::net::TcpStream::connect("192.0.2.7:80") {
///     Ok(_) => call.succeeded(),
///     Err(_) => call.failed(),
/// }
/// load.dropped(Some("throttle"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Load {
    cluster: Arc<CountedCluster>,
    metrics: Arc<ReportedMetrics>,
}

/// Counts the calls to one locality of a cluster. Cloning it is cheap.
#[derive(Clone)]
pub struct LocalityLoad {
    load: Load,
    tally: Arc<LocalityCounters>,
}

/// A call that is in progress. A call that is dropped before its end is counted as failed.
#[must_use = "a call that is dropped has failed"]
pub struct Call {
    of: LocalityLoad,
    ended: bool,
}

/// A cluster that reports its load for as long as this lives.
struct CountedCluster {
    tally: Arc<ClusterCounters>,
    key: LoadKey,
    driver: Arc<ReportDriver>,
    /// Keeps the client alive while calls are counted.
    _client: Arc<Session>,
}

impl Load {
    pub(crate) fn new(client: Arc<Session>, driver: Arc<ReportDriver>, key: LoadKey) -> Self {
        let tally = driver.join(key.clone());
        let cluster = CountedCluster { tally, key, driver, _client: client };
        Self { cluster: Arc::new(cluster), metrics: Arc::default() }
    }

    /// Returns the same counter, which also takes the metrics that endpoints report. Reports
    /// contain those that the cluster allows (`lrs_report_endpoint_metrics`). By default the
    /// counter takes none.
    #[must_use]
    pub fn with_metrics(mut self, metrics: ReportedMetrics) -> Self {
        self.metrics = Arc::new(metrics);
        self
    }

    /// Returns the counter of a locality. Keep the result, because each call looks it up again.
    pub fn locality(&self, locality: &Locality) -> LocalityLoad {
        LocalityLoad { load: self.clone(), tally: self.cluster.tally.locality(locality) }
    }

    /// Counts a call that was dropped, under a category of the configuration; `None` is for drops
    /// without one, such as those of circuit breakers.
    pub fn dropped(&self, category: Option<&str>) {
        self.cluster.tally.dropped(category);
    }
}

impl LocalityLoad {
    /// Counts a call that begins.
    pub fn started(&self) -> Call {
        self.begin();
        Call { of: self.clone(), ended: false }
    }

    /// Counts a call that begins, for a program that keeps track of its calls by itself. Each has to
    /// [`end`](Self::end) once.
    pub fn begin(&self) {
        self.tally.started();
    }

    /// Counts the end of a call that had begun, with the metrics that the endpoint reports.
    pub fn end(&self, succeeded: bool, said: Option<&OrcaReport>) {
        self.tally.ended(succeeded, said.map(|said| (said, &*self.load.metrics)));
    }
}

impl Call {
    /// Counts the end of a call that succeeded.
    pub fn succeeded(self) {
        self.end(true, None);
    }

    /// Counts the end of a call that failed.
    pub fn failed(self) {
        self.end(false, None);
    }

    /// Counts the end of a call with the metrics that the endpoint reports.
    pub fn ended(self, succeeded: bool, said: &OrcaReport) {
        self.end(succeeded, Some(said));
    }

    fn end(mut self, succeeded: bool, said: Option<&OrcaReport>) {
        self.ended = true;
        self.of.end(succeeded, said);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.ended {
            self.of.end(false, None);
        }
    }
}

impl Drop for CountedCluster {
    fn drop(&mut self) {
        self.driver.leave(&self.key);
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("key", &self.cluster.key).finish_non_exhaustive()
    }
}

impl fmt::Debug for LocalityLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalityLoad").field("key", &self.load.cluster.key).finish_non_exhaustive()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("key", &self.of.load.cluster.key).finish_non_exhaustive()
    }
}
