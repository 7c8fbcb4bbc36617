//! The memory of what HTTP keeps for a connection: request bodies that have arrived and that no stream
//! has taken, and responses that were handed over and are not written.
//!
//! Most connections never have much of it, so there is a charge only for those that do. Not here: how
//! it is counted (`unread_bodies`, `send_gate`).

use super::responder::Responder;
use crate::budget::{MemoryCharge, MemoryShortage};

/// The number of bytes that any connection may have: they are part of what it is charged for when it
/// is accepted.
const FREE: usize = 8 * 1024;

/// The charge for what HTTP keeps.
#[derive(Default)]
pub(super) struct HttpCharge(Option<MemoryCharge>);

impl HttpCharge {
    /// Has the budget know how much there is now.
    ///
    /// # Errors
    /// When the peer may not hold so much.
    pub(super) fn update(&mut self, responder: &Responder) -> Result<(), MemoryShortage> {
        let context = &responder.context;
        let kept = context.activity.unread.sum() + responder.gate.handed();
        if kept <= FREE {
            self.0 = None;
            return Ok(());
        }
        let shared = &responder.services.shared;
        match &self.0 {
            Some(charge) => shared.metrics.counted(charge.set(kept)),
            None => shared.charge(&context.share, kept).map(|charge| self.0 = Some(charge)),
        }
    }
}
