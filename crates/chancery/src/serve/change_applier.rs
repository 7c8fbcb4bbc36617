//! The consequences of a change of the directory or of `chancery.yaml`: groups, audiences, log
//! lines, and the faults that the admin interface shows.
//!
//! All of it happens under one lock, so that changes take effect one after the other, and each
//! fault is logged once. Each part is in a file of its own: the lines of a load (`told`), a changed
//! `chancery.yaml` (`configured`), what follows from the time (`later`), confirmations (`confirming`), and the
//! faults of now (`recorded`). Not here: the loading of the directory (`chancery_sources`), and the check whether
//! `chancery.yaml` changed (`config::file`).

mod configured;
mod confirming;
mod later;
mod recorded;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use chancery_catalog::{Author, OverlayNames};
use chancery_server::Audiences;
use chancery_sources::{
    AllowedPlaces, LayerChecks, LoadReport, NeededAllowances, Passer, Scope, Warning,
};
use tokio::sync::watch;
use tracing::warn;

use self::told::log_warnings;
use super::certificate_warnings::CertificateWarnings;
use super::faulty::FaultyLayers;
use super::grouping::Grouping;
use super::keeping::Keeping;
use super::metrics::LoadMetrics;
use super::reference_warnings::{ReferenceWarnings, is_let_pass};
use super::rules::{self, WantedRules};
use super::seen_grpc::SeenGrpc;
use super::strays::strays;
use super::unused_allowances::UnusedAllowances;
use crate::admin::{Admin, ReadinessState};
use crate::config::{AllowedCodes, Config, ConfigFile, ExternalNames, InvalidConfig};
use crate::counts_by_file::CountsByFile;
use crate::finding::Finding;
use crate::gate::LoadGate;
use crate::state::StateKeeper;

/// Applies changes of the directory and of `chancery.yaml`, and logs them.
pub(crate) struct ChangeApplier {
    audiences: Audiences<Grouping>,
    admin: Arc<Admin>,
    metrics: LoadMetrics,
    /// The checks of the directory, for whoever follows it.
    checks: watch::Sender<LayerChecks>,
    gate: LoadGate,
    /// Lets edits pass that wait behind faults, once the directory is followed.
    passer: OnceLock<Passer>,
    /// Held while something is confirmed, so that one confirmation comes after the other.
    confirming: Mutex<()>,
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
    /// The codes of warnings that nobody wants to hear of.
    allowed: AllowedCodes,
    /// The comments in files that let a warning pass.
    comments: Arc<AllowedPlaces>,
    certificates: CertificateWarnings,
    config_fault: Option<Finding>,
    /// The rules of `chancery.yaml`, if they are not in force.
    rules: Option<WantedRules>,
    without_files: BTreeSet<String>,
    /// The groups that no rule names, and those that were told to be nearly a cluster.
    unruled: BTreeSet<String>,
    /// True if other groups have files or rules since they were looked at.
    is_unruled_stale: bool,
    nearly_clusters: BTreeSet<(String, String)>,
    /// The groups of which the present load has told that they may be meant for others.
    strays: BTreeMap<String, String>,
    seen_grpc: SeenGrpc,
    unused: UnusedAllowances,
    /// The groups with files at the last load.
    groups: OverlayNames,
    /// The fault of the whole directory at the last load, if it was not there, or had no files any more.
    /// It holds back everything.
    directory_fault: Option<String>,
    /// True if the settings of the gate have changed since it judged.
    is_gate_changed: bool,
    /// True until the time of `gate.warn-for` is over.
    only_warns: bool,
    faulty: FaultyLayers,
    keeping: Keeping,
}

impl ApplierState {
    /// Looks at certificates and at the clock. Returns the warnings that are new.
    fn look_at_certificates(&mut self, comments: &mut NeededAllowances) -> Vec<Warning> {
        let Self { certificates, allowed, .. } = self;
        certificates.look(|it| !is_let_pass(comments, it) && !allowed.allow(it.code))
    }
}

impl ChangeApplier {
    /// An applier that has seen no change yet.
    pub(crate) fn new(
        audiences: Audiences<Grouping>,
        admin: Arc<Admin>,
        metrics: LoadMetrics,
        checks: watch::Sender<LayerChecks>,
        file: ConfigFile,
        config: &Config,
        gate: LoadGate,
    ) -> Self {
        let external = ExternalNames::new(config);
        let references = ReferenceWarnings::new(audiences.catalog().clone(), external);
        let mut references = references.at_fields(gate.schema());
        references.set_allowed(&config.allow);
        references.set_clients(config);
        let certificates =
            CertificateWarnings::new(audiences.catalog().clone(), gate.schema().clone());
        let state = ApplierState {
            file,
            faults: BTreeSet::new(),
            more_faults: CountsByFile::default(),
            warnings: (Arc::default(), 0),
            allowed: config.allow.clone(),
            comments: Arc::default(),
            references,
            certificates,
            config_fault: None,
            rules: None,
            without_files: BTreeSet::new(),
            unruled: BTreeSet::new(),
            is_unruled_stale: true,
            nearly_clusters: BTreeSet::new(),
            strays: BTreeMap::new(),
            seen_grpc: SeenGrpc::new(config),
            unused: UnusedAllowances::default(),
            groups: audiences.catalog().groups(),
            directory_fault: None,
            is_gate_changed: false,
            only_warns: gate.warns_for().is_some(),
            faulty: FaultyLayers::default(),
            keeping: Keeping::new(None),
        };
        let (passer, state) = (OnceLock::new(), Mutex::new(state));
        let confirming = Mutex::new(());
        Self { audiences, admin, metrics, checks, gate, passer, confirming, state }
    }

    /// The same applier, which has the present state kept after each change.
    ///
    /// `waiting` are rules that waited before the start, and `fault` is that of `chancery.yaml`, if an older text
    /// is in force.
    pub(super) fn keeping(
        self,
        keeper: Option<StateKeeper>,
        waiting: Option<WantedRules>,
        fault: Option<&InvalidConfig>,
    ) -> Self {
        let mut state = self.lock();
        let known = keeper.as_ref().map_or(&[][..], |keeper| &keeper.before().faulty);
        state.faulty = FaultyLayers::before(known);
        state.keeping = Keeping::new(keeper);
        state.rules = waiting;
        state.config_fault = fault.map(InvalidConfig::finding);
        drop(state);
        self.metrics.config(fault.is_some());
        self
    }

    /// Keeps the present state, if there is a state directory.
    fn keep(&self, state: &mut ApplierState) {
        // A server that stops has fewer and fewer nodes.
        if self.admin.readiness.state() == ReadinessState::Ready {
            state.keeping.look_for_users(&self.audiences);
        }
        let ApplierState { file, rules, faulty, keeping, .. } = state;
        keeping.keep(&self.audiences, &self.gate, faulty, (file.good(), rules.as_ref()));
    }

    /// Waits until the present state is kept, and not longer than a bound.
    pub(super) fn settle(&self, bound: Duration) {
        let keeper = self.lock().keeping.keeper();
        if let Some(keeper) = keeper {
            keeper.settle(bound);
        }
    }

    /// Takes note which groups have nodes, for a start at which nobody is connected.
    pub(crate) fn keep_users(&self) {
        if self.admin.readiness.state() == ReadinessState::Ready {
            self.keep(&mut self.lock());
        }
    }

    /// Takes the report of a load. Rules that were changed together with the directory take effect
    /// with it.
    pub(crate) fn loaded(&self, report: &LoadReport) {
        let (mut state, is_requested) = (self.lock(), report.is_requested);
        let of_directory = report.faults.iter().find(|fault| fault.scope == Scope::Directory);
        state.directory_fault = of_directory.map(ToString::to_string);
        let is_first = state.keeping.is_first();
        let whole = state.directory_fault.is_none();
        let changed = state.file.look_now(whole);
        if let Some(changed) = changed {
            self.configured(&mut state, changed);
        }
        if let Some(revision) = &report.revision {
            self.admin.status.changes.note(revision);
            self.audiences.follow(revision);
        }
        self.apply_rules(&mut state);
        // Nodes may have moved with that.
        if self.gate.holds_for_nobody() {
            self.judge_again(GATE);
        }
        let moved = self.look_at_groups(&mut state, report);
        // A comment inside a resource changes nothing that is committed, and may let pass what is held back.
        state.is_gate_changed |=
            state.comments != report.allowances && !self.gate.held().is_empty();
        state.comments = Arc::clone(&report.allowances);
        let mut comments = NeededAllowances::new(Arc::clone(&report.allowances));
        let mut of_references = state.references.look(&mut comments);
        of_references.extend(state.look_at_certificates(&mut comments));
        let is_whole = report.fault_count() == 0 && state.references.are_all();
        let is_whole = is_whole && self.gate.knows_all();
        of_references.extend(state.unused.look(&comments, is_whole));
        if is_first {
            // If nothing has changed, no commit judges what was held back before a start.
            self.judge_again("state");
        }
        let since = state.keeping.since(is_first);
        state.faulty.update(report, self.audiences.catalog(), since);
        self.gate.set_behind(&report.behind_faults);
        let mut wanted = None;
        if !state.allowed.is_empty() {
            state.allowed.leave_out(wanted.insert(report.clone()));
        }
        let report = wanted.as_ref().unwrap_or(report);
        self.log_report(&mut state, report, &of_references, is_first, moved.as_deref());
        for stray in report.revision.iter().flat_map(|it| strays(&self.audiences, it)) {
            warn!("{}", stray.words);
            state.strays.extend(stray.group);
        }
        state.warnings = (Arc::clone(&report.present_warnings), report.warning_count);
        self.judge_if_changed(&mut state);
        self.record(&mut state);
        drop(state);
        if is_requested {
            self.admin.status.rereads.is_over();
        }
    }

    /// Checks `chancery.yaml`, which may have changed alone.
    pub(crate) fn check_config(&self) {
        let mut state = self.lock();
        let whole = state.directory_fault.is_none();
        let Some(changed) = state.file.look(whole) else { return };
        self.configured(&mut state, changed);
        let mut comments = NeededAllowances::new(Arc::clone(&state.comments));
        log_warnings(&state.references.look(&mut comments));
        self.judge_if_changed(&mut state);
        self.record(&mut state);
    }

    /// Takes note if other groups have files than before. Returns the nodes that this moved, in words.
    fn look_at_groups(&self, state: &mut ApplierState, report: &LoadReport) -> Option<String> {
        let revision = report.revision.as_ref()?;
        if revision.reassigned.is_nobody() {
            return None;
        }
        state.is_unruled_stale = true;
        let groups = self.audiences.catalog().groups();
        let before = std::mem::replace(&mut state.groups, groups);
        rules::moved_by_load(&self.audiences, &before, &state.groups)
    }

    /// Has the directory read with the checks for all clients, if they are others than before.
    fn check(&self, seen: &SeenGrpc) {
        let checks = self.gate.due(seen.checks());
        self.checks.send_if_modified(|now| {
            let differ = *now != checks;
            *now = checks;
            differ
        });
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
            self.admin.status.changes.note(&revision);
            self.audiences.follow(&revision);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ApplierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The author of what passes because of the settings.
const GATE: &str = "gate";
