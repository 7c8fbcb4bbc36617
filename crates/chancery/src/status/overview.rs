//! The output of `status`: the last load, the groups, and the nodes.

use chancery_core::printable::Printable;

use super::reasons::{ago, why};
use crate::admin::{LoadShown, NodeStatusRow, StatusSummary};
use crate::state::utc;
use crate::table::table;

pub(super) fn text(summary: &StatusSummary) -> String {
    let mut text = match &summary.load {
        None => "nothing is loaded\n".to_owned(),
        Some(load) => shown(load, summary.not_landed_for),
    };
    text.extend(summary.not_live.iter().map(|line| not_live(line)));
    if summary.groups.is_empty() {
        return text + "no node is connected\n";
    }
    let head = ["GROUP", "NODES", "IN STEP", "PENDING", "REJECTED", "SILENT", "GONE"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for group in &summary.groups {
        let name = named(group.group.as_deref());
        let counts =
            [group.nodes, group.in_step, group.pending, group.rejected, group.silent, group.gone];
        lines.push([vec![name], counts.map(|count| count.to_string()).to_vec()].concat());
    }
    text += &format!("\n{}", table(&lines, 1..7));
    if !summary.nodes.is_empty() {
        text += &format!("\n{}", nodes(&summary.nodes, summary.count));
    }
    text
}

fn shown(load: &LoadShown, not_landed_for: Option<u64>) -> String {
    let LoadShown { number, at, landed_after_ms, streams, .. } = load;
    let landing = match (landed_after_ms, not_landed_for) {
        (Some(0), _) if *streams == 0 => "landed; nobody was connected".to_owned(),
        (Some(after), _) => format!("landed on {streams} streams after {after} ms"),
        (None, Some(waits)) => format!("not landed for {waits} s"),
        (None, None) => "not landed yet".to_owned(),
    };
    format!("load {number} of {}: {landing}\n", utc(*at))
}

/// An edit that is not live.
pub(super) fn not_live(line: &str) -> String {
    format!("not live: {}\n", Printable(line))
}

/// The nodes, a line each.
pub(crate) fn nodes(rows: &[NodeStatusRow], count: usize) -> String {
    let mut lines = vec![["NODE", "GROUP", "STATE", "SINCE", "WHY"].map(str::to_owned).to_vec()];
    for row in rows {
        lines.push(vec![
            named(Some(&row.id)),
            named(row.group.as_deref()),
            row.state.word().to_owned(),
            ago(row.since),
            why(row),
        ]);
    }
    let text = table(&lines, 3..4);
    match count.saturating_sub(rows.len()) {
        0 => text,
        more => text + &format!("and {more} more\n"),
    }
}

fn named(name: Option<&str>) -> String {
    match name {
        None | Some("") => "-".to_owned(),
        Some(name) => Printable(name).to_string(),
    }
}
