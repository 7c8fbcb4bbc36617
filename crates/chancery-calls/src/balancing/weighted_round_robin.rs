//! `weighted_round_robin`: endpoints get calls by how much each of them can do, which their own reports
//! tell (C-116, gRFC A58, A114). While it knows the weights of fewer than two, it is round robin.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::Time;

use self::schedule::Schedule;
use self::weight::{Known, Reports, Weight};
use super::connect_all::Choose;
use super::context::Context;
use super::counted::{Counted, Weights};
use super::endpoint::EndpointLocality;
use super::endpoint_set::Member;
use super::picker::{CallObserver, Observers, Pick, PickArgs, Picked, Picker};
use super::policy::PolicyConfig;
use super::report::LoadWatch;
use super::round_robin::Turns;

mod config;
mod schedule;
mod weight;

pub use self::config::{ErrorPenalty, UtilizationMetrics, WeightedRoundRobinConfig};

/// The least time between two schedules (gRFC A58).
const SHORTEST_UPDATE_PERIOD: Duration = Duration::from_millis(100);

/// Weights by reports.
#[derive(Debug, Default)]
pub(super) struct ByReports {
    config: Arc<WeightedRoundRobinConfig>,
    turns: Turns,
    /// The time of the last input that said it.
    now: Time,
    /// When the schedule is made again; never while there is nothing to choose.
    next_update: Option<Time>,
    /// The weights in the schedule that was made last.
    weights: Vec<f64>,
}

/// The weight of an endpoint, with that which takes its reports.
#[derive(Debug, Default)]
pub(super) struct Kept {
    weight: Arc<Weight>,
    reports: Option<Arc<Reports>>,
}

/// The endpoints that are ready, by a schedule.
#[derive(Debug)]
struct Scheduled {
    ready: Box<[Picked]>,
    schedule: Schedule,
    turns: Turns,
}

impl Picker for Scheduled {
    fn pick(&self, _: &mut PickArgs<'_>) -> Pick {
        self.at(self.schedule.next(|| self.turns.next()))
    }

    fn preview(&self, _: &mut PickArgs<'_>) -> Pick {
        let mut turns = (0..).map(|later| self.turns.coming().wrapping_add(later));
        self.at(self.schedule.next(|| turns.next().unwrap_or_default()))
    }
}

impl Scheduled {
    fn at(&self, place: usize) -> Pick {
        self.ready.get(place).map_or(Pick::Queue, |picked| Pick::To(picked.clone()))
    }
}

impl ByReports {
    fn period(&self) -> Duration {
        self.config.weight_update_period.max(SHORTEST_UPDATE_PERIOD)
    }

    /// Returns the weights of those that are ready.
    fn weights(&self, endpoints: &[Member<Kept>]) -> Weights {
        let mut all = Weights { locality: locality_of(endpoints), ..Weights::default() };
        for member in endpoints.iter().filter(|member| member.ready().is_some()) {
            let known = member.kept.weight.at(self.now, &self.config);
            all.not_yet_usable += usize::from(known == Known::NotYet);
            all.stale += usize::from(known == Known::Stale);
            all.weights.push(if let Known::Weight(weight) = known { weight } else { 0.0 });
        }
        all
    }

    /// Asks the server of a connection for reports, or lets it end them.
    fn watch(&self, member: &Member<Kept>, cx: &mut Context<'_>) {
        let Some(id) = member.connected() else { return };
        let watch = self.config.out_of_band.zip(member.kept.reports.as_ref());
        let watch = watch.map(|(period, reports)| {
            let reports = Arc::clone(reports);
            LoadWatch { period, watcher: reports }
        });
        cx.watch_load(id, watch);
    }

    fn observers(&self, kept: &Kept) -> Observers {
        let is_per_call = self.config.out_of_band.is_none();
        let reports = kept.reports.iter().filter(|_| is_per_call);
        reports.map(|reports| Arc::clone(reports) as Arc<dyn CallObserver>).collect()
    }
}

impl Choose for ByReports {
    type Kept = Kept;

    fn update(
        &mut self,
        config: &PolicyConfig,
        endpoints: &mut [Member<Kept>],
        cx: &mut Context<'_>,
    ) {
        let PolicyConfig::WeightedRoundRobin(config) = config else { return };
        self.turns.begin(cx);
        self.now = cx.now;
        let is_other = **config != *self.config;
        let before = std::mem::replace(&mut self.config, Arc::clone(config));
        for member in &mut *endpoints {
            if is_other || member.kept.reports.is_none() {
                let weight = Arc::clone(&member.kept.weight);
                member.kept.reports =
                    Some(Arc::new(Reports { weight, config: Arc::clone(config) }));
            }
        }
        if is_other && (before.out_of_band, config.out_of_band) != (None, None) {
            endpoints.iter().for_each(|member| self.watch(member, cx));
        }
        let latest = cx.now + self.period();
        let next = self.next_update.map_or(latest, |next| next.min(latest));
        self.next_update = (endpoints.len() > 1).then_some(next);
    }

    /// A server that was started again may do more or less than before.
    fn connected(&mut self, member: &Member<Kept>, cx: &mut Context<'_>) {
        self.now = cx.now;
        member.kept.weight.forget();
        if self.config.out_of_band.is_some() {
            self.watch(member, cx);
        }
    }

    fn picker(&mut self, endpoints: &[Member<Kept>]) -> Arc<dyn Picker> {
        self.weights = self.weights(endpoints).weights;
        let ready = endpoints.iter().filter_map(|it| it.picked(self.observers(&it.kept)));
        Arc::new(Scheduled {
            ready: ready.collect(),
            schedule: Schedule::new(&self.weights),
            turns: self.turns.clone(),
        })
    }

    fn on_time(&mut self, endpoints: &[Member<Kept>], cx: &mut Context<'_>) -> bool {
        if self.next_update.is_none_or(|at| at > cx.now) {
            return false;
        }
        self.now = cx.now;
        self.next_update = Some(cx.now + self.period());
        let weights = self.weights(endpoints);
        let is_other = weights.weights != self.weights;
        if !weights.weights.is_empty() {
            cx.count(Counted::Weights(weights));
        }
        is_other
    }

    fn deadline(&self) -> Option<Time> {
        self.next_update
    }
}

/// Returns the locality of all endpoints, if it is one.
fn locality_of(endpoints: &[Member<Kept>]) -> Option<Arc<EndpointLocality>> {
    let mut localities = endpoints.iter().map(|member| &member.endpoint.locality);
    let first = localities.next()?;
    let is_same = |it: &Arc<EndpointLocality>| Arc::ptr_eq(it, first) || it.name == first.name;
    localities.all(is_same).then(|| Arc::clone(first))
}
