//! The edits that tell a driver which resources a subscription wants ([`DemandEdit`]).
//!
//! The first edit states all names. So does each later one that adds more names than there was room
//! for: a filter made of them has room for as many again, so both the edits and the filters stay
//! cheap.

use super::Subscription;
use super::interest::Spelling;
use crate::server::demand::MOST_NAMES;
use crate::server::{DemandEdit, NamesEdit};

impl Subscription {
    /// The edit of a subscription from which names were added and removed.
    pub(super) fn demand_edit(
        &mut self,
        added: Vec<Spelling>,
        removed: Vec<Spelling>,
    ) -> DemandEdit {
        let type_url = self.type_url.clone();
        let wildcard = self.interest.wildcard();
        let room = self.demand_room.and_then(|room| room.checked_sub(added.len()));
        let worth_a_filter = !wildcard && self.interest.len() <= MOST_NAMES;
        let names = if room.is_some() || !worth_a_filter {
            self.demand_room = room.filter(|_| worth_a_filter);
            NamesEdit::Change { added, removed }
        } else {
            self.demand_room = Some(self.interest.len());
            NamesEdit::All(self.interest.all_names().cloned().collect())
        };
        DemandEdit { type_url, wildcard, names }
    }
}
