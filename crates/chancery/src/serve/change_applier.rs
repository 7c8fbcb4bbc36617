//! The consequences of a change of the directory or of `chancery.yaml`: groups, audiences, log
//! lines, and the faults that the admin interface shows.
//!
//! All of it happens under one lock, so that changes take effect one after the other, and each
//! fault is logged once. Not here: the loading of the directory (`chancery_sources`), and the check
//! whether `chancery.yaml` changed (`config::file`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_catalog::Author;
use chancery_proto::document::Checks;
use chancery_server::Audiences;
use chancery_sources::{LoadReport, Scope, Warning};
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::audiences::{say_without_files, without_files};
use super::certificate_warnings::CertificateWarnings;
use super::gate;
use super::grouping::Grouping;
use super::held;
use super::metrics::LoadMetrics;
use super::reference_warnings::ReferenceWarnings;
use super::rules::{self, WantedRules};
use crate::admin::{Admin, LoadFindings};
use crate::config::{ConfigChange, ConfigFile, ExternalNames, FILE};
use crate::counts_by_file::{CountsByFile, MOST_TOLD};
use crate::finding::Finding;
use crate::gate::{Held, LoadGate, NotConfirmed, Selection, Token};

/// Applies changes of the directory and of `chancery.yaml`, and logs them.
pub(crate) struct ChangeApplier {
    audiences: Audiences<Grouping>,
    admin: Arc<Admin>,
    metrics: LoadMetrics,
    /// The checks of the directory, for whoever follows it.
    checks: watch::Sender<Checks>,
    gate: LoadGate,
    state: Mutex<ApplierState>,
}

struct ApplierState {
    file: ConfigFile,
    /// The faults that were logged last, so that each is logged once.
    faults: BTreeSet<Finding>,
    /// The numbers of those that the report had no place for.
    more_faults: CountsByFile,
    /// The first of the present warnings of the directory, and the number of them all.
    warnings: (Arc<Vec<Warning>>, usize),
    references: ReferenceWarnings,
    certificates: CertificateWarnings,
    config_fault: Option<Finding>,
    /// The rules of `chancery.yaml`, if they are not in force.
    rules: Option<WantedRules>,
    without_files: BTreeSet<String>,
    /// The fault of the whole directory at the last load, if it was not there, or had no files any more.
    /// It holds back everything.
    directory_fault: Option<String>,
    /// True if the settings of the gate have changed since it judged.
    is_gate_changed: bool,
}

impl ChangeApplier {
    /// An applier that has seen no change yet.
    pub(crate) fn new(
        audiences: Audiences<Grouping>,
        admin: Arc<Admin>,
        metrics: LoadMetrics,
        checks: watch::Sender<Checks>,
        file: ConfigFile,
        external: ExternalNames,
        gate: LoadGate,
    ) -> Self {
        let references = ReferenceWarnings::new(audiences.catalog().clone(), external);
        let certificates =
            CertificateWarnings::new(audiences.catalog().clone(), gate.schema().clone());
        let state = ApplierState {
            file,
            faults: BTreeSet::new(),
            more_faults: CountsByFile::default(),
            warnings: (Arc::default(), 0),
            references,
            certificates,
            config_fault: None,
            rules: None,
            without_files: BTreeSet::new(),
            directory_fault: None,
            is_gate_changed: false,
        };
        Self { audiences, admin, metrics, checks, gate, state: Mutex::new(state) }
    }

    /// Takes the report of a load. Rules that were changed together with the directory take effect
    /// with it.
    pub(crate) fn loaded(&self, report: &LoadReport) {
        let mut state = self.lock();
        let of_directory = report.faults.iter().find(|fault| fault.scope == Scope::Directory);
        state.directory_fault = of_directory.map(ToString::to_string);
        let whole = state.directory_fault.is_none();
        let changed = state.file.look_now(whole);
        if let Some(changed) = changed {
            self.configured(&mut state, changed);
        }
        if let Some(revision) = &report.revision {
            self.audiences.follow(revision);
        }
        self.apply_rules(&mut state);
        let mut of_references = state.references.look();
        of_references.extend(state.certificates.look());
        self.log_report(&mut state, report, &of_references);
        state.warnings = (Arc::clone(&report.present_warnings), report.warning_count);
        self.judge_if_changed(&mut state);
        self.record(&mut state);
    }

    /// Checks `chancery.yaml`, which may have changed alone.
    pub(crate) fn check_config(&self) {
        let mut state = self.lock();
        let whole = state.directory_fault.is_none();
        let Some(changed) = state.file.look(whole) else { return };
        self.configured(&mut state, changed);
        log_warnings(&state.references.look());
        self.judge_if_changed(&mut state);
        self.record(&mut state);
    }

    /// Checks if something was held back for as long as the settings say.
    pub(crate) fn check_gate(&self) {
        if self.gate.is_due() {
            let mut state = self.lock();
            self.judge_again(GATE);
            self.apply_rules(&mut state);
            self.record(&mut state);
        }
    }

    /// Checks if certificates have come to their end meanwhile.
    pub(crate) fn check_certificates(&self) {
        let mut state = self.lock();
        let new = state.certificates.look();
        if !new.is_empty() {
            log_warnings(&new);
            self.record(&mut state);
        }
    }

    /// Lets what is held back from these audiences pass, if it has this token. Returns what passed.
    ///
    /// # Errors
    /// If nothing is held back there, or another content.
    pub(crate) fn confirm(&self, whom: &Selection, token: &str) -> Result<Vec<Held>, NotConfirmed> {
        let mut state = self.lock();
        let confirmed = self.gate.confirm(whom, token)?;
        self.judge_again("chancery confirm");
        self.apply_rules(&mut state);
        let still_held = self.gate.end_confirmation(&confirmed);
        self.record(&mut state);
        match still_held.is_empty() {
            true => Ok(confirmed),
            false => Err(NotConfirmed::Changed(Token::of_all(&still_held))),
        }
    }

    fn judge_if_changed(&self, state: &mut ApplierState) {
        if std::mem::take(&mut state.is_gate_changed) {
            self.judge_again(GATE);
            self.apply_rules(state);
        }
    }

    /// Has the gate judge again what it holds back, and shows what passes.
    fn judge_again(&self, author: impl Into<Author>) {
        if let Some(revision) = self.audiences.catalog().judge_again(author) {
            self.audiences.follow(&revision);
        }
    }

    /// Takes a changed `chancery.yaml`, as far as it can be used.
    fn configured(&self, state: &mut ApplierState, changed: ConfigChange) {
        match changed {
            ConfigChange::Usable { config, restart } => {
                state.config_fault = None;
                let is_missing = state.file.is_missing();
                if !restart.is_empty() {
                    warn!(keys = restart.join(", "), "a restart brings these keys into force");
                }
                state.references.set_external(ExternalNames::new(&config));
                if self.gate.configure(&config) {
                    gate::say_mode(&config.gate);
                    state.is_gate_changed = true;
                }
                self.audiences.extend(config.groups.lineage().clone(), FILE);
                state.rules = Some(WantedRules::new(Grouping::new(&config)));
                let are_in_force = self.apply_rules(state);
                match (is_missing, are_in_force) {
                    (true, true) => warn!("chancery.yaml is gone; the defaults are in force"),
                    (false, true) => info!(
                        "chancery.yaml changed; its groups, external names and gate are in force"
                    ),
                    (true, false) => warn!(
                        "chancery.yaml is gone; the defaults are in force, and the rules of groups wait"
                    ),
                    (false, false) => warn!(
                        "chancery.yaml changed; its external names and gate are in force, and the \
                         rules of its groups wait"
                    ),
                }
                let checks = config.gate.checks();
                self.checks.send_if_modified(|now| std::mem::replace(now, checks) != checks);
            }
            ConfigChange::Unusable(invalid) => {
                let finding = invalid.finding();
                error!("chancery.yaml cannot be used, what was in force stays: {finding}");
                state.config_fault = Some(finding);
            }
        }
        self.metrics.config(state.config_fault.is_some());
    }

    /// Puts rules in force that are not, unless the gate holds the moves of nodes back. Returns true if none wait.
    fn apply_rules(&self, state: &mut ApplierState) -> bool {
        let Some(mut rules) = state.rules.take() else { return true };
        if *rules.grouping() == *self.audiences.assignment() {
            return self.gate.lets_move(&[]);
        }
        let moves = rules.moves(&self.audiences);
        let pass = self.gate.lets_move(&moves);
        if pass {
            rules::say(&moves);
            self.audiences.assign(rules.grouping().clone());
        } else {
            state.rules = Some(rules);
        }
        pass
    }

    fn log_report(&self, state: &mut ApplierState, report: &LoadReport, of_references: &[Warning]) {
        let faults: BTreeSet<Finding> = report.faults.iter().map(Finding::from).collect();
        let more: CountsByFile = report.more_faults.iter().collect();
        let same = faults == state.faults && more == state.more_faults;
        let no_warnings = report.warnings.is_empty() && of_references.is_empty();
        if same && report.layers().is_empty() && no_warnings {
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
            0 if state.faults.is_empty() => info!(files, resources, layers, edits, "loaded"),
            0 => info!(files, resources, layers, edits, "loaded; all faults are repaired"),
            faults => {
                warn!(
                    files,
                    resources,
                    layers,
                    faults,
                    edits,
                    "loaded with faults; what they are in stays as it was"
                );
            }
        }
        self.metrics.loaded(report.fault_count());
        (state.faults, state.more_faults) = (faults, more);
    }

    /// Records the present faults and warnings, and what is held back, for the admin interface.
    fn record(&self, state: &mut ApplierState) {
        let (held, news) = (Arc::new(self.gate.held()), self.gate.take_news());
        let without_files = without_files(&self.audiences);
        let known = self.audiences.catalog().groups();
        for name in without_files.difference(&state.without_files) {
            warn!("{}", say_without_files(name, &known));
        }
        state.without_files = without_files;
        let faults = state.config_fault.iter().chain(&state.faults).cloned().collect();
        let (mut warnings, mut warning_count) = state.warnings.clone();
        let (of_references, more) = state.references.present();
        let of_certificates = state.certificates.present();
        let more = more + of_certificates.len();
        if more > 0 {
            let all =
                warnings.iter().chain(of_certificates).chain(of_references).take(MOST_PRESENT);
            (warnings, warning_count) = (Arc::new(all.cloned().collect()), warning_count + more);
        }
        let more_faults = state.more_faults.clone();
        self.admin.loaded.record(LoadFindings {
            faults,
            more_faults,
            warnings,
            warning_count,
            everything_held_back: state.directory_fault.clone(),
            held: Arc::clone(&held),
        });
        // Whoever reads of it in the log finds it in `/config` and `/metrics`.
        held::tell(&news, &held, &self.metrics);
    }

    fn lock(&self) -> MutexGuard<'_, ApplierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of warnings that `/config` lists.
const MOST_PRESENT: usize = 1000;
/// The author of what passes because of the settings.
const GATE: &str = "gate";

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
            faults, "the directory was read again: nothing has changed; `/config` lists the faults"
        ),
    }
}

/// Logs the first warnings, and the numbers of the others by file.
fn log_warnings(warnings: &[Warning]) {
    let mut rest = CountsByFile::default();
    for (index, warning) in warnings.iter().enumerate() {
        match &warning.file {
            _ if index < MOST_TOLD => warn!("{warning}"),
            Some(file) => rest.add(&file.display().to_string(), 1),
            None => rest.add("no file", 1),
        }
    }
    if let Some(line) = rest.line("warning") {
        warn!("and {line}; `/config` lists more");
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
