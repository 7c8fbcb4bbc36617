//! The gate in the daemon: its mode for the log, the users of an audience, and confirmations.
//!
//! Not here: the judgement (`crate::gate`), and the log lines about what is held back (`held`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_catalog::Audience;
use chancery_server::Audiences;
use tracing::{info, warn};

use super::change_applier::ChangeApplier;
use super::grouping::Grouping;
use crate::config::GateConfig;
use crate::gate::{Held, NotConfirmed, Selection};
use crate::state::{seconds, utc};

/// Says what is held back, and from when on if it is only warned of so far.
pub(super) fn say_mode(gate: &GateConfig, warns_for: Option<Duration>) {
    let GateConfig { messages, loss, dangling, .. } = gate;
    info!(
        %messages, %loss, %dangling, loss_percent = u64::from(gate.loss_percent),
        "the gate: what it enforces is held back until it is repaired or confirmed"
    );
    if let Some(rest) = warns_for {
        let until = utc(seconds(SystemTime::now() + rest));
        warn!(
            "the gate only warns until {until}, as `gate.warn-for` says: until then nothing is held back \
             by it"
        );
    }
}

/// Finds out if streams belong to an audience, or to nodes in its group. Where there are no groups, all nodes
/// belong to base.
pub(super) fn users(
    audiences: &Audiences<Grouping>,
) -> impl Fn(&Audience) -> bool + Send + Sync + 'static {
    let audiences = audiences.clone();
    move |audience| {
        let is_part = |watched: &Audience| match &audience.node {
            Some(_) => watched == audience,
            None => watched.group == audience.group,
        };
        let is_all = *audience == Audience::default() && audiences.catalog().groups().is_empty();
        is_all || audiences.watched().iter().any(is_part)
    }
}

/// Applies confirmations, for as long as the server is there.
pub(super) fn confirmer(
    applier: &Arc<ChangeApplier>,
) -> impl Fn(&Selection, &str) -> Result<Vec<Held>, NotConfirmed> + Send + Sync + 'static {
    let applier = Arc::downgrade(applier);
    move |whom, token| match applier.upgrade() {
        Some(applier) => applier.confirm(whom, token),
        None => Err(NotConfirmed::Nothing),
    }
}
