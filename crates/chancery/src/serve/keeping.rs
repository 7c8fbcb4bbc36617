//! The state directory in the daemon: what it begins with, and what is kept after each change.
//!
//! Not here: the files and the thread that writes them (`crate::state`).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context, anyhow};
use chancery_catalog::Audience;
use chancery_proto::schema::Schema;
use chancery_server::Audiences;
use chancery_sources::Directory;
use tracing::error;

use super::faulty::FaultyLayers;
use super::grouping::Grouping;
use super::metrics::LoadMetrics;
use super::rules::WantedRules;
use super::signals::Signals;
use crate::config::{self, Config, ConfigFile, FILE, FileContent, InvalidConfig, ServeFlags};
use crate::exit::Failure;
use crate::gate::{KeptAudience, LoadGate, TIME_TO_COME_BACK};
use crate::state::{self, DaemonMemory, Past, PastState, StateKeeper};

/// The configuration at a start, its file, and the fault of the file, if another text of it is in force.
pub(super) struct Started {
    pub(super) config: Config,
    pub(super) file: ConfigFile,
    pub(super) fault: Option<InvalidConfig>,
}

/// Reads the configuration. If `chancery.yaml` cannot be used, the one that was in force before the start is
/// read, where a flag or a variable says which state directory has it.
pub(super) fn configuration(flags: &ServeFlags) -> Result<Started, Failure> {
    let content = FileContent::read(&flags.dir);
    let invalid = match config::parsed(flags, &content) {
        Ok(config) => {
            let file = ConfigFile::new(flags.clone(), config.clone(), content);
            return Ok(Started { config, file, fault: None });
        }
        Err(invalid) => invalid,
    };
    let before = flags.state.as_ref().and_then(|it| state::config_before(it, &flags.dir));
    let Some((text, _)) = before else { return Err(invalid.into()) };
    let known = FileContent::of_before(text.clone());
    match config::parsed(flags, &known) {
        Ok(config) if config.allow_partial && !flags.print_config && !flags.print_limits => {
            let file = ConfigFile::faulty(flags.clone(), config.clone(), content, text);
            Ok(Started { config, file, fault: Some(invalid) })
        }
        _ => Err(invalid.into()),
    }
}

/// Says that another text of `chancery.yaml` is in force than the one that is there.
pub(super) fn say_fault(fault: &InvalidConfig) {
    let finding = fault.finding();
    error!(
        "{FILE} cannot be used, so the one that was in force before the start stays in force: {finding}"
    );
}

/// Looks if the state directory can be used, and tells the gate when the first start was, if it says so. Its storage
/// may not answer, so it is looked at on a thread of its own. Returns `None` if the operator stops the process before
/// that is done.
pub(super) async fn look(
    flags: &ServeFlags,
    config: &Config,
    gate: &LoadGate,
    signals: &mut Signals,
) -> Result<Option<()>, Failure> {
    let Some(state) = config.state.clone() else { return Ok(Some(())) };
    let (dir, gate) = (flags.dir.clone(), gate.clone());
    let looking = tokio::task::spawn_blocking(move || {
        refuse_inside(&state, &dir)?;
        state::first_start(&state, &dir).into_iter().for_each(|begun| gate.begun_at(begun));
        Ok(())
    });
    tokio::select! {
        looked = looking => looked.context("the state directory was not looked at")?.map(Some),
        () = signals.stop() => Ok(None),
    }
}

/// Refuses a state directory whose files would be served.
fn refuse_inside(state: &Path, dir: &Path) -> Result<(), Failure> {
    if state::lies_in(state, dir) {
        let (state, served) = (state.display(), dir.display());
        let error =
            anyhow!("the state directory `{state}` lies in `{served}`, whose files are served");
        return Err(Failure::negative(error).hint("choose a directory outside of it"));
    }
    Ok(())
}

/// Has the first load begin with what was in force, if there is a state directory.
pub(super) fn begin(
    directory: Directory,
    flags: &ServeFlags,
    config: &Config,
    gate: &LoadGate,
    schema: &Schema,
) -> Result<(Directory, Option<PastState>), Failure> {
    let Some(state) = &config.state else { return Ok((directory, None)) };
    let served = std::path::absolute(&flags.dir).context("cannot find the directory")?;
    let past = Past {
        state: state.clone(),
        served,
        catalog: directory.catalog(),
        gate: gate.clone(),
        schema: schema.clone(),
        v2: config.enable_v2,
        lineage: config.groups.lineage().clone(),
    };
    let (directory, past) = state::begin(directory, past);
    Ok((directory, Some(past)))
}

/// The keeper of states, once the first load is complete.
pub(super) fn keeper(
    past: Option<PastState>,
    metrics: &LoadMetrics,
) -> Result<Option<StateKeeper>, Failure> {
    let Some(past) = past else { return Ok(None) };
    let started = StateKeeper::start(&past, metrics.state.clone());
    Ok(started.context("cannot start the thread that keeps the state")?)
}

/// The rules in force and those that wait, if some waited before the start.
pub(super) fn waiting_rules(
    keeper: Option<&StateKeeper>,
    wanted: &Grouping,
) -> Option<(Grouping, WantedRules)> {
    WantedRules::before(keeper?.before().rules.as_ref()?, wanted)
}

/// The present state is kept with this.
pub(super) struct Keeping {
    keeper: Option<Arc<StateKeeper>>,
    started: Instant,
    /// The audiences of nodes before the start, some of which have yet to come back.
    used_before: BTreeSet<KeptAudience>,
    /// The audiences of nodes, as they were looked for last.
    used: BTreeSet<KeptAudience>,
    has_loaded: bool,
    /// The reason that was told last for which the file `confirm` could not be used.
    pub(super) told_of_file: Option<String>,
}

impl Keeping {
    pub(super) fn new(keeper: Option<StateKeeper>) -> Self {
        let used = keeper.as_ref().map(|it| it.before().gate.used.clone()).unwrap_or_default();
        Self {
            keeper: keeper.map(Arc::new),
            started: Instant::now(),
            used_before: used.clone(),
            used,
            has_loaded: false,
            told_of_file: None,
        }
    }

    pub(super) fn keeper(&self) -> Option<Arc<StateKeeper>> {
        self.keeper.clone()
    }

    /// Returns true once: for the first load.
    pub(super) fn is_first(&mut self) -> bool {
        !std::mem::replace(&mut self.has_loaded, true)
    }

    /// The time since when a layer keeps its last good state that has faults for the first time: of the first
    /// load, it is when that state was kept.
    pub(super) fn since(&self, is_first: bool) -> SystemTime {
        let restored = self.keeper.as_ref().and_then(|keeper| keeper.restored());
        restored.filter(|_| is_first).unwrap_or_else(SystemTime::now)
    }

    /// Looks which audiences have nodes now.
    pub(super) fn look_for_users(&mut self, audiences: &Audiences<Grouping>) {
        if self.keeper.is_none() {
            return;
        }
        let mut used = BTreeSet::new();
        for watched in audiences.watched() {
            used.insert((&Audience::of(watched.group.clone(), None)).into());
            used.insert((&watched).into());
        }
        if !used.is_empty() && audiences.catalog().groups().is_empty() {
            used.insert(KeptAudience::default());
        }
        if self.started.elapsed() < TIME_TO_COME_BACK {
            used.extend(self.used_before.iter().cloned());
        }
        self.used = used;
    }

    /// Keeps the present state.
    pub(super) fn keep(
        &self,
        audiences: &Audiences<Grouping>,
        gate: &LoadGate,
        faulty: &FaultyLayers,
        (config, rules): (Option<&str>, Option<&WantedRules>),
    ) {
        if let Some(keeper) = &self.keeper {
            let daemon = DaemonMemory {
                faulty: faulty.kept(),
                gate: gate.memory(self.used.clone()),
                config: config.map(str::to_owned),
                rules: rules.and_then(|rules| rules.kept(&audiences.assignment())),
            };
            keeper.keep(audiences.catalog().memory(), daemon);
        }
    }
}
