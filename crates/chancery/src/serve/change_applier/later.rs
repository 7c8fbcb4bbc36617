//! Looks from time to time: what follows from the clock and from the clients that are connected, and from no
//! change of a file.

use std::sync::Arc;
use std::time::Instant;

use chancery_sources::NeededAllowances;
use tracing::{info, warn};

use super::super::{seen_grpc, unruled};
use super::told::log_warnings;
use super::{ApplierState, ChangeApplier, GATE};

impl ChangeApplier {
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
        if self.gate.is_due() || self.gate.holds_for_nobody() {
            let mut state = self.lock();
            self.judge_again(GATE);
            self.apply_rules(&mut state);
            self.record(&mut state);
        }
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
}
