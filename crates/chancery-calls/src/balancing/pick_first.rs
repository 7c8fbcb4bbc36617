//! `pick_first`: one connection to the first address that answers (C-117, gRFC A61, A62, A113). It is
//! a policy, and below every other policy it keeps the connection of one endpoint.
//!
//! ```text
//!   Idle --connect--> FirstPass --all failed--> Retrying
//!    ^                    |                        |
//!    +---- lost --------- Ready <------------------+
//! ```
//!
//! In the first pass the addresses are tried one after another: the next one when an attempt has
//! failed, or has taken 250 ms. When all have failed, each is tried again as soon as its backoff
//! allows; the state stays TRANSIENT_FAILURE until one is connected.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::Time;

use super::connectivity::{Connectivity, SubchannelState};
use super::context::{Context, SubchannelId};
use super::endpoint::Endpoint;
use super::picker::{Observers, Picked};

mod description;
mod order;
mod policy;

pub(super) use self::policy::{PickFirstPolicy, with_note};

/// The time that an attempt has for itself before the next address is tried too (gRFC A61).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The connection to the first of some addresses that answers.
#[derive(Debug, Default)]
pub(super) struct PickFirst {
    attempts: Vec<Attempt>,
    /// The place of each subchannel in `attempts`.
    places: BTreeMap<SubchannelId, usize>,
    /// The subchannels that were taken out for their errors. They are connected like others.
    ejected: BTreeSet<SubchannelId>,
    phase: Phase,
    /// True since everything has failed, until something is connected.
    has_failed: bool,
    last_error: Option<Arc<str>>,
}

/// An address, with its subchannel once it was needed.
#[derive(Debug)]
struct Attempt {
    address: SocketAddr,
    endpoint: Arc<Endpoint>,
    subchannel: Option<SubchannelId>,
    state: SubchannelState,
    /// True if it has failed since the pass began.
    has_failed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Addresses before `tried` were tried; the next one is due at this time.
    FirstPass { tried: usize, next_at: Option<Time> },
    /// All have failed; the number of failures since the last request to resolve names again.
    Retrying { failures: usize },
    /// This one is connected.
    Ready { place: usize },
}

impl PickFirst {
    /// Takes new endpoints. A connection to one of their addresses is kept (C-120).
    pub(super) fn update(&mut self, endpoints: &[Arc<Endpoint>], cx: &mut Context<'_>) {
        let order = order::addresses(endpoints);
        let known = self.attempts.iter().map(|attempt| attempt.address);
        if !order.is_empty() && known.eq(order.iter().map(|(address, _)| *address)) {
            // A pass goes on: updates that come faster than attempts end must not begin it anew.
            for (attempt, (_, endpoint)) in self.attempts.iter_mut().zip(order) {
                attempt.endpoint = endpoint;
            }
            return;
        }
        let mut before: BTreeMap<_, _> = std::mem::take(&mut self.attempts)
            .into_iter()
            .filter_map(|attempt| Some((attempt.address, (attempt.subchannel?, attempt.state))))
            .collect();
        self.places.clear();
        for (address, endpoint) in order {
            let known = before.remove(&address);
            let (subchannel, state) =
                known.map_or((None, SubchannelState::Idle), |(id, state)| (Some(id), state));
            self.places.extend(subchannel.map(|id| (id, self.attempts.len())));
            self.attempts.push(Attempt { address, endpoint, subchannel, state, has_failed: false });
        }
        for (id, _) in before.into_values() {
            self.ejected.remove(&id);
            cx.close(id);
        }
        self.resume(cx);
    }

    /// Goes on with other addresses as it was doing before.
    fn resume(&mut self, cx: &mut Context<'_>) {
        let ready =
            self.attempts.iter().position(|attempt| attempt.state == SubchannelState::Ready);
        match (self.phase, ready) {
            _ if self.attempts.is_empty() => {
                self.phase = Phase::Idle;
                self.has_failed = true;
                self.last_error = Some("there are no addresses".into());
            }
            (Phase::Ready { .. }, Some(place)) => self.phase = Phase::Ready { place },
            (_, Some(place)) => self.select(place, cx),
            (Phase::Ready { .. } | Phase::Idle, None) => {
                let was_empty = std::mem::take(&mut self.has_failed);
                self.phase = Phase::Idle;
                if was_empty {
                    self.has_failed = true;
                    self.connect(cx);
                }
            }
            (Phase::FirstPass { .. } | Phase::Retrying { .. }, None) => self.begin_pass(cx),
        }
    }

    /// Connects, if nobody has asked for it yet.
    pub(super) fn connect(&mut self, cx: &mut Context<'_>) {
        if self.phase == Phase::Idle && !self.attempts.is_empty() {
            self.begin_pass(cx);
        }
    }

    fn begin_pass(&mut self, cx: &mut Context<'_>) {
        self.attempts.iter_mut().for_each(|attempt| attempt.has_failed = false);
        self.phase = Phase::FirstPass { tried: 0, next_at: None };
        self.try_next(cx);
    }

    /// Tries the next address of the pass, and those after it that are known to have failed.
    fn try_next(&mut self, cx: &mut Context<'_>) {
        let Phase::FirstPass { mut tried, .. } = self.phase else { return };
        let mut is_trying = false;
        while !is_trying && tried < self.attempts.len() {
            is_trying = self.attempt(tried, cx);
            tried += 1;
        }
        let is_last = tried == self.attempts.len();
        let next_at = (is_trying && !is_last).then(|| cx.now + ATTEMPT_DELAY);
        self.phase = Phase::FirstPass { tried, next_at };
        self.end_pass_if_all_failed(cx);
    }

    /// Tries one address. Returns false if it is in backoff, which counts as a try that failed.
    fn attempt(&mut self, place: usize, cx: &mut Context<'_>) -> bool {
        let attempt = &mut self.attempts[place];
        let id = match attempt.subchannel {
            Some(id) => id,
            None => {
                let id = cx.create(attempt.address, &attempt.endpoint);
                attempt.subchannel = Some(id);
                self.places.insert(id, place);
                id
            }
        };
        match attempt.state {
            SubchannelState::Idle => {
                attempt.state = SubchannelState::Connecting;
                cx.connect(id);
                true
            }
            SubchannelState::Connecting | SubchannelState::Ready => true,
            SubchannelState::Failed(_) => {
                attempt.has_failed = true;
                false
            }
        }
    }

    fn end_pass_if_all_failed(&mut self, cx: &mut Context<'_>) {
        let Phase::FirstPass { tried, .. } = self.phase else { return };
        if tried < self.attempts.len() || self.attempts.iter().any(|attempt| !attempt.has_failed) {
            return;
        }
        self.phase = Phase::Retrying { failures: 0 };
        self.has_failed = true;
        cx.resolve();
        for attempt in &mut self.attempts {
            if let (Some(id), SubchannelState::Idle) = (attempt.subchannel, &attempt.state) {
                attempt.state = SubchannelState::Connecting;
                cx.connect(id);
            }
        }
    }

    /// A subchannel has another state.
    pub(super) fn subchannel(
        &mut self,
        id: SubchannelId,
        state: &SubchannelState,
        cx: &mut Context<'_>,
    ) {
        let Some(place) = self.places.get(&id).copied() else { return };
        self.attempts[place].state = state.clone();
        match (self.phase, state) {
            (Phase::Ready { place: selected }, _) if selected == place => {
                if *state != SubchannelState::Ready {
                    self.lose(cx);
                }
            }
            (Phase::Ready { .. }, _) => {}
            (_, SubchannelState::Ready) => self.select(place, cx),
            (Phase::FirstPass { tried, .. }, SubchannelState::Failed(error)) => {
                self.last_error = Some(Arc::clone(error));
                let attempt = &mut self.attempts[place];
                attempt.has_failed = place < tried;
                if place + 1 == tried {
                    self.try_next(cx);
                }
                self.end_pass_if_all_failed(cx);
            }
            (Phase::Retrying { failures }, SubchannelState::Failed(error)) => {
                self.last_error = Some(Arc::clone(error));
                let failures = failures + 1;
                let is_round = failures >= self.attempts.len();
                if is_round {
                    cx.resolve();
                }
                self.phase = Phase::Retrying { failures: if is_round { 0 } else { failures } };
            }
            (Phase::Retrying { .. }, SubchannelState::Idle) => {
                self.attempts[place].state = SubchannelState::Connecting;
                cx.connect(id);
            }
            (Phase::FirstPass { .. }, SubchannelState::Idle) => self.retry_in_pass(place, cx),
            (Phase::Idle, _) | (_, SubchannelState::Connecting) => {}
        }
    }

    /// A subchannel went idle during the pass: it was lost before it was ready, or its backoff has
    /// ended. An attempt that counts as failed waits for the end of the pass.
    fn retry_in_pass(&mut self, place: usize, cx: &mut Context<'_>) {
        let Phase::FirstPass { tried, .. } = self.phase else { return };
        if place < tried && !self.attempts[place].has_failed {
            self.attempt(place, cx);
        }
    }

    /// Uses this one and gives up all others.
    fn select(&mut self, place: usize, cx: &mut Context<'_>) {
        self.phase = Phase::Ready { place };
        self.has_failed = false;
        self.last_error = None;
        self.places.clear();
        for (at, attempt) in self.attempts.iter_mut().enumerate() {
            if at == place {
                self.places.extend(attempt.subchannel.map(|id| (id, at)));
            } else if let Some(id) = attempt.subchannel.take() {
                attempt.state = SubchannelState::Idle;
                self.ejected.remove(&id);
                cx.close(id);
            }
        }
    }

    /// The connection that was used is lost: the next call, or the parent, asks for another one.
    fn lose(&mut self, cx: &mut Context<'_>) {
        self.phase = Phase::Idle;
        cx.resolve();
    }

    /// The endpoint was taken out for its errors, or let in again.
    pub(super) fn ejected(&mut self, id: SubchannelId, is_ejected: bool) {
        if !is_ejected {
            self.ejected.remove(&id);
        } else if self.places.contains_key(&id) {
            self.ejected.insert(id);
        }
    }

    /// Returns true if the connection was taken out.
    fn is_ejected(&self) -> bool {
        self.connected().is_some_and(|id| self.ejected.contains(&id))
    }

    /// The time of the deadline has come.
    pub(super) fn on_time(&mut self, cx: &mut Context<'_>) {
        if self.deadline().is_some_and(|time| time <= cx.now) {
            self.try_next(cx);
        }
    }

    /// Returns when the next address is tried.
    pub(super) fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::FirstPass { next_at, .. } => next_at,
            _ => None,
        }
    }

    pub(super) fn connectivity(&self) -> Connectivity {
        match self.phase {
            Phase::Ready { .. } if self.is_ejected() => Connectivity::TransientFailure,
            Phase::Ready { .. } => Connectivity::Ready,
            _ if self.has_failed => Connectivity::TransientFailure,
            Phase::Idle => Connectivity::Idle,
            Phase::FirstPass { .. } | Phase::Retrying { .. } => Connectivity::Connecting,
        }
    }

    /// Returns the subchannel that is connected, although it may be taken out.
    pub(super) fn connected(&self) -> Option<SubchannelId> {
        let Phase::Ready { place } = self.phase else { return None };
        self.attempts.get(place)?.subchannel
    }

    /// Returns the subchannel that takes calls.
    pub(super) fn selected(&self) -> Option<SubchannelId> {
        self.selected_attempt()?.subchannel
    }

    fn selected_attempt(&self) -> Option<&Attempt> {
        let Phase::Ready { place } = self.phase else { return None };
        self.attempts.get(place).filter(|_| !self.is_ejected())
    }

    /// Returns the choice of the endpoint for a call with these observers, if one takes calls.
    pub(super) fn picked(&self, observers: Observers) -> Option<Picked> {
        let Attempt { address, endpoint, subchannel, .. } = self.selected_attempt()?;
        let (subchannel, address, endpoint) = ((*subchannel)?, *address, Arc::clone(endpoint));
        Some(Picked { subchannel, endpoint, address, cluster: None, observers })
    }

    /// Returns the reason of the last failure.
    pub(super) fn error(&self) -> Arc<str> {
        if self.is_ejected() {
            return "the endpoint is ejected by outlier detection".into();
        }
        self.last_error.clone().unwrap_or_else(|| "no connection".into())
    }

    /// Gives up all subchannels.
    pub(super) fn close(&mut self, cx: &mut Context<'_>) {
        self.phase = Phase::Idle;
        self.places.clear();
        self.ejected.clear();
        for attempt in std::mem::take(&mut self.attempts) {
            if let Some(id) = attempt.subchannel {
                cx.close(id);
            }
        }
    }
}
