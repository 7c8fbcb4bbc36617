//! Every policy under random changes, with outlier detection above it: endpoints come, go and change
//! their weights, connections are refused, hang and break, calls fail and report loads, and one policy
//! follows another. Not here: clusters and priorities (`simulation`).
//!
//! After every step no call goes to what is no endpoint any more, and none waits or fails although its
//! policy has a connection for it. When the world has been quiet, calls go exactly where they should, and
//! those with a hash to the same endpoint as from a client that has just begun.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    CallEnd, ChoiceCount, Connectivity, Detection, DetectionTarget, Endpoint, FailurePercentage,
    Node, OutlierDetection, Percent, Pick, Picked, PolicyConfig, RingHashConfig, SuccessRate,
    Switch, WeightedRoundRobinConfig,
};
use chancery_calls::{Dice, SeededDice};
use chancery_core::client::load::OrcaReport;
use chancery_testkit::client::Fault;
use chancery_testkit::sim::{History, each_seed};
use http::HeaderMap;

use crate::support::{Disturbance, Play, address, in_locality, target};

/// The endpoints that there may be.
const ENDPOINTS: u64 = 9;

/// The size of a subset.
const SUBSET: u8 = 3;

struct World {
    play: Play<OutlierDetection<Switch>>,
    dice: SeededDice,
    /// The endpoints with their zones and weights.
    endpoints: BTreeMap<u64, (u64, u64)>,
    policy: PolicyConfig,
    /// True as long as a ring may take the calls, which goes on until the next policy can.
    has_ring: bool,
    detection: Detection,
    /// The endpoints whose calls fail.
    bad: BTreeSet<SocketAddr>,
    under_way: Vec<Picked>,
    history: Option<Vec<String>>,
}

fn name(endpoint: u64) -> String {
    (endpoint + 1).to_string()
}

/// Returns one of all policies.
fn policy(number: u64) -> PolicyConfig {
    let within = |child| PolicyConfig::WrrLocality(Arc::new(child));
    let part = |child| {
        let size = NonZeroU32::new(SUBSET.into()).expect("a size");
        PolicyConfig::RandomSubsetting { size, child: Arc::new(child) }
    };
    let weighted = |blackout| {
        let blackout_period = Duration::from_secs(blackout);
        let config = WeightedRoundRobinConfig { blackout_period, ..Default::default() };
        PolicyConfig::WeightedRoundRobin(Arc::new(config))
    };
    let ring = |cap| PolicyConfig::RingHash(RingHashConfig::default().with_cap(cap));
    match number {
        0 => PolicyConfig::PickFirst { shuffle: true },
        1 => PolicyConfig::RoundRobin,
        2 => PolicyConfig::LeastRequest(ChoiceCount::default()),
        3 => weighted(10),
        4 => within(weighted(0)),
        5 => ring(4096),
        // On a smaller one an endpoint of little weight may have no entry.
        6 => ring(64),
        7 => part(PolicyConfig::RoundRobin),
        8 => part(PolicyConfig::PickFirst { shuffle: false }),
        9 => within(PolicyConfig::PickFirst { shuffle: false }),
        _ => within(PolicyConfig::LeastRequest(ChoiceCount::default())),
    }
}

fn detection(number: u64) -> Detection {
    let sensitive = Detection {
        max_ejection_percent: Percent::new(50).expect("a part"),
        success_rate: Some(SuccessRate {
            request_volume: 4,
            minimum_hosts: 2,
            ..Default::default()
        }),
        failure_percentage: Some(FailurePercentage {
            request_volume: 4,
            minimum_hosts: 1,
            ..Default::default()
        }),
        ..Detection::default()
    };
    if number == 0 { Detection::default() } else { sensitive }
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            play: Play::of(seed),
            dice: SeededDice(seed ^ 0x5eed),
            endpoints: BTreeMap::new(),
            policy: PolicyConfig::RoundRobin,
            has_ring: false,
            detection: Detection::default(),
            bad: BTreeSet::new(),
            under_way: Vec::new(),
            history: None,
        }
    }

    fn step(&mut self) {
        let endpoint = self.dice.below(ENDPOINTS);
        let name = name(endpoint);
        let disturbance = match self.dice.below(16) {
            0..=2 => Disturbance::Up,
            3 => Disturbance::Down,
            4 => Disturbance::Silence,
            5 => Disturbance::Refusal,
            6 | 7 => Disturbance::Time,
            8 => return self.change_calls(&name),
            9 => return self.change_policy(),
            10 | 11 => return self.change_endpoint(endpoint),
            _ => return self.call(),
        };
        let text = self.play.disturb(disturbance, &name, &mut self.dice);
        self.note(|| text);
    }

    fn change_calls(&mut self, name: &str) {
        let is_bad = !self.bad.remove(&address(name)) && self.bad.insert(address(name));
        self.note(|| format!("calls to {name} fail from now on: {is_bad}"));
    }

    fn change_policy(&mut self) {
        if self.dice.below(2) == 0 {
            self.policy = policy(self.dice.below(11));
        } else {
            self.detection = detection(self.dice.below(3));
        }
        let now = (self.policy.clone(), self.detection.is_enabled());
        self.note(|| format!("the policy and detection are {now:?}"));
        self.apply();
    }

    fn change_endpoint(&mut self, endpoint: u64) {
        let (zone, weight) = (self.dice.below(2), 1 + self.dice.below(3));
        if self.dice.below(3) == 0 {
            self.endpoints.remove(&endpoint);
        } else {
            self.endpoints.insert(endpoint, (zone, weight));
        }
        let now = self.endpoints.clone();
        self.note(|| format!("the endpoints are {now:?}"));
        self.apply();
    }

    /// Begins some calls and ends some of those that were begun.
    fn call(&mut self) {
        for _ in 0..8 {
            let hash = Some(self.dice.roll());
            if let Pick::To(picked) = self.play.pick_with(hash, &HeaderMap::new()) {
                picked.started();
                self.under_way.push(picked);
            }
        }
        while self.under_way.len() > 4 {
            let place = self.dice.below(self.under_way.len() as u64);
            let place = usize::try_from(place).expect("a small number");
            self.end(place);
        }
        self.note(|| "calls began, and some ended".to_owned());
    }

    fn end(&mut self, place: usize) {
        let picked = self.under_way.swap_remove(place);
        let rate = u32::try_from(self.dice.below(100)).expect("a small number");
        let report = OrcaReport {
            rps_fractional: Some(f64::from(rate)),
            cpu_utilization: Some(0.5),
            ..OrcaReport::default()
        };
        let succeeded = !self.bad.contains(&picked.endpoint.addresses[0]);
        picked.ended(&CallEnd { succeeded, now: self.play.now, report: Some(&report) });
    }

    fn all(&self) -> Vec<Arc<Endpoint>> {
        let of = |wanted: u64| {
            let here = self.endpoints.iter().filter(|(_, (zone, _))| *zone == wanted);
            let words = here.map(|(endpoint, (_, weight))| format!("{}*{weight}", name(*endpoint)));
            let weight = u32::try_from(wanted + 1).expect("a small number");
            in_locality(&wanted.to_string(), weight, &words.collect::<Vec<_>>().join(" "))
        };
        [of(0), of(1)].concat()
    }

    fn apply(&mut self) {
        let all = self.all();
        self.play.update_to(&DetectionTarget {
            cluster: "orders".into(),
            detection: Arc::new(self.detection.clone()),
            endpoints: all.clone().into(),
            node: target(&self.policy, &all),
        });
    }

    /// Returns the localities that have some of these addresses.
    fn zones_of(&self, addresses: &BTreeSet<SocketAddr>) -> BTreeSet<u64> {
        let there =
            self.endpoints.iter().filter(|(it, _)| addresses.contains(&address(&name(**it))));
        there.map(|(_, (zone, _))| *zone).collect()
    }

    fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.endpoints.keys().map(|it| address(&name(*it))).collect()
    }

    /// Checks what must be true at every moment.
    fn check(&mut self) -> Result<(), Fault> {
        let addresses = self.addresses();
        let is_ring = matches!(self.policy, PolicyConfig::RingHash(_));
        self.has_ring = is_ring || (self.has_ring && self.play.state() == Connectivity::Ready);
        for _ in 0..6 {
            let (state, ready) = (self.play.state(), self.play.ready());
            let hash = Some(self.dice.roll());
            let pick = self.play.pick_with(hash, &HeaderMap::new());
            let is_fitting = match &pick {
                Pick::To(picked) => {
                    let to = picked.endpoint.addresses[0];
                    if !addresses.contains(&to) {
                        return fault(format!(
                            "a call goes to {to}, which is no endpoint any more"
                        ));
                    }
                    state == Connectivity::Ready
                }
                Pick::Fail(_) => state == Connectivity::TransientFailure,
                // A call on a ring may wait for its own endpoint, whatever others do.
                Pick::Queue => {
                    self.has_ring || matches!(state, Connectivity::Connecting | Connectivity::Idle)
                }
                Pick::Drop(_) => false,
            };
            if !is_fitting {
                return fault(format!("in the state {state} a call had {pick:?}"));
            }
            if !self.detection.is_enabled() && !ready.is_empty() && state != Connectivity::Ready {
                return fault(format!("{ready:?} are ready, and the state is {state}"));
            }
        }
        Ok(())
    }

    /// Checks what must be true when nothing has happened for long, and all that hung has ended.
    fn check_quiet(&mut self) -> Result<(), Fault> {
        while !self.under_way.is_empty() {
            self.end(0);
        }
        self.detection = Detection::default();
        self.apply();
        self.play.calm_down();
        let addresses = self.addresses();
        let expected = &addresses & &self.play.up;
        let used = self.used();
        let is_right = match &self.policy {
            PolicyConfig::PickFirst { .. } => used.len() == expected.len().min(1),
            PolicyConfig::WrrLocality(child)
                if matches!(**child, PolicyConfig::PickFirst { .. }) =>
            {
                used.len() == self.zones_of(&expected).len()
            }
            PolicyConfig::RandomSubsetting { .. } => used.len() <= SUBSET.into(),
            PolicyConfig::RingHash(_) => return self.check_homes(&expected),
            _ => used == expected,
        };
        if !is_right || !used.is_subset(&expected) {
            return fault(format!("calls go to {used:?}, and should go to {expected:?}"));
        }
        match self.play.open() <= addresses.len() {
            true => Ok(()),
            false => fault(format!("{} subchannels for {addresses:?}", self.play.open())),
        }
    }

    fn used(&mut self) -> BTreeSet<SocketAddr> {
        let mut used = BTreeSet::new();
        for _ in 0..600 {
            let hash = Some(self.dice.roll());
            if let Pick::To(picked) = self.play.pick_with(hash, &HeaderMap::new()) {
                used.insert(self.play.address_of(&picked));
            }
        }
        used
    }

    /// Checks that each hash has the endpoint that it has for a client that begins now.
    fn check_homes(&mut self, expected: &BTreeSet<SocketAddr>) -> Result<(), Fault> {
        let all = self.all();
        let mut other = Play::new();
        other.up.clone_from(&self.play.up);
        other.update(&self.policy, &all);
        for _ in 0..50 {
            let hash = self.dice.roll();
            let (home, fresh) = (home(&mut self.play, hash), home(&mut other, hash));
            if home != fresh || home.is_some() == expected.is_empty() {
                return fault(format!(
                    "{hash} goes to {home:?}, and for a new client to {fresh:?}"
                ));
            }
        }
        Ok(())
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            history.push(line());
        }
    }
}

/// Returns where a call with a hash goes in the end, if it goes anywhere.
fn home<N: Node>(play: &mut Play<N>, hash: u64) -> Option<SocketAddr> {
    for _ in 0..=2 * ENDPOINTS {
        match play.pick_with(Some(hash), &HeaderMap::new()) {
            Pick::To(picked) => return Some(picked.endpoint.addresses[0]),
            Pick::Queue => {}
            Pick::Fail(_) | Pick::Drop(_) => return None,
        }
    }
    None
}

fn fault(text: String) -> Result<(), Fault> {
    Err(Fault(text))
}

impl History for World {
    fn live(&mut self, operations: u64) -> Result<(), Fault> {
        self.apply();
        for _ in 0..operations {
            self.step();
            self.check()?;
        }
        self.check_quiet()
    }

    fn record(&mut self) {
        self.history = Some(vec!["a network of nine endpoints".to_owned()]);
    }

    fn trace(&self) -> Vec<String> {
        self.history.clone().unwrap_or_default()
    }
}

/// C-113, C-114, C-115, C-116, C-117, C-149
#[test]
fn calls_go_where_the_policy_of_the_moment_says() {
    each_seed(80, World::new, 200);
}
