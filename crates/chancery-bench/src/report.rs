//! What a run found: one object for programs, a row of a table for people.

use std::fmt::Write as _;

use serde::Serialize;

use super::percentiles::Percentiles;
use super::xds::Protocol;

/// What was measured in a run. Its JSON is stable: keys stay, and new ones may be added.
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
    /// How many names and versions every client brought.
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

/// What the server's process used.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProcessFigures {
    pub(crate) pid: u32,
    pub(crate) cpu_s: f64,
    pub(crate) cpu_us_per_message: Option<f64>,
    /// Before anybody connected.
    pub(crate) rss_before: u64,
    /// When the measured part began.
    pub(crate) rss_start: u64,
    pub(crate) rss_peak: u64,
    pub(crate) rss_after: u64,
    /// Whether the peak is of the measured part alone.
    pub(crate) peak_exact: bool,
    /// (`rss_after` - `rss_before`) / streams.
    pub(crate) rss_per_stream: f64,
}

/// What came of changes made at a rate.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChurnFigures {
    /// Changes in a second that were asked for, and that were made.
    pub(crate) rate: f64,
    pub(crate) reached: f64,
    pub(crate) publishes: usize,
    /// Responses that covered a change, over changes.
    pub(crate) deliveries_per_publish: f64,
    /// Changes a response covered, on average: 1 is one response for each change.
    pub(crate) coalescing: f64,
}

/// What this process used itself.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DriverFigures {
    pub(crate) cpu_s: f64,
    /// Of the cores it can use.
    pub(crate) share: f64,
    /// It was the driver that was measured, and not the server.
    pub(crate) bound: bool,
}

/// From the trigger to the first, the median and the last stream, over the rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) first: Percentiles,
    pub(crate) median: Percentiles,
    pub(crate) last: Percentiles,
}

impl DriverFigures {
    pub(crate) fn percent(&self) -> String {
        format!("{:.0}%", self.share * 100.0)
    }

    /// What is to be said of the run, if anything.
    pub(crate) fn mark(&self) -> &'static str {
        if self.bound { "driver-bound" } else { "" }
    }
}

/// A table for people: every column as wide as it must be, figures to the right.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            let cells = self.rows.iter().filter_map(|row: &Vec<String>| row.get(column));
            cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                write!(line, "{cell:>width$}  ").ok(); // Writing to a string cannot fail.
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A number with as many digits as mean something.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// The same, or a dash where nothing was measured.
pub(crate) fn maybe(number: Option<f64>) -> String {
    number.map_or_else(|| "-".to_owned(), short)
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_to_the_right() {
        let mut table = Table::new(&["streams", "ms"]);
        table.row(vec!["10".into(), "1234".into()]);
        assert_eq!(table.text(), "streams    ms\n     10  1234\n");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1234.5, 12.34, 1.234].map(short), ["1234", "12.3", "1.23"]);
        assert_eq!(maybe(None), "-");
    }
}
