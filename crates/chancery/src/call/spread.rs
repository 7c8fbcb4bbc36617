//! The places that calls went to, with their codes and latencies, as a table.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::anyhow;
use chancery_core::printable::{MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Printable, cut};
use chancery_grpc::CallPlace;
use tonic::Code;

use super::codes;
use super::one::CallReport;
use crate::exit::Failure;
use crate::table::table;

/// The calls that have ended.
#[derive(Default)]
pub(super) struct Spread {
    /// By cluster, locality and endpoint.
    rows: BTreeMap<[String; 3], Row>,
    /// The first message of each code that is not OK.
    messages: BTreeMap<i32, String>,
    calls: u32,
    tried_again: u32,
    failed: u32,
    answered: u32,
}

#[derive(Default)]
struct Row {
    codes: BTreeMap<i32, u32>,
    took: Vec<Duration>,
}

impl Spread {
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }

    /// Takes the end of a call.
    pub(super) fn take(&mut self, report: &CallReport) {
        let unknown = || ["-", "-", "-"].map(str::to_owned);
        let key = report.place.as_ref().map_or_else(unknown, |place| {
            let cluster = Printable(cut(place.cluster(), MAX_NAME_BYTES)).to_string();
            [cluster, place.locality().to_string(), place.endpoint()]
        });
        let row = self.rows.entry(key).or_default();
        *row.codes.entry(report.code.into()).or_default() += 1;
        row.took.push(report.took);
        self.calls += 1;
        let attempts = report.place.as_ref().map_or(0, CallPlace::attempts);
        self.tried_again += u32::from(attempts > 1);
        self.answered += u32::from(report.place.is_some());
        if report.code != Code::Ok {
            self.failed += 1;
            let message = || Printable(cut(&report.message, MAX_MESSAGE_BYTES)).to_string();
            self.messages.entry(report.code.into()).or_insert_with(message);
        }
    }

    /// Returns the table, and how many calls had another attempt, if any had.
    pub(super) fn table(&mut self) -> String {
        let head = ["CLUSTER", "LOCALITY", "ENDPOINT", "CALLS", "MEDIAN", "99%", "CODES"];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (key, row) in &mut self.rows {
            row.took.sort_unstable();
            let calls = row.took.len().to_string();
            let times = [50, 99].map(|percent| millis(percentile(&row.took, percent)));
            let codes = row
                .codes
                .iter()
                .map(|(code, count)| format!("{} {count}", codes::name(Code::from_i32(*code))));
            let codes = codes.collect::<Vec<_>>().join(", ");
            let cells = key.iter().cloned().chain([calls]).chain(times).chain([codes]);
            lines.push(cells.collect());
        }
        let mut text = table(&lines, 3..6);
        if self.tried_again > 0 {
            text += &format!("{} of {} calls were tried again\n", self.tried_again, self.calls);
        }
        text
    }

    /// Returns a failure unless all calls have ended with OK.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        if self.failed == 0 {
            return Ok(());
        }
        let told: Vec<_> = self
            .messages
            .iter()
            .map(|(code, message)| format!("{}: {message}", codes::name(Code::from_i32(*code))))
            .collect();
        let failure = if self.answered > 0 { Failure::negative } else { Failure::broken };
        if self.calls == 1 {
            return Err(failure(anyhow!("{}", told.join(""))));
        }
        let why = anyhow!("{} of {} calls failed", self.failed, self.calls);
        Err(failure(why).details(told.iter().map(|line| format!("{line}\n")).collect::<String>()))
    }
}

/// Returns the value below or at which so many of a hundred are, of sorted ones.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Returns a time in milliseconds.
pub(super) fn millis(time: Duration) -> String {
    format!("{:.1}ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn report(code: Code, millis: u64) -> CallReport {
        CallReport {
            place: None,
            code,
            message: "no\u{1b}".to_owned(),
            took: Duration::from_millis(millis),
            headers: HeaderMap::new(),
            trailers: HeaderMap::new(),
        }
    }

    #[test]
    fn calls_are_counted_by_place() {
        let mut spread = Spread::default();
        for took in 1..=100 {
            spread.take(&report(if took > 98 { Code::NotFound } else { Code::Ok }, took));
        }
        let expected = "\
CLUSTER  LOCALITY  ENDPOINT  CALLS  MEDIAN     99%  CODES
-        -         -           100  50.0ms  99.0ms  OK 98, NOT_FOUND 2
";
        assert_eq!(spread.table(), expected);
        let told = spread.verdict().unwrap_err().to_string();
        assert_eq!(told, "NOT_FOUND: no\\u{1b}\nchancery: 2 of 100 calls failed\n");
    }

    #[test]
    fn one_call_is_told_by_its_status() {
        let mut spread = Spread::default();
        spread.take(&report(Code::Unavailable, 1));
        let told = spread.verdict().unwrap_err().to_string();
        assert_eq!(told, "chancery: UNAVAILABLE: no\\u{1b}\n");
        assert!(Spread::default().verdict().is_ok());
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
