//! The output of an earlier run as JSON, line by line: the last line of a resource is its state.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow};
use chancery_client::TypeUrl;
use chancery_client::resource::Resource;
use chancery_core::ResourceName;
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use serde::Deserialize;
use serde_json::Value;

use crate::exit::Failure;

/// The limit for the output of an earlier run. It has a line for each change, and is kept whole while
/// it is read.
const MAX_BYTES: u64 = 4 << 30;

/// A line of `get` or of `watch`.
#[derive(Deserialize)]
struct PrintedLine {
    #[serde(rename = "type")]
    type_url: String,
    name: String,
    version: Option<String>,
    event: Option<String>,
    resource: Option<Value>,
}

/// Reads the resources of an earlier run.
pub(super) fn read(path: &Path, schema: &Schema) -> Result<Vec<(TypeUrl, Resource)>, Failure> {
    let shown = path.display();
    let text = chancery_files::read_to_string(path, MAX_BYTES)
        .with_context(|| format!("cannot read `{shown}`"))?;
    let mut all = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let place = || format!("cannot use `{shown}`: line {}", number + 1);
        let line: PrintedLine = serde_json::from_str(line).with_context(place)?;
        let type_url = TypeUrl::new(&line.type_url);
        let name = ResourceName::read(&line.name).with_context(place)?;
        let key = (type_url, name);
        match (line.event.as_deref(), line.resource) {
            (Some("ambient"), _) => {}
            (None | Some("changed"), Some(resource)) => {
                let version = line.version.unwrap_or_default();
                let found = self::resource(schema, &key, &version, &resource);
                let found = found.with_context(place).map_err(|error| {
                    let error = Failure::broken(error);
                    if resource.to_string().contains("[redacted]") {
                        error.hint("it was printed without its secrets; use `--show-secrets` then")
                    } else {
                        error
                    }
                })?;
                all.insert(key, found);
            }
            _ => {
                all.remove(&key);
            }
        }
    }
    Ok(all.into_iter().map(|((type_url, _), resource)| (type_url, resource)).collect())
}

fn resource(
    schema: &Schema,
    (type_url, name): &(TypeUrl, ResourceName),
    version: &str,
    value: &Value,
) -> anyhow::Result<Resource> {
    let parsed = parse(schema, Format::Json, value.to_string().as_bytes());
    if let Some(fault) = parsed.faults.first() {
        return Err(anyhow!("{}: {}", fault.path, fault.message));
    }
    let mut found = parsed.resources.into_iter().filter(|found| found.type_url == *type_url);
    let found = found.next().ok_or_else(|| anyhow!("it has no `{type_url}`"))?;
    let resource = Resource::new(name.clone(), found.resource.body().clone());
    Ok(resource.with_facts(found.resource.facts().clone()).with_version(version))
}
