//! `pick_first` as the policy of a whole list of endpoints, which it may shuffle (gRFC A62, A113).

use std::sync::Arc;

use chancery_core::Time;

use super::PickFirst;
use crate::balancing::connectivity::{Connectivity, SubchannelState};
use crate::balancing::context::{Context, SubchannelId};
use crate::balancing::description::Description;
use crate::balancing::endpoint::Endpoint;
use crate::balancing::node::Branch;
use crate::balancing::picker::{
    Failing, Observers, Pick, PickArgs, Picked, Picker, Queueing, Wake,
};
use crate::balancing::policy::{Balancer, PolicyConfig, Update};
use crate::balancing::weights;
use crate::{Dice, Failure};

/// One connection for all calls.
#[derive(Debug, Default)]
pub(in crate::balancing) struct PickFirstPolicy {
    inner: PickFirst,
    note: Option<Arc<str>>,
    picker: Option<Arc<dyn Picker>>,
}

/// Sends every call to one subchannel.
#[derive(Debug)]
struct Always(Picked);

impl Picker for Always {
    fn pick(&self, _: &mut PickArgs<'_>) -> Pick {
        Pick::To(self.0.clone())
    }
}

impl Balancer for PickFirstPolicy {
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        self.picker = None;
        self.note = update.note.cloned();
        if matches!(update.config, PolicyConfig::PickFirst { shuffle: true }) {
            self.inner.update(&shuffled(update.endpoints, cx.dice()), cx);
        } else {
            self.inner.update(update.endpoints, cx);
        }
    }
}

impl Branch for PickFirstPolicy {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        self.picker = None;
        self.inner.subchannel(id, state, cx);
    }

    /// Outlier detection does nothing to a policy that has one connection (gRFC A61).
    fn ejected(&mut self, _: SubchannelId, _: bool, _: &mut Context<'_>) {}

    fn wake(&mut self, _: Wake, cx: &mut Context<'_>) {
        self.picker = None;
        self.inner.connect(cx);
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        self.picker = None;
        self.inner.on_time(cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline()
    }

    fn connectivity(&self) -> Connectivity {
        self.inner.connectivity()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        let (inner, note) = (&self.inner, &self.note);
        let picker = self.picker.get_or_insert_with(|| match inner.connectivity() {
            Connectivity::Idle => Arc::new(Queueing(Some(Wake::All))),
            Connectivity::Connecting => Arc::new(Queueing(None)),
            Connectivity::TransientFailure => {
                Arc::new(Failing(Failure::unavailable(with_note(inner.error(), note.as_ref()))))
            }
            Connectivity::Ready => match inner.picked(Observers::new()) {
                Some(picked) => Arc::new(Always(picked)),
                None => Arc::new(Queueing(None)),
            },
        });
        Arc::clone(picker)
    }

    fn describe(&self) -> Description {
        let endpoints = self.inner.describe();
        Description { endpoints, ..Description::of_state(self.connectivity()) }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        self.inner.close(cx);
    }
}

/// Adds to an error what the control plane says of these endpoints (gRFC A88).
pub(in crate::balancing) fn with_note(error: Arc<str>, note: Option<&Arc<str>>) -> Arc<str> {
    match note {
        Some(note) => format!("{error} ({note})").into(),
        None => error,
    }
}

/// Returns the endpoints in an order in which one with twice the weight is first twice as often.
/// Each endpoint has the key `roll^(1/weight)`, and the greatest comes first (gRFC A113).
fn shuffled(endpoints: &[Arc<Endpoint>], dice: &mut dyn Dice) -> Vec<Arc<Endpoint>> {
    let weights = weights::normalised(endpoints.iter());
    let mut keyed: Vec<_> = endpoints
        .iter()
        .zip(weights)
        .map(|(endpoint, weight)| (unit(dice).ln() / f64::from(weight), Arc::clone(endpoint)))
        .collect();
    keyed.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    keyed.into_iter().map(|(_, endpoint)| endpoint).collect()
}

/// Returns a number in (0, 1].
fn unit(dice: &mut dyn Dice) -> f64 {
    const STEPS: f64 = 9_007_199_254_740_992.0; // 2^53
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact in an f64")]
    let steps = (dice.roll() >> 11) as f64;
    (steps + 1.0) / STEPS
}
