//! The resources that clients run, as tables or as JSON.

use chancery_core::printable::{PrintForm, Printable, cut, printable};

use super::report::{RunningClient, RunningResource};

/// A head and a table for each client.
pub(super) fn table(clients: &[RunningClient]) -> String {
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
    let head = ["TYPE", "NAME", "VERSION", "STATE", "ERROR"].map(str::to_owned);
    let mut lines = vec![head];
    lines.extend(client.resources.iter().map(cells));
    text + &aligned(&lines)
}

fn cells(resource: &RunningResource) -> [String; 5] {
    let error = resource.error.as_ref().map(|error| {
        let details = cut(&error.details, MAX_ERROR_BYTES);
        match error.version.as_str() {
            "" => Printable(details).to_string(),
            version => format!("{}: {}", Printable(version), Printable(details)),
        }
    });
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    [
        Printable(&resource.r#type).to_string(),
        or_dash(Printable(&resource.name).to_string()),
        or_dash(Printable(&resource.version).to_string()),
        resource.state.name().to_owned(),
        error.unwrap_or_default(),
    ]
}

/// Columns as wide as their longest text.
fn aligned(lines: &[[String; 5]]) -> String {
    let width = |column: usize| lines.iter().map(|it| it[column].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let line = |cells: &[String; 5]| {
        let padded: Vec<_> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(line).collect()
}

/// The bytes of an error that a table shows.
const MAX_ERROR_BYTES: usize = 300;
