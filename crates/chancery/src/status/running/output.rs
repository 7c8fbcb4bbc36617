//! The resources that clients run, as tables or as JSON.

use chancery_core::printable::{PrintForm, Printable, cut, printable};

use super::compare::Verdict;
use super::report::{RunningClient, RunningResource};
use crate::table;

/// A head and a table for each client.
pub(super) fn tables(clients: &[RunningClient]) -> String {
    let tables: Vec<_> = clients.iter().map(client).collect();
    match tables.is_empty() {
        true => "nothing is known of any client\n".to_owned(),
        false => tables.join("\n"),
    }
}

/// One object on a line for each client.
pub(super) fn json(clients: &[RunningClient]) -> String {
    let object = |client| {
        let object = serde_json::to_string(client).unwrap_or_default();
        printable(&object, PrintForm::Json).into_owned() + "\n"
    };
    clients.iter().map(object).collect()
}

fn client(client: &RunningClient) -> String {
    let mut text = match client.node.as_str() {
        "" => "node: not stated\n".to_owned(),
        node => format!("node: {}\n", Printable(node)),
    };
    if !client.scope.is_empty() {
        text += &format!("scope: {}\n", Printable(&client.scope));
    }
    for target in &client.waiting {
        text += &format!("waits for {}\n", Printable(target));
    }
    let is_compared = client.is_compared();
    let head: &[&str] = match is_compared {
        true => &["TYPE", "NAME", "VERSION", "RUNS", "SENT", "VERDICT", "ERROR"],
        false => &["TYPE", "NAME", "VERSION", "STATE", "ERROR"],
    };
    let mut lines = vec![head.iter().map(ToString::to_string).collect()];
    lines.extend(client.resources.iter().map(|resource| cells(resource, is_compared)));
    text + &table::table(&lines, 0..0)
}

fn cells(resource: &RunningResource, is_compared: bool) -> Vec<String> {
    let error = resource.error.as_ref().map(|error| {
        let details = cut(&error.details, MAX_ERROR_BYTES);
        match error.version.as_str() {
            "" => Printable(details).to_string(),
            version => format!("{}: {}", Printable(version), Printable(details)),
        }
    });
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let mut cells = vec![
        Printable(&resource.r#type).to_string(),
        or_dash(Printable(&resource.name).to_string()),
        or_dash(Printable(&resource.version).to_string()),
        resource.state.name().to_owned(),
    ];
    if is_compared {
        cells.push(resource.sent.unwrap_or("-").to_owned());
        cells.push(resource.verdict.map_or("-", Verdict::name).to_owned());
    }
    cells.push(error.unwrap_or_default());
    cells
}

/// The bytes of an error that a table shows.
const MAX_ERROR_BYTES: usize = 300;
