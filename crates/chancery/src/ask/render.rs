//! Resources as text: the parts of every format of `get` and `watch`.
//!
//! YAML is a stream of documents and protobuf text one `DiscoveryResponse`, so that both can be
//! kept as files and served again; a comment before each resource has the rest. Text from a server
//! reaches the terminal without its control characters.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use anyhow::anyhow;
use chancery_client::options::Variant;
use chancery_client::resource::Resource;
use chancery_client::{Received, TypeUrl};
use chancery_core::ResourceName;
use chancery_core::printable::{PrintForm, printable};
use chancery_core::server::{Response, ResponseEntry};
use chancery_proto::show::{Notation, Viewer};
use chancery_proto::wire::encode_response;

use super::QueryPlan;
use crate::exit::Failure;

/// A resource that was received.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) type_url: TypeUrl,
    pub(crate) name: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) server: Arc<str>,
    pub(crate) resource: Arc<Resource>,
}

/// Writes resources.
pub(crate) struct Renderer {
    viewer: Viewer,
    /// Shows secrets too. A resource has secrets if this shows it differently from `viewer`.
    open: Viewer,
    secrets: bool,
}

impl Row {
    pub(crate) fn new(type_url: &TypeUrl, name: Arc<str>, received: Received<()>) -> Self {
        let Received { resource, version, server, .. } = received;
        Self { type_url: type_url.clone(), name, version, server, resource }
    }
}

impl Renderer {
    pub(crate) fn new(plan: &QueryPlan) -> Self {
        let open = Viewer::new(&plan.schema).with_secrets();
        Self { viewer: plan.viewer.clone(), open, secrets: plan.secrets }
    }

    /// Returns a table for people.
    pub(crate) fn table(&self, rows: &[Row]) -> String {
        let heads = ["TYPE", "NAME", "VERSION", "BYTES", "SERVER"].map(str::to_owned);
        let row = |row: &Row| {
            let bytes = row.resource.body().len().to_string();
            let [short, name, version, server] =
                [row.type_url.short(), &row.name, &row.version, &row.server]
                    .map(|text| plain(text).into_owned());
            [short, name, version, bytes, server]
        };
        columns(&std::iter::once(heads).chain(rows.iter().map(row)).collect::<Vec<_>>())
    }

    /// Returns one document.
    pub(crate) fn yaml(&self, row: &Row) -> String {
        self.shown(Notation::Yaml, row)
    }

    /// Returns one entry of a `DiscoveryResponse`.
    pub(crate) fn text(&self, row: &Row) -> String {
        let mut out = "resources {\n".to_owned();
        for line in self.shown(Notation::Text, row).lines() {
            // A line feed in a value is written as `\n`, so that this changes none.
            out += "  ";
            out += line;
            out.push('\n');
        }
        out + "}\n"
    }

    /// Returns a JSON object, in one line without its end.
    pub(crate) fn json(&self, row: &Row) -> String {
        self.shown(Notation::JsonLine, row).trim_end().to_owned()
    }

    /// Returns a discovery response with these resources of one type, in protobuf's own format.
    ///
    /// # Errors
    /// If a resource has a secret that must not be shown: bytes cannot do without it.
    pub(crate) fn binary(
        &self,
        variant: Variant,
        type_url: &TypeUrl,
        rows: &[Row],
        removed: Vec<Arc<str>>,
    ) -> Result<Vec<u8>, Failure> {
        if let Some(row) = rows.iter().find(|row| !self.secrets && self.has_secrets(row)) {
            let (short, name) = (plain(row.type_url.short()), plain(&row.name));
            let error = anyhow!("{short} `{name}` has secrets, and its bytes cannot do without");
            return Err(Failure::broken(error).hint("`--show-secrets` writes them too"));
        }
        let version = match rows {
            [first, rest @ ..] if rest.iter().all(|row| row.version == first.version) => {
                Arc::clone(&first.version)
            }
            _ => "".into(),
        };
        let response = Response {
            variant,
            type_url: type_url.clone(),
            version,
            nonce: "".into(),
            entries: rows.iter().map(response_entry).collect(),
            removed,
            errors: Vec::new(),
            wrapped: false,
        };
        Ok(encode_response(&response, ""))
    }

    /// Returns the comment before a resource of which only the body is shown.
    pub(crate) fn comment(row: &Row) -> String {
        let (short, name) = (plain(row.type_url.short()), plain(&row.name));
        let mut comment = format!("# {short} {name}");
        if !row.version.is_empty() {
            write!(comment, ", version {}", plain(&row.version)).ok(); // It is a string.
        }
        comment + &format!(", from {}\n", plain(&row.server))
    }

    fn shown(&self, notation: Notation, row: &Row) -> String {
        self.viewer.show(notation, &row.type_url, row.resource.body())
    }

    fn has_secrets(&self, row: &Row) -> bool {
        let body = row.resource.body();
        self.shown(Notation::JsonLine, row)
            != self.open.show(Notation::JsonLine, &row.type_url, body)
    }
}

fn response_entry(row: &Row) -> ResponseEntry {
    // The version in a wrapper is the resource's own.
    let resource = (*row.resource).clone().with_version(&row.version);
    ResponseEntry {
        name: Arc::clone(&row.name),
        aliases: resource.aliases().iter().map(ResourceName::shared).collect(),
        ttl: resource.ttl().is_some(),
        resource: Some(Arc::new(resource)),
        heartbeat: false,
    }
}

/// Returns the text without characters that a terminal would take for orders, in one line.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    printable(text, PrintForm::Line)
}

/// Returns columns as wide as they must be, with texts to the left.
fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            write!(line, "{cell:width$}  ").ok(); // It is a string.
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = [["A", "B"], ["xyz", "1"], ["", "2"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows), "A    B\nxyz  1\n     2\n");
    }
}
