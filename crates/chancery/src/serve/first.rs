//! The steps before the server runs: the schema, the first load, and the report of its faults.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use chancery_catalog::Audience;
use chancery_core::printable::{PrintForm, printable};
use chancery_proto::schema::Schema;
use chancery_sources::{Directory, LoadReport};
use tracing::warn;

use super::signals::Signals;
use crate::config::Config;
use crate::counts_by_file::{CountsByFile, MOST_TOLD};
use crate::exit::Failure;
use crate::stdout;

/// Prints the configuration as JSON, which is YAML too, so that it can be kept as `chancery.yaml`.
pub(crate) fn print(config: &Config) -> Result<(), Failure> {
    let printed = serde_json::to_string_pretty(config).context("cannot print the configuration")?;
    stdout::write(format!("{}\n", printable(&printed, PrintForm::Json)).as_bytes()).map(drop)
}

/// Refuses a directory that does not exist: that is a mistake in the command, and not an empty
/// configuration.
pub(crate) fn exists(dir: &Path) -> Result<(), Failure> {
    let shown = dir.display();
    let found = fs::metadata(dir).with_context(|| format!("cannot read `{shown}`"))?;
    if found.is_dir() { Ok(()) } else { Err(Failure::broken(anyhow!("`{shown}` is no directory"))) }
}

/// The bundled message types, with those of the descriptor sets.
pub(crate) fn schema(descriptor_sets: &[PathBuf]) -> Result<Schema, Failure> {
    let mut schema = Schema::bundled();
    for path in descriptor_sets {
        let shown = path.display();
        let bytes = chancery_files::read(path, MAX_DESCRIPTOR_SET_BYTES)
            .with_context(|| format!("cannot read `{shown}`"))?;
        schema = schema.with_descriptor_set(&bytes).map_err(|error| {
            let error = anyhow::Error::from(error);
            Failure::negative(error.context(format!("cannot use descriptor set `{shown}`")))
                .hint("make it with `protoc --include_imports --descriptor_set_out=FILE`")
        })?;
    }
    Ok(schema)
}

/// Warns of the rules that are not checked, which only a descriptor set can have.
pub(crate) fn warn_of_rules(schema: &Schema) {
    let unsupported = schema.rules().unsupported();
    unsupported.iter().take(MOST_TOLD).for_each(|rule| warn!("{rule}"));
    if let Some(more) = unsupported.len().checked_sub(MOST_TOLD).filter(|more| *more > 0) {
        warn!("and {more} more rules are not checked; `chancery check` lists them");
    }
}

/// The limit for a descriptor set. All types of Envoy are three megabytes.
const MAX_DESCRIPTOR_SET_BYTES: u64 = 256 << 20;

/// Reads the whole directory once. Returns `None` if the operator stops the process before that is
/// done.
pub(crate) async fn load(
    mut directory: Directory,
    partial: bool,
    signals: &mut Signals,
) -> Result<Option<(Directory, LoadReport)>, Failure> {
    let loading = tokio::task::spawn_blocking(move || {
        let report = directory.load();
        (directory, report)
    });
    tokio::select! {
        loaded = loading => {
            let (directory, report) = loaded.context("the first load failed")?;
            let is_served = directory.catalog().is_served(&Audience::default());
            refuse_faults(&report, partial, is_served).map(|()| Some((directory, report)))
        }
        () = signals.stop() => Ok(None),
    }
}

/// Fails with the first faults of the load and the number of the others, unless there are none, or
/// `partial` accepts them and some nodes are served in spite of them.
fn refuse_faults(report: &LoadReport, partial: bool, is_served: bool) -> Result<(), Failure> {
    if report.faults.is_empty() || (partial && is_served) {
        return Ok(());
    }
    let mut details = String::new();
    for fault in report.faults.iter().take(MOST_TOLD) {
        details += &fault.render();
        details += "\n";
    }
    let mut more: CountsByFile = report.more_faults.iter().collect();
    for fault in report.faults.iter().skip(MOST_TOLD) {
        more.add(&fault.file.display().to_string(), 1);
    }
    if let Some(line) = more.line("fault") {
        details += &format!("and {line}\n\n");
    }
    let faults = match report.fault_count() {
        1 => "1 fault".to_owned(),
        many => format!("{many} faults"),
    };
    Err(Failure::negative(anyhow!("the configuration has {faults}; nothing is served"))
        .details(details)
        .hint(match partial {
            true => "every node needs what has faults; `--state DIR` keeps the last good state over a restart",
            false => "without `allow-partial: false` it would serve what is whole",
        }))
}
