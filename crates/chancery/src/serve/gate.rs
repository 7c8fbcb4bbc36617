//! The gate in the daemon: its mode for the log, the users of an audience, and confirmations.
//!
//! Not here: the judgement (`crate::gate`), and the log lines about what is held back (`held`).

use std::sync::Arc;

use chancery_server::Audiences;
use tracing::info;

use super::change_applier::ChangeApplier;
use super::grouping::Grouping;
use crate::config::GateConfig;
use crate::gate::{Held, NotConfirmed, Selection, Users};

/// Says what is held back.
pub(super) fn say_mode(gate: &GateConfig) {
    let GateConfig { messages, loss, dangling, .. } = gate;
    info!(
        %messages, %loss, %dangling, loss_percent = u64::from(gate.loss_percent),
        "the gate: what it enforces is held back until it is repaired or confirmed"
    );
}

/// Finds the nodes with open streams.
pub(super) fn users(audiences: &Audiences<Grouping>) -> impl Fn() -> Users + Send + Sync + 'static {
    let audiences = audiences.clone();
    move || Users::new(audiences.watched(), !audiences.catalog().groups().is_empty())
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
