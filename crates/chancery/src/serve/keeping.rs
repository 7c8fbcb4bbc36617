//! The state directory in the daemon: what it begins with, and what is kept after each change.
//!
//! Not here: the files and the thread that writes them (`crate::state`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, anyhow};
use chancery_catalog::Audience;
use chancery_proto::schema::Schema;
use chancery_server::Audiences;
use chancery_sources::Directory;

use super::faulty::FaultyLayers;
use super::grouping::Grouping;
use super::metrics::LoadMetrics;
use crate::config::{Config, ServeFlags};
use crate::exit::Failure;
use crate::gate::{KeptAudience, LoadGate};
use crate::state::{self, Past, PastState, StateKeeper};

/// Has the first load begin with what was in force, if there is a state directory.
pub(super) fn begin(
    directory: Directory,
    flags: &ServeFlags,
    config: &Config,
    gate: &LoadGate,
    schema: &Schema,
) -> Result<(Directory, Option<PastState>), Failure> {
    let Some(state) = &config.state else { return Ok((directory, None)) };
    if state::lies_in(state, &flags.dir) {
        let (state, served) = (state.display(), flags.dir.display());
        let error =
            anyhow!("the state directory `{state}` lies in `{served}`, whose files are served");
        return Err(Failure::negative(error).hint("choose a directory outside of it"));
    }
    let served = std::path::absolute(&flags.dir).context("cannot find the directory")?;
    let past = Past {
        state: state.clone(),
        served,
        catalog: directory.catalog(),
        gate: gate.clone(),
        schema: schema.clone(),
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
        let used = keeper.as_ref().map(|it| it.used_before().clone()).unwrap_or_default();
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
            used.insert((&Audience { node: None, ..watched.clone() }).into());
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
    ) {
        if let Some(keeper) = &self.keeper {
            let memory = audiences.catalog().memory();
            keeper.keep(memory, gate.memory(self.used.clone()), faulty.kept());
        }
    }
}

/// The time in which nodes come back after a restart.
const TIME_TO_COME_BACK: Duration = Duration::from_secs(600);
