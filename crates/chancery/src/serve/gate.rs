//! The gate in the daemon: its mode for the log, the users of an audience, and confirmations.
//!
//! Not here: the judgement (`crate::gate`), and the log lines about what is held back (`held`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use chancery_catalog::Audience;
use chancery_server::Audiences;
use tracing::{info, warn};

use super::change_applier::ChangeApplier;
use super::grouping::Grouping;
use crate::config::GateConfig;
use crate::gate::{Held, NodesByAudience, NotConfirmed, Selection, Users};
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

/// Finds the nodes with open streams.
pub(super) fn users(audiences: &Audiences<Grouping>) -> impl Fn() -> Users + Send + Sync + 'static {
    let audiences = audiences.clone();
    let named_before = Mutex::new(BTreeSet::new());
    move || {
        let assignment = audiences.assignment();
        let named: BTreeSet<_> = assignment.names().map(str::to_owned).collect();
        let mut before = named_before.lock().unwrap_or_else(PoisonError::into_inner);
        let left: BTreeSet<_> = before.difference(&named).take(MOST_LEFT).cloned().collect();
        *before = &left | &named;
        drop(before);
        let has_groups = !audiences.catalog().groups().is_empty();
        Users::new(audiences.watched(), has_groups).leaving(left)
    }
}

/// The number of groups that are remembered because rules named them once.
const MOST_LEFT: usize = 1000;

/// Finds the nodes with open streams, and what they say of themselves.
pub(super) fn nodes(
    audiences: &Audiences<Grouping>,
) -> impl Fn() -> NodesByAudience + Send + Sync + 'static {
    let audiences = audiences.clone();
    move || {
        let assignment = audiences.assignment();
        let mut nodes = NodesByAudience::new();
        for stream in audiences.streams() {
            let Some(node) = stream.node else { continue };
            let now = stream.audience.without_values();
            // Its group may come with the load that is judged.
            let group = assignment.of_node(&node, |_| true).ok().flatten();
            let then = Audience::of(group.map(Into::into), now.node.clone());
            if then != now {
                nodes.entry(then).or_default().push(Arc::clone(&node));
            }
            nodes.entry(now).or_default().push(node);
        }
        nodes
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
