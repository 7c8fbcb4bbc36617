//! Load on an xDS server, this one or any other, and measurements of what it costs.
//!
//! `chancery bench` is the command of this library. [`run()`] makes one run of a [`Scenario`] with
//! many clients and returns a [`Report`]; [`Chart`] draws the figures of several reports.
//!
//! ```text
//!   Options -> RunSettings -> Workload -> ClientThreads -> Connection -> XdsSession -> XdsStream
//!                   |                                          +-----> LoadSession      |
//!                   v                        Measurements <---------------------+
//!                  Run  <- waits, reads -----------+
//!                   |
//!                   v
//!                Report
//! ```
//!
//! The clients have an HTTP/2 implementation of their own (`http2/`), because the load generator
//! has to be cheaper than the server it measures. Of the server's code only the table of types and
//! the names of codes are used, so that a mistake is not measured against itself.
//!
//! Not here: flags, signals, exit codes, and files of reports and charts, which are the command's.

mod activity;
mod address;
mod bytes;
mod chart;
mod client_threads;
mod connection;
mod error;
mod http2;
mod load;
mod measurements;
mod meter;
mod names;
mod options;
mod percentiles;
mod process;
mod progress;
mod report;
mod run;
mod run_settings;
mod scenarios;
mod svg;
mod table;
mod tls;
mod trigger;
mod workload;
mod xds;

use tokio_util::sync::CancellationToken;

// The public interface.
pub use self::address::Server;
pub use self::chart::Chart;
pub use self::error::Error;
pub use self::options::{
    Change, Churn, Clients, LoadClients, NameCount, Options, Reconnect, Rounds, Scenario,
    SlowClients, TlsFiles, Wildcard,
};
pub use self::report::Report;
pub use self::xds::{Node, Protocol, parse_type};

use self::run_settings::RunSettings;
use self::scenarios::{churn, cold_start, fan_out, idle, load_reports, reconnect};

/// Makes one run with so many clients, and reports what was measured.
///
/// The run ends early when `interrupted` is cancelled, and its report says so.
///
/// # Errors
/// The run could not be made.
pub async fn run(
    options: &Options,
    streams: usize,
    interrupted: &CancellationToken,
) -> Result<Report, Error> {
    let settings = RunSettings::new(options, streams, interrupted)?;
    match &options.scenario {
        Scenario::FanOut(rounds)
        | Scenario::WholeState(rounds)
        | Scenario::SlowReaders(rounds)
        | Scenario::FileChange(rounds) => fan_out::run(rounds, settings).await,
        Scenario::Churn(churn) => churn::run(churn, settings).await,
        Scenario::ColdStart { connect } => cold_start::run(*connect, settings).await,
        Scenario::Reconnect(again) => reconnect::run(again, settings).await,
        Scenario::Idle { duration } => idle::run(*duration, settings).await,
        Scenario::LoadReports(load) => load_reports::run(load, settings).await,
    }
}

impl Scenario {
    /// The name of the scenario, as in the command line and in the report.
    fn name(&self) -> &'static str {
        match self {
            Self::FanOut(_) => "fan-out",
            Self::WholeState(_) => "whole-state",
            Self::SlowReaders(_) => "slow-readers",
            Self::FileChange(_) => "file-change",
            Self::Churn(_) => "churn",
            Self::ColdStart { .. } => "cold-start",
            Self::Reconnect(_) => "reconnect",
            Self::Idle { .. } => "idle",
            Self::LoadReports(_) => "load-reports",
        }
    }

    /// Returns the reports of such runs as a table for people, one row for each.
    #[must_use]
    pub fn table(&self, reports: &[Report]) -> String {
        let columns = match self {
            Self::Churn(_) => churn::COLUMNS,
            Self::ColdStart { .. } => cold_start::COLUMNS,
            Self::Reconnect(_) => reconnect::COLUMNS,
            Self::Idle { .. } => idle::COLUMNS,
            Self::LoadReports(_) => load_reports::COLUMNS,
            _ => fan_out::COLUMNS,
        };
        table::table(columns, reports)
    }
}
