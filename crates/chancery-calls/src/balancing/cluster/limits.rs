//! The calls that a cluster drops, allows and counts, around the picker of its priorities.
//!
//! The order is that of gRPC: first the parts that are dropped, each for itself (C-118), then the
//! number of calls under way (C-147), then the choice of an endpoint. A call that would only wait is
//! not dropped: it rolls once, when an endpoint can take it. So the endpoint of a session is looked at before (C-106).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chancery_core::Locality;

use super::ClusterTarget;
use super::sessions::{Choice, SessionPicker};
use crate::Failure;
use crate::balancing::endpoint::EndpointLocality;
use crate::balancing::picker::{CallObserver, Pick, PickArgs, Picker, Queueing};

/// A part of the calls that is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCategory {
    /// The name, for load reports.
    pub name: Arc<str>,
    /// The part, in millionths; at most 1,000,000.
    pub per_million: u32,
}

/// The calls that are under way, in a whole process, to one cluster and service.
#[derive(Debug, Default)]
pub struct InFlight(AtomicU32);

/// The permit of a call that is under way. It counts until it is dropped.
#[derive(Debug)]
pub struct Permit(Arc<InFlight>);

/// Counts calls for load reports.
pub trait LoadSink: Send + Sync + fmt::Debug {
    /// Returns the one who counts the calls of a locality.
    fn locality(&self, locality: &Locality) -> Arc<dyn CallObserver>;

    /// A call was dropped, for a category or, by circuit breaking, for none (C-132).
    fn dropped(&self, category: Option<&str>);
}

/// Those who count the calls of each locality, found by the place of the locality in memory: a call
/// compares no names.
#[derive(Debug, Default)]
pub(super) struct LocalityLoads(Vec<(Arc<EndpointLocality>, Arc<dyn CallObserver>)>);

/// Drops, allows and counts.
#[derive(Debug)]
pub(super) struct Limited {
    name: Arc<str>,
    drops: Arc<[DropCategory]>,
    in_flight: Arc<InFlight>,
    max_requests: u32,
    load: Option<Arc<dyn LoadSink>>,
    loads: Arc<LocalityLoads>,
    choosing: Choosing,
}

/// Those who choose the endpoint.
#[derive(Debug)]
pub(super) struct Choosing {
    /// For calls that have a session.
    pub(super) sessions: Option<Arc<SessionPicker>>,
    /// For all others.
    pub(super) inner: Arc<dyn Picker>,
    /// True if an endpoint can take any call.
    pub(super) is_ready: bool,
}

impl InFlight {
    /// Lets one more call begin, unless as many as this are under way.
    fn permit(self: &Arc<Self>, most: u32) -> Option<Permit> {
        let begin = |now: u32| (now < most).then(|| now + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, begin).ok()?;
        Some(Permit(Arc::clone(self)))
    }

    /// Returns the number of calls that are under way.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LocalityLoads {
    pub(super) fn new(target: &ClusterTarget) -> Self {
        let Some(load) = &target.load else { return Self::default() };
        let endpoints = target.priorities.iter().flat_map(|(_, target)| target.endpoints.iter());
        // All of a locality may be draining, and take the calls of sessions alone.
        let of_sessions = target.sessions.iter().flat_map(|sessions| &*sessions.endpoints);
        let endpoints = endpoints.chain(of_sessions);
        let mut localities: Vec<_> = endpoints.map(|endpoint| &endpoint.locality).collect();
        localities.sort_unstable_by_key(|locality| Arc::as_ptr(locality));
        localities.dedup_by_key(|locality| Arc::as_ptr(locality));
        let observed = |locality: &Arc<_>| {
            let of: &EndpointLocality = locality;
            (Arc::clone(locality), load.locality(&of.name))
        };
        Self(localities.into_iter().map(observed).collect())
    }

    fn of(&self, locality: &Arc<EndpointLocality>) -> Option<&Arc<dyn CallObserver>> {
        let wanted = Arc::as_ptr(locality);
        let place = self.0.binary_search_by_key(&wanted, |(known, _)| Arc::as_ptr(known));
        let same_name = || self.0.iter().position(|(known, _)| known.name == locality.name);
        // An endpoint of the configuration before may have the same locality at another place.
        let place = place.ok().or_else(same_name)?;
        self.0.get(place).map(|(_, observer)| observer)
    }
}

impl Limited {
    pub(super) fn new(
        target: &ClusterTarget,
        loads: Arc<LocalityLoads>,
        choosing: Choosing,
    ) -> Self {
        Self {
            choosing,
            name: Arc::clone(&target.name),
            drops: Arc::clone(&target.drops),
            in_flight: Arc::clone(&target.in_flight),
            max_requests: target.max_requests,
            load: target.load.clone(),
            loads,
        }
    }

    fn full(&self) -> Failure {
        let (name, most) = (&self.name, self.max_requests);
        Failure::unavailable(format!(
            "cluster `{name}` has {most} calls under way, which is its limit"
        ))
    }

    fn dropped(&self, category: Option<&str>, why: Failure) -> Pick {
        if let Some(load) = &self.load {
            load.dropped(category);
        }
        Pick::Drop(why)
    }
}

impl Choosing {
    /// Looks for the endpoint of the session of a call. The caller says if this is a call, and no question about one.
    fn session(&self, call: &mut PickArgs<'_>, is_call: bool) -> Choice {
        let Some((sessions, addresses)) = self.sessions.as_ref().zip(call.session) else {
            return Choice::Ordinary;
        };
        let choice = sessions.choose(addresses, is_call);
        call.by_session = matches!(choice, Choice::To(_));
        choice
    }

    /// Lets the policies choose. The endpoint of a session that begins is held from now on.
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        let pick = self.inner.pick(call);
        if let (Some(sessions), Some(_), Pick::To(picked)) = (&self.sessions, call.session, &pick) {
            let wake = sessions.began(picked);
            call.wake = call.wake.or(wake);
        }
        pick
    }
}

impl Picker for Limited {
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        let of_session = match self.choosing.session(call, true) {
            Choice::To(picked) => Some(picked),
            Choice::Ordinary => None,
            Choice::Wait(wake) => return Queueing(wake).pick(call),
        };
        if of_session.is_none() && !self.choosing.is_ready {
            return self.choosing.pick(call);
        }
        for category in &*self.drops {
            if call.dice.below(1_000_000) < u64::from(category.per_million) {
                let (name, of) = (&self.name, &category.name);
                let why = format!("cluster `{name}` drops this part of its calls: `{of}`");
                return self.dropped(Some(of), Failure::unavailable(why));
            }
        }
        let Some(permit) = self.in_flight.permit(self.max_requests) else {
            return self.dropped(None, self.full());
        };
        let mut pick = of_session.map_or_else(|| self.choosing.pick(call), Pick::To);
        if let Pick::To(picked) = &mut pick {
            picked.cluster = Some(Arc::clone(&self.name));
            picked.observers.extend(self.loads.of(&picked.endpoint.locality).cloned());
            call.permit = Some(permit);
        }
        pick
    }

    fn preview(&self, call: &mut PickArgs<'_>) -> Pick {
        let of_session = match self.choosing.session(call, false) {
            Choice::To(picked) => Some(picked),
            Choice::Ordinary => None,
            Choice::Wait(wake) => return Queueing(wake).pick(call),
        };
        let is_ready = self.choosing.is_ready || of_session.is_some();
        if is_ready && self.in_flight.count() >= self.max_requests {
            return Pick::Drop(self.full());
        }
        // A part that is all of the calls is no chance.
        if let Some(all) = self.drops.iter().find(|it| is_ready && it.per_million >= 1_000_000) {
            let (name, of) = (&self.name, &all.name);
            let why = format!("cluster `{name}` drops all of its calls: `{of}`");
            return Pick::Drop(Failure::unavailable(why));
        }
        let mut pick = of_session.map_or_else(|| self.choosing.inner.preview(call), Pick::To);
        if let Pick::To(picked) = &mut pick {
            picked.cluster = Some(Arc::clone(&self.name));
        }
        pick
    }
}
