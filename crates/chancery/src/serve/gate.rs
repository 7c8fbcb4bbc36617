//! The gate in the daemon: its mode for the log, the users of an audience, and confirmations.
//!
//! Not here: the judgement (`crate::gate`), and the log lines about what is held back (`held`).

use std::sync::Arc;

use chancery_catalog::Audience;
use chancery_server::Audiences;
use tracing::info;

use super::change_applier::ChangeApplier;
use super::grouping::Grouping;
use crate::config::GateConfig;
use crate::gate::{Held, NotConfirmed, Selection, Use};

/// Says what is held back.
pub(super) fn say_mode(gate: &GateConfig) {
    let GateConfig { messages, loss, dangling, .. } = gate;
    info!(
        %messages, %loss, %dangling, loss_percent = u64::from(gate.loss_percent),
        "the gate: what it enforces is held back until it is repaired or confirmed"
    );
}

/// Finds out if streams belong to an audience, or to nodes in its group. Where there are no groups, all nodes
/// belong to base.
pub(super) fn users(
    audiences: &Audiences<Grouping>,
) -> impl Fn(&Audience) -> Use + Send + Sync + 'static {
    let audiences = audiences.clone();
    move |audience| {
        let watched = audiences.watched();
        let is_part = |watched: &Audience| match &audience.node {
            Some(_) => watched == audience,
            None => watched.group == audience.group,
        };
        let is_all = *audience == Audience::default() && audiences.catalog().groups().is_empty();
        let is_node = |watched: &Audience| audience.node.is_some() && watched.node == audience.node;
        match is_all || watched.iter().any(is_part) {
            true => Use::Used,
            false if watched.iter().any(is_node) => Use::Elsewhere,
            false => Use::Unused,
        }
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
