//! The consequences of a change of the directory or of `chancery.yaml`: groups, audiences, log
//! lines, and the faults that the admin interface shows.
//!
//! All of it happens under one lock, so that changes take effect one after the other, and each
//! fault is logged once. Not here: confirmations (`confirming`), the loading of the directory (`chancery_sources`), and the check
//! whether `chancery.yaml` changed (`config::file`).

mod confirming;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chancery_catalog::{Author, OverlayNames};
use chancery_server::Audiences;
use chancery_sources::{
    AllowedPlaces, LayerChecks, LoadReport, NeededAllowances, Passer, Scope, Warning,
};
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::audiences::{say_without_files, without_files};
use super::certificate_warnings::CertificateWarnings;
use super::faulty::FaultyLayers;
use super::gate;
use super::grouping::Grouping;
use super::held;
use super::keeping::Keeping;
use super::metrics::LoadMetrics;
use super::reference_warnings::{ReferenceWarnings, is_let_pass};
use super::rules::{self, Belonging, WantedRules};
use super::seen_grpc::{self, SeenGrpc};
use super::strays::strays;
use super::unruled;
use super::unused_allowances::UnusedAllowances;
use crate::admin::{Admin, LoadFindings, ReadinessState};
use crate::check::codes::GROUP_WITHOUT_FILES;
use crate::config::{
    AllowedCodes, Config, ConfigChange, ConfigFile, ExternalNames, FILE, InvalidConfig,
};
use crate::counts_by_file::{CountsByFile, MOST_TOLD};
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

    /// Checks if the time is over in which the gate only warns, and if something was held back for as long as
    /// the settings say.
    pub(crate) fn check_gate(&self) {
        if self.gate.warns_for().is_none() {
            let mut state = self.lock();
            if std::mem::take(&mut state.only_warns) {
                info!("the time of `gate.warn-for` is over: the gate enforces from now on");
                self.checks.send_modify(|now| *now = self.gate.due(std::mem::take(now)));
            }
        }
        if self.gate.is_due() {
            let mut state = self.lock();
            self.judge_again(GATE);
            self.apply_rules(&mut state);
            self.record(&mut state);
        }
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

    /// Compares the groups that no node is in with the clusters of nodes in no group.
    pub(crate) fn check_groups(&self) {
        // Names of clients are compared without the lock: there may be many.
        let unruled = self.lock().unruled.clone();
        let now = unruled::nearly_clusters(&self.audiences, &unruled);
        let mut state = self.lock();
        let ApplierState { nearly_clusters, unruled, .. } = &mut *state;
        // A line that was written is not written again when a node comes back.
        nearly_clusters.retain(|(group, _)| unruled.contains(group));
        for near in now {
            if !nearly_clusters.contains(&near) && nearly_clusters.len() < unruled::MOST_TOLD {
                warn!("{}", unruled::say_nearly(&near));
                nearly_clusters.insert(near);
            }
        }
    }

    /// Looks for clients of gRPC in groups for which nothing is declared. The directory is read again if there
    /// are some.
    pub(crate) fn look_for_grpc(&self) {
        let now = Instant::now();
        let Some(known) = self.lock().seen_grpc.due(now) else { return };
        let found = seen_grpc::look(&self.audiences, &known);
        let words = seen_grpc::say(&found);
        let mut state = self.lock();
        if state.seen_grpc.add(found, now) {
            info!("{words}");
            self.check(&state.seen_grpc);
        }
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

    /// Checks if certificates have come to their end meanwhile.
    pub(crate) fn check_certificates(&self) {
        let mut state = self.lock();
        let mut comments = NeededAllowances::new(Arc::clone(&state.comments));
        let new = state.look_at_certificates(&mut comments);
        if !new.is_empty() {
            log_warnings(&new);
            self.record(&mut state);
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
            self.admin.status.changes.note(&revision);
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
                state.references.set_allowed(&config.allow);
                state.references.set_clients(&config);
                state.allowed.clone_from(&config.allow);
                let are_settings_same = self.gate.has_settings(&config);
                if self.gate.configure(&config) {
                    state.is_gate_changed = true;
                }
                if !are_settings_same {
                    gate::say_mode(&config.gate, self.gate.warns_for());
                    state.only_warns = self.gate.warns_for().is_some();
                }
                let are_in_force = self.regroup(state, &config);
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
                state.seen_grpc.set_config(&config);
                self.check(&state.seen_grpc);
            }
            ConfigChange::Unusable(invalid) => {
                let finding = invalid.finding();
                match finding.hint() {
                    None => {
                        error!("chancery.yaml cannot be used, what was in force stays: {finding}")
                    }
                    Some(hint) => {
                        error!(
                            hint,
                            "chancery.yaml cannot be used, what was in force stays: {finding}"
                        );
                    }
                }
                state.config_fault = Some(finding);
            }
        }
        self.metrics.config(state.config_fault.is_some());
    }

    /// Takes over which groups extend others, and the rules. Nobody is shown one without the other: a node that
    /// moves to a group which extends another would see base alone. Returns true if no rules wait.
    fn regroup(&self, state: &mut ApplierState, config: &Config) -> bool {
        let (catalog, belonging) = (self.audiences.catalog(), rules::belonging(&self.audiences));
        let lineage = config.groups.lineage();
        rules::say_lineage(&catalog.lineage(), lineage);
        let revision = catalog.extend(lineage.clone(), FILE);
        state.rules = Some(WantedRules::new(Grouping::new(config)));
        let are_in_force = self.apply_rules_to(state, belonging);
        if let Some(revision) = revision {
            self.admin.status.changes.note(&revision);
            self.audiences.follow(&revision);
        }
        are_in_force
    }

    /// Puts rules in force that are not, unless the gate holds the moves of nodes back. Returns true if none wait.
    fn apply_rules(&self, state: &mut ApplierState) -> bool {
        match state.rules {
            Some(_) => self.apply_rules_to(state, rules::belonging(&self.audiences)),
            None => true,
        }
    }

    fn apply_rules_to(&self, state: &mut ApplierState, belonging: Belonging) -> bool {
        let Some(mut rules) = state.rules.take() else { return true };
        if *rules.grouping() == *self.audiences.assignment() {
            return self.gate.lets_move(&[]);
        }
        let moves = rules.moves(&self.audiences, belonging);
        let pass = self.gate.lets_move(&moves);
        if pass {
            rules::say(&moves);
            self.audiences.assign(rules.grouping().clone());
            state.is_unruled_stale = true;
        } else {
            state.rules = Some(rules);
        }
        pass
    }

    fn log_report(
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

    /// Records the present faults and warnings, and what is held back, for the admin interface.
    fn record(&self, state: &mut ApplierState) {
        let (held, news) = (Arc::new(self.gate.held()), self.gate.take_news());
        let mut without_files = without_files(&self.audiences);
        if state.allowed.allow(GROUP_WITHOUT_FILES) {
            without_files.clear();
        }
        let known = self.audiences.catalog().groups();
        for name in without_files.difference(&state.without_files) {
            warn!("{}", say_without_files(name, &known));
        }
        state.without_files = without_files;
        if std::mem::take(&mut state.is_unruled_stale) {
            let unruled = unruled::unruled(&self.audiences);
            // One slip is told in one line.
            let strays = std::mem::take(&mut state.strays);
            let new = unruled.difference(&state.unruled);
            if let Some(line) = unruled::say(new.filter(|it| !strays.contains_key(*it))) {
                info!("{line}");
            }
            state.nearly_clusters.extend(strays);
            state.unruled = unruled;
        }
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
            faulty: state.faulty.rows(),
        });
        self.keep(state);
        // Whoever reads of it in the log finds it in `/api/v1/config` and `/metrics`.
        held::tell(&news, &held, &self.metrics);
    }

    fn lock(&self) -> MutexGuard<'_, ApplierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of warnings that `/api/v1/config` lists.
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
            faults,
            "the directory was read again: nothing has changed; `/api/v1/config` lists the faults"
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
