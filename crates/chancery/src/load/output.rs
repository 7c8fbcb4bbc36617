//! The output of `load`: rows as a table or as JSON.

use chancery_core::printable::Printable;

use super::By;
use crate::admin::{self, LoadDocument, LoadRow};
use crate::table::table as columns_of;

/// One line for each row, and the head.
pub(super) fn table(document: &LoadDocument, by: By, is_first: bool) -> String {
    let mut lines = vec![head(by)];
    lines.extend(document.rows.iter().map(|row| cells(row, by)));
    let (columns, gap) = (lines[0].len(), if is_first { "" } else { "\n" });
    let text = format!("{gap}{}", columns_of(&lines, columns - NUMBERS.len()..columns));
    match document.count.saturating_sub(document.rows.len()) {
        0 => text,
        more => text + &format!("and {more} more\n"),
    }
}

/// One object on a line for each row.
pub(super) fn json(document: &LoadDocument) -> String {
    document.rows.iter().map(admin::line).collect()
}

fn head(by: By) -> Vec<String> {
    let names: &[&str] = match by {
        By::Cluster => &["CLUSTER"],
        By::Locality => &["CLUSTER", "LOCALITY"],
        By::Endpoint => &["CLUSTER", "LOCALITY", "ENDPOINT"],
        By::Node => &["NODE"],
    };
    names.iter().chain(&NUMBERS).map(ToString::to_string).collect()
}

fn cells(row: &LoadRow, by: By) -> Vec<String> {
    let cluster = || {
        let name = Printable(row.cluster.as_deref().unwrap_or_default()).to_string();
        match &row.service {
            Some(service) => format!("{name} ({})", Printable(service)),
            None => name,
        }
    };
    let mut cells = match by {
        By::Cluster => vec![cluster()],
        By::Locality => vec![cluster(), locality(row)],
        By::Endpoint => {
            let endpoint = Printable(row.endpoint.as_deref().unwrap_or_default()).to_string();
            vec![cluster(), locality(row), endpoint]
        }
        By::Node => vec![Printable(row.node.as_deref().unwrap_or_default()).to_string()],
    };
    cells[0] = if cells[0].is_empty() { "-".to_owned() } else { std::mem::take(&mut cells[0]) };
    let LoadRow { issued, succeeded, failed, in_progress, dropped, .. } = row;
    cells.extend([issued, succeeded, failed, in_progress, dropped].map(ToString::to_string));
    cells.push(rate(row));
    cells
}

/// The calls in a second of the last minute.
fn rate(row: &LoadRow) -> String {
    let Some(minute) = &row.minute else { return "-".to_owned() };
    let tenths = minute.issued / 6;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The place in the form `region/zone/sub-zone`, as far as it is known.
fn locality(row: &LoadRow) -> String {
    let Some(place) = &row.locality else { return "(dropped)".to_owned() };
    let parts = [&place.region, &place.zone, &place.sub_zone];
    let known = parts.iter().rposition(|part| !part.is_empty()).map_or(0, |last| last + 1);
    if known == 0 {
        return "-".to_owned();
    }
    let parts: Vec<_> = parts[..known].iter().map(|part| Printable(part).to_string()).collect();
    parts.join("/")
}

const NUMBERS: [&str; 6] = ["ISSUED", "OK", "FAILED", "NOW", "DROPPED", "PER SECOND"];

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> LoadDocument {
        let locality = r#"{"region":"r","zone":"z\n","sub_zone":""}"#;
        let locality = serde_json::from_str(locality).unwrap();
        let row = LoadRow {
            cluster: Some("orders".to_owned()),
            issued: 1_234,
            succeeded: 1_200,
            failed: 30,
            in_progress: 4,
            ..LoadRow::default()
        };
        let minute = Some(
            serde_json::from_str(r#"{"issued":125,"succeeded":0,"failed":0,"dropped":0}"#).unwrap(),
        );
        let other = LoadRow {
            service: Some("eds".to_owned()),
            locality: Some(locality),
            minute,
            ..row.clone()
        };
        LoadDocument { count: 3, rows: vec![row, other], ..LoadDocument::default() }
    }

    #[test]
    fn names_are_at_the_left_and_numbers_at_the_right() {
        let expected = "\
CLUSTER       LOCALITY   ISSUED    OK  FAILED  NOW  DROPPED  PER SECOND
orders        (dropped)    1234  1200      30    4        0           -
orders (eds)  r/z\\n        1234  1200      30    4        0         2.0
and 1 more
";
        assert_eq!(table(&document(), By::Locality, true), expected);
        assert!(table(&document(), By::Node, false).starts_with("\nNODE  ISSUED"));
    }
}
