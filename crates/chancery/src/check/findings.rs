//! All findings of one directory, in the order in which they are told.

use std::collections::HashMap;

use chancery_catalog::{Audience, Catalog, DanglingReference, ListedEntry};
use chancery_proto::Schema;
use chancery_proto::rules::UnsupportedRule;
use chancery_server::Audiences;
use chancery_sources::{LoadReport, Scope};

use super::codes::{DANGLING, GROUP_WITHOUT_FILES, Severity, UNSUPPORTED_RULE, Weights};
use super::finding::Finding;
use crate::config::Config;
use crate::counts_by_file::CountsByFile;
use crate::finding::Finding as ConfigFinding;
use crate::serve::{Grouping, without_files};

/// All findings.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) all: Vec<Finding>,
    /// The numbers of errors and of warnings that nobody described.
    pub(super) more_errors: CountsByFile,
    pub(super) more_warnings: usize,
    /// The numbers of files and resources, if they were read.
    pub(super) read: Option<(usize, usize)>,
    /// True if the directory could not be read.
    pub(super) is_unreadable: bool,
}

/// The number of dangling references that are told one by one.
const MOST_DANGLING: usize = 1000;

impl Findings {
    /// The fault of a configuration without which nothing can be read.
    pub(super) fn of_config(fault: &ConfigFinding) -> Self {
        Self { all: vec![Finding::from(fault)], ..Self::default() }
    }

    /// The findings of a load.
    pub(super) fn of_load(report: &LoadReport, catalog: &Catalog) -> Self {
        let errors = report.faults.iter().chain(&report.violations).map(Finding::from);
        let warnings = report.present_warnings.iter().filter(|it| it.code != DANGLING);
        let warnings = warnings.map(Finding::from);
        let more_errors = report.more_faults.iter().chain(&report.more_violations).collect();
        // Those about references are told below, with their places.
        let dangling = catalog.dangling().len();
        let more_warnings =
            report.warning_count.saturating_sub(dangling + warnings.clone().count());
        let all = errors.chain(warnings).collect();
        let read = Some((report.files, report.resources));
        let is_unreadable = report.faults.iter().any(|fault| fault.scope == Scope::Directory);
        let mut findings = Self { all, more_errors, more_warnings, read, is_unreadable };
        findings.add_dangling(catalog);
        findings
    }

    /// Adds the references that lead nowhere, each at the resource that has it.
    fn add_dangling(&mut self, catalog: &Catalog) {
        let dangling = catalog.dangling_references();
        if dangling.is_empty() {
            return;
        }
        let mut origins: HashMap<_, Vec<_>> = HashMap::new();
        for ListedEntry { layer, key, entry } in catalog.entries() {
            let key = (key.type_url, key.name);
            origins.entry(key).or_default().push((layer, entry.origin));
        }
        self.more_warnings += dangling.len().saturating_sub(MOST_DANGLING);
        for DanglingReference { reference, audiences } in dangling.iter().take(MOST_DANGLING) {
            let key = (reference.type_url.clone(), reference.name.clone());
            let origins = origins.get(&key).map(Vec::as_slice).unwrap_or_default();
            // The strongest layer of those who lack the target has the resource that they see.
            let layers: Vec<_> = audiences.first().into_iter().flat_map(Audience::layers).collect();
            let mut places = layers.iter().rev().filter_map(|layer| {
                origins.iter().find(|(other, _)| other == layer).map(|(_, origin)| origin)
            });
            self.all.push(Finding::of_dangling(reference, audiences, places.next()));
        }
    }

    /// Adds the rules of message types that are not enforced.
    pub(super) fn add_rules(&mut self, schema: &Schema) {
        let unsupported = schema.rules().unsupported();
        let warning = |it: UnsupportedRule| Finding::warning(UNSUPPORTED_RULE, it.to_string());
        self.all.extend(unsupported.into_iter().map(warning));
    }

    /// Adds the groups that rules name and for which there are no files.
    pub(super) fn add_groups(&mut self, config: &Config, catalog: Catalog) {
        let audiences = Audiences::new(catalog, Grouping::new(config));
        self.all.extend(without_files(&audiences).into_iter().map(|group| {
            let message = format!("group `{group}` has rules and no files below `groups/{group}`");
            Finding::warning(GROUP_WITHOUT_FILES, message)
        }));
    }

    /// The findings as they weigh, without those that are left out, by file and place. Those about no
    /// file come last.
    pub(super) fn weighed(mut self, weights: &Weights) -> Self {
        self.all.retain_mut(|finding| match weights.of(finding.code, finding.severity) {
            Some(severity) => {
                finding.severity = severity;
                true
            }
            None => false,
        });
        self.all.sort_by(|one, other| one.order().cmp(&other.order()));
        self
    }

    /// The number of findings of a weight, with those that nobody described.
    pub(super) fn count(&self, severity: Severity) -> usize {
        let told = self.all.iter().filter(|finding| finding.severity == severity).count();
        let more = match severity {
            Severity::Error => self.more_errors.total(),
            Severity::Warning => self.more_warnings,
        };
        told + more
    }
}
