//! The connections of a cluster, by the slots of their subchannels, where calls find them.
//!
//! They are in parts. An event of one connection copies its part, and the next state that is published shares the
//! others with the one before. Not here: the choice of a subchannel (`pick`).

use std::sync::Arc;

use chancery_calls::balancing::SubchannelId;

use crate::connect::Sender;

/// The senders of subchannels.
#[derive(Clone, Default)]
pub(super) struct Senders(Vec<Arc<Vec<Slot>>>);

/// The subchannel that has the slot with its sender, if it is connected.
type Slot = Option<(SubchannelId, Sender)>;

impl Senders {
    /// Returns what sends calls on a subchannel, if it is connected.
    pub(super) fn get(&self, id: SubchannelId) -> Option<Sender> {
        let slot = self.0.get(id.slot() / PART)?.get(id.slot() % PART)?;
        let (of, sender) = slot.as_ref()?;
        (*of == id).then(|| sender.clone())
    }

    /// Puts the sender of a subchannel into its slot, or takes it out.
    pub(super) fn set(&mut self, id: SubchannelId, sender: Option<Sender>) {
        let Some(sender) = sender else { return self.take(id) };
        let (part, place) = (id.slot() / PART, id.slot() % PART);
        if self.0.len() <= part {
            self.0.resize_with(part + 1, Arc::default);
        }
        let slots = Arc::make_mut(&mut self.0[part]);
        if slots.len() <= place {
            slots.resize_with(place + 1, || None);
        }
        slots[place] = Some((id, sender));
    }

    fn take(&mut self, id: SubchannelId) {
        let (part, place) = (id.slot() / PART, id.slot() % PART);
        let Some(part) = self.0.get_mut(part) else { return };
        // A subchannel that has the slot now may be another one.
        if matches!(part.get(place), Some(Some((of, _))) if *of == id) {
            Arc::make_mut(part)[place] = None;
        }
    }
}

/// The number of slots in a part.
const PART: usize = 32;
