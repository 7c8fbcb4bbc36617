//! The output of `get`: resources on stdout.

use std::io::{self, Write};

use chancery_client::TypeUrl;
use chancery_client::options::Variant;
use chancery_core::printable::{PrintForm, printable};
use serde_json::Value;

use super::options::ResourceFormat;
use crate::ask::{Query, QueryPlan, Renderer, Row};
use crate::exit::Failure;
use crate::stdout;

/// Checks that the resources can be written in this format.
pub(super) fn check(format: ResourceFormat, queries: &[Query]) -> Result<(), Failure> {
    let mut types = queries.iter().map(|query| &query.type_url);
    let first = types.next();
    if format == ResourceFormat::Binary && types.any(|other| Some(other) != first) {
        return Err(Failure::misuse("`-o binary` is one response, which has one type"));
    }
    Ok(())
}

/// Writes resources; `false` if nobody reads any more.
pub(super) fn write(
    format: ResourceFormat,
    plan: &QueryPlan,
    rows: &[Row],
) -> Result<bool, Failure> {
    let renderer = Renderer::new(plan);
    if format == ResourceFormat::Table && rows.is_empty() {
        return Ok(true);
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let wrote = match format {
        ResourceFormat::Table => out.write_all(renderer.table(rows).as_bytes()),
        ResourceFormat::Yaml => each(&mut out, rows, |row, first| {
            let mark = if first { "" } else { "---\n" };
            format!("{mark}{}{}", Renderer::comment(row), renderer.yaml(row))
        }),
        ResourceFormat::Json => each(&mut out, rows, |row, _| object(&renderer, row)),
        ResourceFormat::Text => each(&mut out, rows, |row, _| {
            format!("{}{}", Renderer::comment(row), renderer.text(row))
        }),
        ResourceFormat::Binary => out.write_all(&response(&renderer, plan, rows)?),
    };
    stdout::written(wrote.and_then(|()| out.flush()))
}

fn each(
    out: &mut impl Write,
    rows: &[Row],
    mut text: impl FnMut(&Row, bool) -> String,
) -> io::Result<()> {
    rows.iter().enumerate().try_for_each(|(at, row)| out.write_all(text(row, at == 0).as_bytes()))
}

/// Returns a resource as JSON. The keys are a promise to users; new ones may be added at the end.
fn object(renderer: &Renderer, row: &Row) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let object = format!(
        "{{\"type\":{},\"name\":{},\"version\":{},\"resource\":{}}}\n",
        text(row.type_url.as_str()),
        text(&row.name),
        text(&row.version),
        renderer.json(row)
    );
    printable(&object, PrintForm::Json).into_owned()
}

fn response(renderer: &Renderer, plan: &QueryPlan, rows: &[Row]) -> Result<Vec<u8>, Failure> {
    let types = rows.iter().map(|row| &row.type_url);
    let type_url: Option<&TypeUrl> =
        types.chain(plan.queries.iter().map(|query| &query.type_url)).next();
    let Some(type_url) = type_url else { return Ok(Vec::new()) };
    renderer.binary(Variant::Sotw, type_url, rows, Vec::new())
}
