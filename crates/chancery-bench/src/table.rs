//! A table of runs for people: every column as wide as it must be, figures to the right.

use std::fmt::Write as _;

use super::report::Report;

/// A column: its head, and its cell in the row of a run.
pub(crate) type Column = (&'static str, fn(&Report) -> String);

/// The table of some runs, one row for each.
pub(crate) fn table(columns: &[Column], reports: &[Report]) -> String {
    let heads = columns.iter().map(|(head, _)| (*head).to_owned()).collect();
    let row = |report| columns.iter().map(|(_, cell)| cell(report)).collect();
    aligned(&std::iter::once(heads).chain(reports.iter().map(row)).collect::<Vec<_>>())
}

/// Rows of as many cells each, as lines.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            write!(line, "{cell:>width$}  ").ok(); // Writing to a string cannot fail.
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(crate) const STREAMS: Column = ("streams", |report| report.streams.to_string());
pub(crate) const ROUNDS: Column = ("rounds", |report| report.rounds.to_string());
pub(crate) const MESSAGES: Column = ("messages", |report| report.messages.to_string());
pub(crate) const PAYLOAD: Column = ("MB", |report| short(megabytes(report.payload_bytes)));
pub(crate) const FIRST_MEDIAN: Column =
    ("median ms", |report| maybe(report.first_answer_ms.map(|times| times.p50)));
pub(crate) const FIRST_LAST: Column =
    ("last ms", |report| maybe(report.first_answer_ms.map(|times| times.max)));
pub(crate) const CPU_PER_MESSAGE: Column = ("server µs/msg", |report| {
    maybe(report.process.as_ref().and_then(|process| process.cpu_us_per_message))
});
pub(crate) const CPU_PER_STREAM: Column = ("server ms/stream", |report| {
    let streams = report.streams as f64;
    maybe(report.process.as_ref().map(|process| process.cpu_s * 1e3 / streams))
});
pub(crate) const PEAK: Column =
    ("peak MB", |report| maybe(report.process.as_ref().map(|process| megabytes(process.rss_peak))));
pub(crate) const DRIVER: Column =
    ("driver", |report| format!("{:.0}%", report.driver.share * 100.0));
/// A remark where the driver was measured and not the server.
pub(crate) const REMARK: Column =
    ("", |report| if report.driver.bound { "driver-bound".to_owned() } else { String::new() });

/// A number with as many digits as mean something.
pub(crate) fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A number as [`short`] writes it, or a dash where nothing was measured.
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
        let rows = [["streams", "ms"], ["10", "1234"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), "streams    ms\n     10  1234\n");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1234.5, 12.34, 1.234].map(short), ["1234", "12.3", "1.23"]);
        assert_eq!(maybe(None), "-");
    }
}
