//! The lines of the log about a load: its warnings, its faults, and what it changed.
//!
//! A line is written when it is news, and of very many the first are. Not here: what the admin interface shows
//! (`recorded`).

use std::collections::BTreeSet;

use chancery_sources::{LoadReport, Warning};
use tracing::{error, info, warn};

use super::{ApplierState, ChangeApplier};
use crate::counts_by_file::{CountsByFile, MOST_TOLD};
use crate::finding::Finding;

impl ChangeApplier {
    pub(super) fn log_report(
        &self,
        state: &mut ApplierState,
        report: &LoadReport,
        of_references: &[Warning],
        is_first: bool,
        moved: Option<&str>,
    ) {
        let faults: BTreeSet<Finding> = report.faults.iter().map(Finding::from).collect();
        let more: CountsByFile = report.more_faults.iter().collect();
        let same = faults == state.faults && more == state.more_faults;
        let no_warnings = report.warnings.is_empty() && of_references.is_empty();
        if same && report.layers().is_empty() && no_warnings && !is_first {
            if report.is_requested {
                log_unchanged(report);
            }
            return;
        }
        log_warnings(&report.warnings);
        log_warnings(of_references);
        let known = (&state.faults, &state.more_faults);
        log_faults(faults.difference(known.0), (more != *known.1).then_some(&more));
        let LoadReport { files, resources, .. } = report;
        let layers = report.layers().len();
        let edits = edits(report);
        let edits = edits.as_deref();
        match report.fault_count() {
            0 if state.faults.is_empty() => info!(files, resources, layers, edits, moved, "loaded"),
            0 => info!(files, resources, layers, edits, moved, "loaded; all faults are repaired"),
            faults => {
                warn!(
                    files,
                    resources,
                    layers,
                    faults,
                    edits,
                    moved,
                    "loaded with faults; what they are in stays as it was"
                );
            }
        }
        if is_first {
            state.faulty.say();
        }
        self.metrics.loaded(report.fault_count());
        (state.faults, state.more_faults) = (faults, more);
    }
}

/// The resources that came, changed and went, if it was not the first load.
fn edits(report: &LoadReport) -> Option<String> {
    let revision = report.revision.as_ref().filter(|revision| revision.number > 1)?;
    let told = revision.edits.iter().take(MOST_LAYERS).map(ToString::to_string);
    let mut text = told.collect::<Vec<_>>().join("; ");
    match revision.edits.len().saturating_sub(MOST_LAYERS) {
        0 => {}
        more => text += &format!("; and {more} more layers"),
    }
    (!text.is_empty()).then_some(text)
}

/// The number of layers of which a line tells what changed.
const MOST_LAYERS: usize = 5;

/// Logs that a load which was asked for has no news.
fn log_unchanged(report: &LoadReport) {
    let files = report.files;
    match report.fault_count() {
        0 => info!(files, "the directory was read again: nothing has changed"),
        faults => warn!(
            files,
            faults,
            "the directory was read again: nothing has changed; `/api/v1/config` lists the faults"
        ),
    }
}

/// Logs the first warnings, and the numbers of the others by file.
pub(super) fn log_warnings(warnings: &[Warning]) {
    let mut rest = CountsByFile::default();
    for (index, warning) in warnings.iter().enumerate() {
        match &warning.file {
            _ if index < MOST_TOLD => warn!("{warning}"),
            Some(file) => rest.add(&file.display().to_string(), 1),
            None => rest.add("no file", 1),
        }
    }
    if let Some(line) = rest.line("warning") {
        warn!("and {line}; `/api/v1/config` lists more");
    }
}

/// Logs the first of these faults, and the numbers of the others together with `more`.
fn log_faults<'a>(faults: impl Iterator<Item = &'a Finding>, more: Option<&CountsByFile>) {
    let mut rest = more.cloned().unwrap_or_default();
    for (index, fault) in faults.enumerate() {
        match fault.hint() {
            _ if index >= MOST_TOLD => rest.add(fault.file(), 1),
            Some(hint) => error!(hint, "{fault}"),
            None => error!("{fault}"),
        }
    }
    if let Some(line) = rest.line("fault") {
        error!("and {line}");
    }
}
