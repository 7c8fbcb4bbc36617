//! The connections of a cluster, in the slots of their subchannels, where calls find them.
//!
//! The driver changes the slot of one subchannel, and all states that it has published see that: an event of one
//! connection costs the same among many. Not here: the choice of a subchannel (`pick`).

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use chancery_calls::balancing::SubchannelId;

use crate::connect::Sender;

/// The senders of subchannels. Clones see the same slots.
#[derive(Clone, Default)]
pub(super) struct Senders(Arc<[Slot]>);

/// The sender of the subchannel that has the slot, if it is connected.
type Slot = Arc<ArcSwapOption<(SubchannelId, Sender)>>;

impl Senders {
    /// Returns what sends calls on a subchannel, if it is connected.
    pub(super) fn get(&self, id: SubchannelId) -> Option<Sender> {
        let held = self.0.get(id.slot())?.load();
        let (of, sender) = held.as_deref()?;
        (*of == id).then(|| sender.clone())
    }

    /// Puts the sender of a subchannel into its slot, or takes it out. A clone sees no slot that is later than it is.
    pub(super) fn set(&mut self, id: SubchannelId, sender: Option<Sender>) {
        if let Some(sender) = sender {
            self.grow(id.slot());
            if let Some(slot) = self.0.get(id.slot()) {
                slot.store(Some(Arc::new((id, sender))));
            }
        } else if let Some(slot) = self.0.get(id.slot())
            && slot.load().as_deref().is_some_and(|(of, _)| *of == id)
        {
            slot.store(None);
        }
    }

    fn grow(&mut self, slot: usize) {
        let len = self.0.len();
        if slot >= len {
            let more = (slot + 1).max(2 * len) - len;
            let fresh = std::iter::repeat_with(Slot::default).take(more);
            self.0 = self.0.iter().cloned().chain(fresh).collect();
        }
    }
}
