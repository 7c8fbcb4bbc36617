//! `round_robin`: connections to all endpoints, used in turn (C-113).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chancery_core::Time;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, SubchannelId};
use super::endpoint_set::EndpointSet;
use super::pick_first::with_note;
use super::picker::{Failing, Observers, Pick, PickArgs, Picked, Picker, Queueing, Wake};
use super::policy::{Balancer, Update};
use crate::Failure;

/// Connections to all endpoints.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    endpoints: EndpointSet,
    note: Option<Arc<str>>,
    /// The turn of the next call. All pickers share it, so that a picker that lives for a moment does
    /// not begin with the same endpoint again.
    next: Arc<AtomicUsize>,
    picker: Option<Arc<dyn Picker>>,
}

/// The endpoints that are ready, and whose turn it is.
#[derive(Debug)]
struct InTurn {
    ready: Box<[Picked]>,
    next: Arc<AtomicUsize>,
}

impl Picker for InTurn {
    fn pick(&self, _: &mut PickArgs<'_>) -> Pick {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.ready.len().max(1);
        self.ready.get(turn).map_or(Pick::Queue, |picked| Pick::To(picked.clone()))
    }
}

impl RoundRobin {
    /// Whoever is idle is connected at once.
    fn settle(&mut self, cx: &mut Context<'_>) {
        self.picker = None;
        self.endpoints.connect_all(cx);
    }
}

impl Balancer for RoundRobin {
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        self.note = update.note.cloned();
        self.endpoints.update(update.endpoints, cx);
        // Clients do not all begin with the same endpoint.
        let turn = usize::try_from(cx.dice().below(1 << 31)).unwrap_or_default();
        self.next.store(turn, Ordering::Relaxed);
        self.settle(cx);
    }

    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        self.picker = None;
        if let Some(place) = self.endpoints.subchannel(id, state, cx) {
            self.endpoints.connect(place, cx);
        }
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        self.picker = None;
        self.endpoints.ejected(id, is_ejected, cx);
    }

    fn wake(&mut self, _: Wake, cx: &mut Context<'_>) {
        self.settle(cx);
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        self.picker = None;
        self.endpoints.on_time(cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.endpoints.deadline()
    }

    fn connectivity(&self) -> Connectivity {
        self.endpoints.counts().aggregated()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        if let Some(picker) = &self.picker {
            return Arc::clone(picker);
        }
        let picker: Arc<dyn Picker> = match self.connectivity() {
            Connectivity::Ready => {
                let ready = self.endpoints.members().iter().filter_map(|member| {
                    let endpoint = Arc::clone(&member.endpoint);
                    let subchannel = member.ready()?;
                    Some(Picked { subchannel, endpoint, observers: Observers::new() })
                });
                Arc::new(InTurn { ready: ready.collect(), next: Arc::clone(&self.next) })
            }
            Connectivity::Connecting | Connectivity::Idle => Arc::new(Queueing(None)),
            Connectivity::TransientFailure => {
                let error = with_note(self.endpoints.error(), self.note.as_ref());
                Arc::new(Failing(Failure::unavailable(error)))
            }
        };
        self.picker = Some(Arc::clone(&picker));
        picker
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.endpoints.close(cx);
    }
}
