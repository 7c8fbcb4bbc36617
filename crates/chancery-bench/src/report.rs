//! The report of a run: what was measured, as JSON for programs.
//!
//! Not here: the table for people (`table.rs`).

use serde::Serialize;

use super::percentiles::Percentiles;
use super::xds::Protocol;

/// The figures of a run. Their JSON is stable: keys stay, and new ones may be added.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub(crate) scenario: &'static str,
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) aggregated: bool,
    pub(crate) types: Vec<String>,
    pub(crate) names: Vec<u32>,
    pub(crate) streams: usize,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    pub(crate) messages: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) resources: u64,
    pub(crate) resource_bytes: u64,
    pub(crate) wire_bytes: u64,
    pub(crate) wall_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) process: Option<ProcessFigures>,
    pub(crate) driver: DriverFigures,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_ms: Option<Latency>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receipt_ms: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_answer_ms: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) churn: Option<ChurnFigures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<LoadFigures>,
    /// The number of names and versions that every client sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<usize>,
    pub(crate) interrupted: bool,
    pub(crate) errors: Vec<String>,
}

impl Report {
    /// The number of streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Returns true if the run was ended before it was done.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// The faults in words: streams that were lost, changes that did not reach all of them.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        &self.errors
    }
}

/// The resources that the server's process used.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProcessFigures {
    pub(crate) pid: u32,
    pub(crate) cpu_s: f64,
    pub(crate) cpu_us_per_message: Option<f64>,
    /// The memory before any client connected.
    pub(crate) rss_before: u64,
    /// The memory when the measured part began.
    pub(crate) rss_start: u64,
    pub(crate) rss_peak: u64,
    pub(crate) rss_after: u64,
    /// The peak is that of the measured part alone.
    pub(crate) peak_exact: bool,
    /// The memory of one stream: (`rss_after` - `rss_before`) / streams.
    pub(crate) rss_per_stream: f64,
}

/// The figures of changes made at a rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChurnFigures {
    /// The changes in a second that were asked for.
    pub(crate) rate: f64,
    /// The changes in a second that were made.
    pub(crate) reached: f64,
    pub(crate) publishes: usize,
    /// The number of responses that covered a change, over the number of changes.
    pub(crate) deliveries_per_publish: f64,
    /// The average number of changes that a response covered: 1 is one response for each change.
    pub(crate) coalescing: f64,
}

/// The figures of load reports.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadFigures {
    /// The clusters in a report, and the localities of each.
    pub(crate) clusters: u32,
    pub(crate) localities: u32,
    /// The calls that a report has for each locality.
    pub(crate) calls_per_row: u64,
    /// The reports in the measured part.
    pub(crate) reports: u64,
    pub(crate) reports_per_s: f64,
    pub(crate) cpu_us_per_report: Option<f64>,
    /// The CPU time of the server, over the time.
    pub(crate) core_share: Option<f64>,
}

/// The resources that the load generator used.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DriverFigures {
    pub(crate) cpu_s: f64,
    /// The share of the cores it can use.
    pub(crate) share: f64,
    /// The share is so large that the load generator was measured, and not the server.
    pub(crate) bound: bool,
}

/// The time from a change to the first, the median and the last stream, over the rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) first: Percentiles,
    pub(crate) median: Percentiles,
    pub(crate) last: Percentiles,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_json_are_those_that_were_promised() {
        let times = Percentiles::default();
        let report = Report {
            scenario: "fan-out",
            server: String::new(),
            label: Some(String::new()),
            protocol: Protocol::Delta,
            aggregated: true,
            types: Vec::new(),
            names: Vec::new(),
            streams: 0,
            connections: 0,
            threads: 0,
            rounds: 0,
            messages: 0,
            payload_bytes: 0,
            resources: 0,
            resource_bytes: 0,
            wire_bytes: 0,
            wall_s: 0.0,
            process: Some(ProcessFigures {
                pid: 0,
                cpu_s: 0.0,
                cpu_us_per_message: None,
                rss_before: 0,
                rss_start: 0,
                rss_peak: 0,
                rss_after: 0,
                peak_exact: false,
                rss_per_stream: 0.0,
            }),
            driver: DriverFigures { cpu_s: 0.0, share: 0.0, bound: false },
            latency_ms: Some(Latency { first: times, median: times, last: times }),
            receipt_ms: Some(times),
            first_answer_ms: Some(times),
            churn: Some(ChurnFigures {
                rate: 0.0,
                reached: 0.0,
                publishes: 0,
                deliveries_per_publish: 0.0,
                coalescing: 0.0,
            }),
            load: Some(LoadFigures {
                clusters: 0,
                localities: 0,
                calls_per_row: 0,
                reports: 0,
                reports_per_s: 0.0,
                cpu_us_per_report: Some(0.0),
                core_share: Some(0.0),
            }),
            held: Some(0),
            interrupted: false,
            errors: Vec::new(),
        };
        let times = r#"{"p50":0.0,"p90":0.0,"p99":0.0,"max":0.0}"#;
        let expected = [
            r#"{"scenario":"fan-out","server":"","label":"","protocol":"delta","aggregated":true,"#,
            r#""types":[],"names":[],"streams":0,"connections":0,"threads":0,"rounds":0,"#,
            r#""messages":0,"payload_bytes":0,"resources":0,"resource_bytes":0,"wire_bytes":0,"#,
            r#""wall_s":0.0,"process":{"pid":0,"cpu_s":0.0,"cpu_us_per_message":null,"#,
            r#""rss_before":0,"rss_start":0,"rss_peak":0,"rss_after":0,"peak_exact":false,"#,
            r#""rss_per_stream":0.0},"driver":{"cpu_s":0.0,"share":0.0,"bound":false},"#,
            r#""latency_ms":{"first":TIMES,"median":TIMES,"last":TIMES},"receipt_ms":TIMES,"#,
            r#""first_answer_ms":TIMES,"churn":{"rate":0.0,"reached":0.0,"publishes":0,"#,
            r#""deliveries_per_publish":0.0,"coalescing":0.0},"load":{"clusters":0,"localities":0,"#,
            r#""calls_per_row":0,"reports":0,"reports_per_s":0.0,"cpu_us_per_report":0.0,"#,
            r#""core_share":0.0},"held":0,"interrupted":false,"#,
            r#""errors":[]}"#,
        ];
        let expected = expected.concat().replace("TIMES", times);
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
    }
}
