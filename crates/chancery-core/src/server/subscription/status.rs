//! The status of a subscription, read from its interest, ledger and flight.

use super::Subscription;
use crate::Time;
use crate::server::Settings;
use crate::server::status::{TypeStatus, Wait, WaitReason, Wanted};

impl Subscription {
    /// The status of the type. `clusters` is the end of the wait of routes for clusters, if they
    /// wait.
    pub(crate) fn status(&self, settings: &Settings, clusters: Option<Time>) -> TypeStatus<'_> {
        let wait = |reason, until| Wait { reason, until };
        let mut waits = Vec::new();
        if !self.has_snapshot {
            waits.push(wait(WaitReason::Snapshot, None));
        }
        if !self.flight.is_empty() {
            waits.push(wait(WaitReason::Answer, self.flight.may_send_next_at(settings.ack_wait)));
        }
        if clusters.is_some() && self.is_behind() {
            waits.push(wait(WaitReason::Clusters, clusters));
        }
        if let Some(since) = self.ledger.kept_since() {
            let until = Some(since + settings.removal_wait);
            waits.push(wait(WaitReason::Removals(self.ledger.kept().len()), until));
        }
        if let Some(until) = self.source_waits.deadline(settings) {
            waits.push(wait(WaitReason::Source(self.source_waits.len()), Some(until)));
        }
        TypeStatus {
            type_url: &self.type_url,
            wanted: Wanted(&self.interest),
            sent: self.flight.last_sent().cloned(),
            acknowledged: self.flight.last_accepted().cloned(),
            acknowledged_at: self.flight.last_accepted_at(),
            rejection: self.rejection.as_deref(),
            waits,
            unsettled: self.unsettled_counts(),
            is_behind: self.is_behind(),
            has_landed: self.has_landed(),
            subscription: self,
        }
    }
}
