//! The memory of what HTTP keeps for a connection: request bodies that have arrived and that no stream
//! has taken, responses that were handed over and are not written, what waits for a full socket, and the
//! places of streams that are done.
//!
//! h2 keeps the places of the most frames and streams that a connection ever had at once, so they are
//! charged until it ends. Most connections never have much of all that, so there is a charge only for
//! those that do. Not here: how it is counted (`unread_bodies`, `send_gate`, `executor`).

use super::executor::Executor;
use super::responder::Responder;
use crate::budget::{MemoryCharge, MemoryShortage};

/// The number of bytes that any connection may have: they are part of what it is charged for when it
/// is accepted.
const FREE: usize = 8 * 1024;

/// The size in bytes of the place of a stream, as measured. While the stream is there, it is part of what
/// that is charged for.
const STREAM_PLACE: usize = 1280;
/// A number of places that are part of what any connection is charged for.
const FEW_PLACES: usize = 4;

/// The number of bytes of lists that are no reason to end a connection: those that one poll may need,
/// of 128 frames or 32 streams.
const LISTS_OF_ONE_POLL: usize = 40 * 1024;

/// The charge for what HTTP keeps.
#[derive(Default)]
pub(super) struct HttpCharge(Option<MemoryCharge>);

/// The bytes that HTTP keeps.
struct Kept {
    /// Requests and responses, which become fewer when the peer and its streams take them.
    messages: usize,
    /// The lists of frames and streams, which stay as long as they ever were.
    lists: usize,
}

impl Kept {
    fn of<I, S>(responder: &Responder, executor: &Executor<I, S>) -> Self {
        let unread = &responder.context.activity.unread;
        let places = match executor.spare_places() {
            0..=FEW_PLACES => 0,
            spare => spare * STREAM_PLACE,
        };
        Self {
            messages: unread.sum() + responder.gate.handed() + executor.waiting_bytes(),
            lists: unread.entries() + places,
        }
    }
}

impl HttpCharge {
    /// Has the budget know how much there is now.
    ///
    /// # Errors
    /// When the peer may not hold so much.
    pub(super) fn update<I, S>(
        &mut self,
        responder: &Responder,
        executor: &Executor<I, S>,
    ) -> Result<(), MemoryShortage> {
        let kept = Kept::of(responder, executor);
        let sum = kept.messages + kept.lists;
        if sum <= FREE {
            self.0 = None;
            return Ok(());
        }
        match self.set(responder, sum) {
            // A peer that holds all that it may is refused further streams, and keeps those that it has.
            Err(_) if kept.messages <= FREE && kept.lists <= LISTS_OF_ONE_POLL => Ok(()),
            charged => responder.services.shared.metrics.counted(charged),
        }
    }

    fn set(&mut self, responder: &Responder, bytes: usize) -> Result<(), MemoryShortage> {
        match &self.0 {
            Some(charge) => charge.set(bytes),
            None => {
                let charge = MemoryCharge::new(&responder.context.share, bytes)?;
                self.0 = Some(charge);
                Ok(())
            }
        }
    }
}
