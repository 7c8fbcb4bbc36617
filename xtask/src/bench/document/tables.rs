//! The tables of `docs/benchmarks.md`, and the form of numbers in them.
//!
//! A cell is the median of some runs, in some columns with their spread. Not here: the order of the
//! document (`document`), its texts (`texts`), and the figures (`bench::figures`).

use serde_json::Value;

use crate::bench::figures::{list, median, spread};

/// A table in Markdown.
pub(super) fn table(heads: &[&str], rows: Vec<Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    let mut text = line(&heads);
    text.push_str(&format!("|{}\n", "---|".repeat(heads.len())));
    text.extend(rows.iter().map(|row| line(row)));
    text
}

/// A number with its significant digits.
pub(super) fn number(value: &Value) -> String {
    value.as_f64().map_or_else(|| "none".to_owned(), short)
}

fn short(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        size if size >= 0.1 => format!("{number:.3}"),
        _ => format!("{number:.4}"),
    }
}

/// The median of one side's runs, with its unit.
pub(super) fn runs(goal: &Value, side: &str) -> String {
    let values: Vec<f64> = list(&goal["runs"][side]).iter().filter_map(Value::as_f64).collect();
    let unit = goal["runs_unit"].as_str().unwrap_or_default();
    median(&values).map_or_else(String::new, |median| {
        format!("{} {unit}", short(median)).trim_end().to_owned()
    })
}

/// A column that a comparison can have.
struct Column {
    /// The name of the figure.
    figure: &'static str,
    heading: &'static str,
    /// The divisor that leads to the unit of the heading.
    per: f64,
    spread: Spread,
}

/// The form of the median in a column.
#[derive(Clone, Copy, PartialEq)]
enum Spread {
    Shown,
    Hidden,
}

impl Column {
    const fn plain(figure: &'static str, heading: &'static str, per: f64) -> Self {
        Self { figure, heading, per, spread: Spread::Hidden }
    }

    const fn with_spread(figure: &'static str, heading: &'static str, per: f64) -> Self {
        Self { figure, heading, per, spread: Spread::Shown }
    }

    /// The cell of one series: its median and, if that is shown, the spread of its runs.
    fn cell(&self, series: &Value) -> String {
        let values = values(series, self.figure, self.per);
        let Some(median) = median(&values) else { return String::new() };
        match spread(&values) {
            Some((least, most)) if self.spread == Spread::Shown && values.len() > 1 => {
                format!("{} ({} … {})", short(median), short(least), short(most))
            }
            _ => short(median),
        }
    }
}

/// The columns, in their order.
const COLUMNS: [Column; 23] = [
    Column::with_spread("cpu_us_per_message", "CPU, µs per message", 1.0),
    Column::with_spread("cpu_ms_per_change", "CPU, ms per change", 1.0),
    Column::with_spread("cpu_s", "CPU, s", 1.0),
    Column::plain("first_ms", "first client, ms", 1.0),
    Column::plain("median_ms", "median client, ms", 1.0),
    Column::with_spread("last_ms", "last client, ms", 1.0),
    Column::with_spread("receipt_p99_ms", "p99 of receipts, ms", 1.0),
    Column::plain("answer_p50_ms", "first answer, median client, ms", 1.0),
    Column::plain("answer_last_ms", "first answer, last client, ms", 1.0),
    Column::with_spread("rss_per_stream", "memory per stream, KB", 1e3),
    Column::plain("rss_before", "memory before, MB", 1e6),
    Column::plain("rss_peak", "peak memory, MB", 1e6),
    Column::plain("resource_bytes", "resources received, MB", 1e6),
    Column::with_spread("ready_s", "ready after, s", 1.0),
    Column::with_spread("summary_cpu_ms", "CPU of a summary, ms", 1.0),
    Column::with_spread("node_cpu_ms", "CPU of one node, ms", 1.0),
    Column::with_spread("asked_bytes_per_node", "memory of the answers for each node, KB", 1e3),
    Column::plain("events_per_s", "events in a second", 1.0),
    Column::plain("events_missed", "events missed by all readers", 1.0),
    Column::plain("reports_per_s", "reports in a second", 1.0),
    Column::with_spread("cpu_us_per_report", "CPU, µs per report", 1.0),
    Column::with_spread("core_share", "share of the server's core", 1.0),
    Column::plain("driver_share", "driver's share of its core", 1.0),
];

/// The sides of a comparison, one row each.
pub(super) fn series(comparison: &Value) -> String {
    let all = list(&comparison["series"]);
    let columns: Vec<_> = COLUMNS.iter().filter(|column| shown(all, column.figure)).collect();
    let x_name = all.iter().find_map(|one| one["x_name"].as_str());
    let mut heads = vec!["side"];
    heads.extend(x_name);
    heads.extend(columns.iter().map(|column| column.heading));
    heads.push("runs");
    let rows = all.iter().map(|one| {
        let mut row = vec![one["side"].as_str().unwrap_or_default().to_owned()];
        row.extend(x_name.map(|_| one["x"].as_f64().map_or_else(String::new, rounded)));
        row.extend(columns.iter().map(|column| column.cell(one)));
        row.push(ran(one));
        row
    });
    if all.is_empty() { String::new() } else { table(&heads, rows.collect()) }
}

fn values(series: &Value, name: &str, per: f64) -> Vec<f64> {
    let runs = list(&series["runs"]).iter();
    runs.filter_map(|run| run[name].as_f64()).map(|value| value / per).collect()
}

/// Returns true if the column has values and is of interest. Rounds are shown by their messages and
/// changes, and the memory of connections by idle ones.
fn shown(all: &[Value], name: &str) -> bool {
    const NOT_OF_ROUNDS: [&str; 3] = ["cpu_s", "rss_per_stream", "resource_bytes"];
    let rounds = all.iter().any(|one| has_figure(one, "last_ms"));
    let some = |one| values(one, name, 1.0).iter().any(|value| *value != 0.0);
    all.iter().any(some) && !(rounds && NOT_OF_ROUNDS.contains(&name))
}

/// The value of the varied quantity, without digits after the point.
fn rounded(number: f64) -> String {
    format!("{number:.0}")
}

fn has_figure(series: &Value, name: &str) -> bool {
    !values(series, name, 1.0).is_empty()
}

/// The number of runs, the number of those limited by the driver, and the reason why there are no
/// more.
fn ran(series: &Value) -> String {
    let runs = list(&series["runs"]);
    let bound = runs.iter().filter(|run| run["driver_bound"].as_bool().unwrap_or(false)).count();
    let mut text = runs.len().to_string();
    if bound > 0 {
        text.push_str(&format!(", {bound} driver-bound"));
    }
    if let Some(fault) = series["failed"].as_str() {
        text.push_str(&format!(", then: {}", fault.replace('|', "/")));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_short() {
        let found = [0.0, 0.04567, 0.25, 1.234, 12.34, 1234.5].map(short);
        assert_eq!(found, ["0", "0.0457", "0.250", "1.23", "12.3", "1234"]);
    }

    #[test]
    fn a_side_is_a_row_with_the_columns_that_were_measured() {
        let run = |cpu: f64, bound: bool| json!({"cpu_us_per_message": cpu, "driver_bound": bound});
        let comparison = json!({"series": [
            {"side": "a", "runs": [run(1.0, false), run(3.0, true), run(2.0, false)]},
            {"side": "b", "runs": [], "failed": "no | go"}]});
        let expected = "| side | CPU, µs per message | runs |\n|---|---|---|\n\
                        | a | 2.00 (1.00 … 3.00) | 3, 1 driver-bound |\n\
                        | b |  | 0, then: no / go |\n";
        assert_eq!(series(&comparison), expected);
    }
}
