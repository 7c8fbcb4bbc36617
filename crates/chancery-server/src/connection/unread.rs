//! The memory of request bodies that have arrived on a connection and that no stream has taken.
//!
//! Most connections never have any, so there is a charge only for those that do. Not here: how they
//! are counted (`executor::cork::data_meter`).

use super::responder::Responder;
use crate::budget::{MemoryCharge, MemoryShortage};

/// The number of bytes that any connection may have: they are part of what it is charged for when it
/// is accepted.
const FREE: usize = 8 * 1024;

/// The charge for bodies that no stream has taken.
#[derive(Default)]
pub(super) struct UnreadCharge(Option<MemoryCharge>);

impl UnreadCharge {
    /// Has the budget know how much there is now.
    ///
    /// # Errors
    /// When the peer may not hold so much.
    pub(super) fn update(&mut self, responder: &Responder) -> Result<(), MemoryShortage> {
        let context = &responder.context;
        let unread = context.activity.unread();
        if unread <= FREE {
            self.0 = None;
            return Ok(());
        }
        let charged = match &self.0 {
            Some(charge) => charge.set(unread),
            None => MemoryCharge::new(&context.share, unread).map(|charge| self.0 = Some(charge)),
        };
        charged.inspect_err(|shortage| responder.services.shared.metrics.out_of_memory(*shortage))
    }
}
