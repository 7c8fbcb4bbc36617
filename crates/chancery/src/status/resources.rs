//! `chancery status --resource`: one resource, or those whose names begin so, and names near to one that is
//! unknown.

use anyhow::anyhow;
use chancery_core::printable::Printable;

use super::reasons::short;
use super::{ResourceName, StatusArgs, detail, document, formatted};
use crate::admin::{
    ErrorDocument, RESOURCES, ResourceDocument, ResourcesDocument, UNKNOWN_RESOURCE,
};
use crate::admin_client::{AdminClient, encoded};
use crate::exit::Failure;
use crate::table::table;

/// The text about a resource, or about those of a pattern.
pub(super) fn text(
    client: &AdminClient,
    args: &StatusArgs,
    wanted: &ResourceName,
) -> Result<String, Failure> {
    let group = args.group.as_ref().map(|group| format!("&group={}", encoded(group)));
    let group = group.unwrap_or_default();
    if let Some(prefix) = wanted.name.strip_suffix('*') {
        let path = format!("{}&limit={}{group}", list(&wanted.r#type, prefix), args.limit);
        let found: ResourcesDocument = document(client, &client.get(&path)?)?;
        return match found.count {
            0 => Err(none(&wanted.r#type, prefix)),
            _ => Ok(formatted(&found, args, table_of)),
        };
    }
    let (of, name) = (encoded(&wanted.r#type), encoded(&wanted.name));
    let path = format!("{RESOURCES}/{of}/{name}?limit={}{group}", args.limit);
    let reply = client.get(&path)?;
    match reply.error() {
        Some(ErrorDocument { code, message, hint: None }) if code == UNKNOWN_RESOURCE => {
            Err(Failure::negative(anyhow!(message)).hint(near(client, wanted)))
        }
        _ => {
            let found: ResourceDocument = document(client, &reply)?;
            Ok(formatted(&found, args, detail::resource))
        }
    }
}

/// The path of those whose names begin so.
fn list(of: &str, prefix: &str) -> String {
    format!("{RESOURCES}?type={}&prefix={}", encoded(of), encoded(prefix))
}

fn none(of: &str, prefix: &str) -> Failure {
    let (of, prefix) = (Printable(of), Printable(prefix));
    Failure::negative(anyhow!("no resource of `{of}` has a name that begins with `{prefix}`"))
}

/// A hint for a name that nobody has and that is no slip of another one: those that begin so, or have the
/// first word of it.
fn near(client: &AdminClient, ResourceName { r#type, name }: &ResourceName) -> String {
    let word = name.find(|it: char| !it.is_alphanumeric()).map_or(&**name, |end| &name[..end]);
    let begin_so = |prefix: &str| {
        let path = format!("{}&limit={MOST_NEAR}&fields=name", list(r#type, prefix));
        let names: Names = client.document(&client.get(&path).ok()?).ok()?;
        let mut names: Vec<_> = names.resources.into_iter().map(|row| row.name).collect();
        names.dedup();
        (!names.is_empty()).then_some(names)
    };
    let found = [&**name, word].into_iter().filter(|it| !it.is_empty()).find_map(begin_so);
    let all = format!("`chancery status --resource '{}/*'` lists what there is", Printable(r#type));
    match found {
        Some(names) => format!("there are {}; {all}", Printable(names.join(", "))),
        None => all,
    }
}

/// The names of a page.
#[derive(serde::Deserialize)]
struct Names {
    resources: Vec<Name>,
}

#[derive(serde::Deserialize)]
struct Name {
    name: String,
}

/// A line for each resource of each layer.
fn table_of(document: &ResourcesDocument) -> String {
    let head = ["NAME", "LAYER", "VERSION", "REJECTED BY", "FROM"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for row in &document.resources {
        let version = match (&row.version, &row.edit) {
            (Some(version), _) => short(version),
            (None, Some(edit)) => edit,
            (None, None) => "-",
        };
        let place = match row.line {
            0 => row.file.clone(),
            line => format!("{}:{line}", row.file),
        };
        let rejected_by = row.rejected_by.to_string();
        let cells = [&*row.name, &row.layer, version, &rejected_by, &place];
        lines.push(cells.map(|cell| Printable(cell).to_string()).to_vec());
    }
    let text = table(&lines, 3..4);
    match document.count.saturating_sub(document.resources.len()) {
        0 => text,
        more => text + &format!("and {more} more\n"),
    }
}

/// The number of names in a hint.
const MOST_NEAR: usize = 5;
