//! `wrr_locality`: calls are divided among localities by their weights, and in each by one policy
//! (C-111, gRFC A52). There is no overprovisioning: a locality keeps its part until none of its
//! endpoints works.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use chancery_core::{Locality, Time};

use super::connectivity::{Connectivity, StateCounts, SubchannelState};
use super::context::{Context, Part, SubchannelId};
use super::description::{ChildName, DescribedChild, Description, Turn};
use super::endpoint::{Endpoint, EndpointLocality};
use super::node::Branch;
use super::owners::{Deadlines, Owners};
use super::picker::{Failing, Pick, PickArgs, Picker, Queueing, Wake};
use super::policy::{Balancer, PolicyConfig, Update};
use super::switch::Switch;
use crate::Failure;

/// A policy for each locality.
#[derive(Debug, Default)]
pub(super) struct WrrLocality {
    children: BTreeMap<Locality, Child>,
    owners: Owners<Locality>,
    deadlines: Deadlines<Locality>,
    counts: StateCounts,
    picker: Option<Arc<dyn Picker>>,
}

#[derive(Debug)]
struct Child {
    locality: Arc<EndpointLocality>,
    switch: Switch,
}

impl Child {
    fn is_idle(&self) -> bool {
        self.switch.connectivity() == Connectivity::Idle
    }
}

/// Divides calls by weight.
#[derive(Debug)]
struct ByWeight {
    /// Each picker, with the sum of the weights up to and with its own.
    children: Box<[(u64, Arc<dyn Picker>)]>,
    total: u64,
}

impl ByWeight {
    fn new(children: impl Iterator<Item = (u32, Arc<dyn Picker>)>) -> Self {
        let mut total = 0;
        let children = children.map(|(weight, picker)| {
            total += u64::from(weight);
            (total, picker)
        });
        let children = children.collect();
        Self { children, total }
    }

    fn chosen(&self, call: &mut PickArgs<'_>) -> Option<&Arc<dyn Picker>> {
        let roll = call.dice.below(self.total);
        let place = self.children.partition_point(|(sum, _)| *sum <= roll);
        self.children.get(place).map(|(_, picker)| picker)
    }
}

impl Picker for ByWeight {
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        self.chosen(call).map_or(Pick::Queue, |picker| picker.pick(call))
    }

    fn preview(&self, call: &mut PickArgs<'_>) -> Pick {
        self.chosen(call).map_or(Pick::Queue, |picker| picker.preview(call))
    }
}

impl WrrLocality {
    fn change(
        &mut self,
        locality: &Locality,
        cx: &mut Context<'_>,
        handle: impl FnOnce(&mut Switch, &mut Context<'_>),
    ) {
        let Some(child) = self.children.get_mut(locality) else { return };
        self.picker = None;
        self.counts.remove(child.switch.connectivity());
        let switch = &mut child.switch;
        self.owners.within(locality, cx, |cx| handle(switch, cx));
        self.counts.add(child.switch.connectivity());
        self.deadlines.set(locality, child.switch.deadline());
    }

    fn change_owner(
        &mut self,
        part: Part,
        cx: &mut Context<'_>,
        handle: impl FnOnce(&mut Switch, &mut Context<'_>),
    ) {
        if let Some(locality) = self.owners.of(part).cloned() {
            self.change(&locality, cx, handle);
            self.rouse(cx);
        }
    }

    /// Connects localities that are idle while another one is not: no call goes to them, so none would wake them.
    fn rouse(&mut self, cx: &mut Context<'_>) {
        if self.counts.idle == 0 || self.counts.idle == self.children.len() {
            return;
        }
        let idle = self.children.iter().filter(|(_, it)| it.is_idle());
        for locality in idle.map(|(locality, _)| locality.clone()).collect::<Vec<_>>() {
            self.change(&locality, cx, |child, cx| child.wake(Wake::All, cx));
        }
    }

    fn remove(&mut self, locality: &Locality, cx: &mut Context<'_>) {
        let Some(mut child) = self.children.remove(locality) else { return };
        self.counts.remove(child.switch.connectivity());
        self.deadlines.set(locality, None);
        self.owners.within(locality, cx, |cx| child.switch.close(cx));
    }
}

impl Balancer for WrrLocality {
    fn update(&mut self, update: &Update<'_>, cx: &mut Context<'_>) {
        self.picker = None;
        let PolicyConfig::WrrLocality(config) = update.config else { return };
        let localities = by_locality(update.endpoints);
        let gone = self.children.keys().filter(|locality| !localities.contains_key(*locality));
        for locality in gone.cloned().collect::<Vec<_>>() {
            self.remove(&locality, cx);
        }
        for (locality, endpoints) in localities {
            let Some(first) = endpoints.first() else { continue };
            let named = Arc::clone(&first.locality);
            let update = Update { config, endpoints: &endpoints, note: update.note };
            if let Some(child) = self.children.get_mut(locality) {
                child.locality = named;
            } else {
                let switch = Switch::of_kind(config);
                self.counts.add(switch.connectivity());
                self.children.insert(locality.clone(), Child { locality: named, switch });
            }
            self.change(locality, cx, |child, cx| child.update_with(&update, cx));
        }
        self.rouse(cx);
    }
}

impl Branch for WrrLocality {
    fn subchannel(&mut self, id: SubchannelId, state: &SubchannelState, cx: &mut Context<'_>) {
        let part = Part::Subchannel(id);
        self.change_owner(part, cx, |child, cx| child.subchannel(id, state, cx));
    }

    fn ejected(&mut self, id: SubchannelId, is_ejected: bool, cx: &mut Context<'_>) {
        let part = Part::Subchannel(id);
        self.change_owner(part, cx, |child, cx| child.ejected(id, is_ejected, cx));
    }

    fn wake(&mut self, wake: Wake, cx: &mut Context<'_>) {
        if let Wake::Endpoint(id) = wake {
            return self.change_owner(Part::Endpoint(id), cx, |child, cx| child.wake(wake, cx));
        }
        for locality in self.children.keys().cloned().collect::<Vec<_>>() {
            self.change(&locality, cx, |child, cx| child.wake(wake, cx));
        }
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        while let Some(locality) = self.deadlines.pop_due(cx.now) {
            self.change(&locality, cx, Switch::on_time);
        }
        self.rouse(cx);
    }

    fn deadline(&self) -> Option<Time> {
        self.deadlines.next()
    }

    fn connectivity(&self) -> Connectivity {
        self.counts.aggregated()
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        if let Some(picker) = &self.picker {
            return Arc::clone(picker);
        }
        let state = self.connectivity();
        let of_state = self.children.values_mut().filter(|it| it.switch.connectivity() == state);
        let picker: Arc<dyn Picker> = match state {
            Connectivity::Connecting => Arc::new(Queueing(None)),
            Connectivity::Idle => Arc::new(Queueing(Some(Wake::All))),
            _ if self.counts == StateCounts::default() => {
                Arc::new(Failing(Failure::unavailable("there are no localities")))
            }
            Connectivity::Ready | Connectivity::TransientFailure => {
                let children = of_state.map(|child| (child.locality.weight, child.switch.picker()));
                Arc::new(ByWeight::new(children))
            }
        };
        self.picker = Some(Arc::clone(&picker));
        picker
    }

    fn describe(&self) -> Description {
        let state = self.connectivity();
        let children = self.children.values().map(|child| {
            let is_of_state = child.switch.connectivity() == state;
            DescribedChild {
                name: ChildName::Locality(Arc::clone(&child.locality)),
                turn: if is_of_state { Turn::Taken } else { Turn::PassedOver },
                description: Some(child.switch.describe()),
            }
        });
        Description { children: children.collect(), ..Description::of_state(state) }
    }

    fn close(&mut self, cx: &mut Context<'_>) {
        for locality in self.children.keys().cloned().collect::<Vec<_>>() {
            self.remove(&locality, cx);
        }
    }
}

fn by_locality(endpoints: &[Arc<Endpoint>]) -> BTreeMap<&Locality, Cow<'_, [Arc<Endpoint>]>> {
    let mut localities = BTreeMap::<_, Cow<'_, [_]>>::new();
    // Neighbours mostly share their locality, which then need not be compared by its texts.
    for neighbours in endpoints.chunk_by(|one, next| Arc::ptr_eq(&one.locality, &next.locality)) {
        match localities.entry(&neighbours[0].locality.name) {
            Entry::Vacant(entry) => drop(entry.insert(Cow::Borrowed(neighbours))),
            Entry::Occupied(entry) => entry.into_mut().to_mut().extend_from_slice(neighbours),
        }
    }
    localities
}
