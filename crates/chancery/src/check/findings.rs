//! All findings of one directory, in the order in which they are told.

use std::sync::Arc;

use chancery_catalog::{Audience, Catalog};
use chancery_proto::Schema;
use chancery_proto::rules::UnsupportedRule;
use chancery_server::Audiences;
use chancery_sources::{LoadReport, NeededAllowances, Scope};

use super::codes::{self, GROUP_WITHOUT_FILES, Severity, UNSUPPORTED_RULE, Weights};
use super::fields::Fields;
use super::finding::Finding;
use crate::config::{Config, ExternalNames, GateMode};
use crate::counts_by_file::CountsByFile;
use crate::finding::Finding as ConfigFinding;
use crate::serve::{
    CertificateWarnings, Grouping, ReferenceWarnings, say_without_files, without_files,
};

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
    /// The values that nodes have to state, a sentence for each audience.
    pub(super) needs: Vec<String>,
}

impl Findings {
    /// The fault of a configuration without which nothing can be read.
    pub(super) fn of_config(fault: &ConfigFinding) -> Self {
        Self { all: vec![Finding::from(fault)], ..Self::default() }
    }

    /// The findings of a load.
    pub(super) fn of_load(report: &LoadReport) -> Self {
        let errors = report.faults.iter().chain(&report.violations).map(Finding::from);
        let warnings = report.present_warnings.iter().map(Finding::from);
        let more_errors = report.more_faults.iter().chain(&report.more_violations).collect();
        let more_warnings = report.warning_count.saturating_sub(warnings.len());
        let all = errors.chain(warnings).collect();
        let read = Some((report.files, report.resources));
        let is_unreadable = report.faults.iter().any(|fault| fault.scope == Scope::Directory);
        let needs = Vec::new();
        Self { all, more_errors, more_warnings, read, is_unreadable, needs }
    }

    /// Adds the references that lead nowhere, the resources that nothing refers to, and those that Envoy
    /// does not take together, which are errors like the broken rules of one resource. Returns the fields with the
    /// references.
    pub(super) fn add_references(
        &mut self,
        config: &Config,
        catalog: Catalog,
        schema: &Schema,
    ) -> Fields {
        let mut references = ReferenceWarnings::new(catalog, ExternalNames::new(config));
        references.set_clients(config);
        references.look(&mut NeededAllowances::new(Arc::default()));
        let enforces = config.gate.messages == GateMode::Enforce;
        let mut fields = Fields::default();
        for (warning, referring) in references.described() {
            let mut finding = Finding::from(warning);
            if enforces && codes::ERRORS_TOGETHER.contains(&finding.code) {
                finding.severity = Severity::Error;
            }
            if let Some((file, start, path)) = referring.and_then(|it| it.field(schema)) {
                fields.add(self.all.len(), file, start, path);
            }
            self.all.push(finding);
        }
        let (described, count) = references.present();
        self.more_warnings += count.saturating_sub(described.len());
        fields
    }

    /// Adds the values that nodes have to state. A check knows no nodes, so that is no finding.
    pub(super) fn add_needs(&mut self, catalog: &Catalog) {
        let (groups, nodes) = (catalog.groups(), catalog.nodes());
        let groups = groups.iter().map(|name| Audience::of(Some(name.clone()), None));
        let nodes = nodes.iter().map(|id| Audience::of(None, Some(id.clone())));
        let base = Audience::default();
        let of_base = catalog.needs(&base);
        let others = groups.chain(nodes).filter(|it| *catalog.needs(it) != *of_base);
        let sentences = std::iter::once(base).chain(others).filter_map(|audience| {
            let needs = catalog.needs(&audience);
            let named = needs.iter().map(|(variable, _)| format!("`{variable}`"));
            let named = named.collect::<Vec<_>>().join(", ");
            (!named.is_empty()).then(|| format!("{audience}: a node has to state {named}"))
        });
        self.needs = sentences.take(MOST_NEEDS).collect();
    }

    /// Adds the certificates that have expired or soon will, and those with the key of another one.
    pub(super) fn add_certificates(&mut self, schema: &Schema, catalog: Catalog) {
        let mut certificates = CertificateWarnings::new(catalog, schema.clone());
        self.all.extend(certificates.look(|_| true).iter().map(Finding::from));
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
        let known = audiences.catalog().groups();
        self.all.extend(
            without_files(&audiences).into_iter().map(|group| {
                Finding::warning(GROUP_WITHOUT_FILES, say_without_files(&group, &known))
            }),
        );
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

    /// Returns true if everything could be used, and everything found is told.
    pub(super) fn is_whole(&self) -> bool {
        let is_told = self.more_errors.total() == 0 && self.more_warnings == 0;
        is_told && !self.all.iter().any(|finding| codes::is_unusable(finding.code))
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

/// The number of audiences whose needs are told.
const MOST_NEEDS: usize = 50;
