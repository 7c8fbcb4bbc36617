//! Clusters under random changes: endpoints come and go and move between priorities, connections are
//! refused, hang and break, and weights and policies shift.
//!
//! After every step no call goes where the configuration of that moment forbids it, and none waits or
//! fails although an endpoint that its policy would pick is ready. When the world has been quiet for a
//! while, calls go to exactly the endpoints that they should go to. `CHANCERY_SIM_SEED=n` plays one
//! seed again, `CHANCERY_SIM_SEEDS=n` plays more.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    AssignedLocality, Assignment, Cluster, ClusterTarget, Connectivity, Pick, PolicyConfig,
    Priority, PriorityNames,
};
use chancery_calls::{Dice, SeededDice};
use chancery_testkit::client::Fault;
use chancery_testkit::sim::{History, each_seed};

use crate::support::{Disturbance, Play, address, in_locality};

/// The endpoints that there may be.
const ENDPOINTS: u64 = 12;

/// The world: which endpoints the clusters have, where each is, and the network.
struct World {
    play: Play<Priority<Cluster>>,
    dice: SeededDice,
    /// For each cluster of the aggregate its endpoints: priority, zone and name.
    clusters: Vec<BTreeMap<u64, (u32, u64)>>,
    policy: PolicyConfig,
    names: Vec<PriorityNames>,
    history: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            play: Play::of(seed),
            dice: SeededDice(seed ^ 0xabcd),
            clusters: vec![BTreeMap::new(); 2],
            policy: PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin)),
            names: vec![PriorityNames::default(); 2],
            history: None,
        }
    }

    fn step(&mut self) {
        let endpoint = self.dice.below(ENDPOINTS);
        let name = (endpoint + 1).to_string();
        let disturbance = match self.dice.below(10) {
            0 | 1 => Disturbance::Up,
            2 => Disturbance::Down,
            3 => Disturbance::Silence,
            4 => Disturbance::Refusal,
            5 | 6 => Disturbance::Time,
            _ => return self.change(endpoint),
        };
        let text = self.play.disturb(disturbance, &name, &mut self.dice);
        self.note(|| text);
    }

    fn change(&mut self, endpoint: u64) {
        let cluster = usize::try_from(self.dice.below(2)).expect("a small number");
        if self.dice.below(3) == 0 {
            self.clusters[cluster].remove(&endpoint);
        } else {
            let priority = u32::try_from(self.dice.below(3)).expect("a small number");
            // Two clusters share no endpoint: each has connections of its own here, and the check
            // looks at addresses.
            self.clusters[1 - cluster].remove(&endpoint);
            self.clusters[cluster].insert(endpoint, (priority, self.dice.below(2)));
        }
        if self.dice.below(8) == 0 {
            self.policy = match self.dice.below(2) {
                0 => PolicyConfig::RoundRobin,
                _ => PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin)),
            };
        }
        let now = (self.clusters.clone(), self.policy.clone());
        self.note(|| format!("the clusters are {now:?}"));
        self.apply();
    }

    fn apply(&mut self) {
        let mut targets = Vec::new();
        for (place, endpoints) in self.clusters.iter().enumerate() {
            let assignment = assignment(endpoints);
            let priorities = assignment.priorities(&self.policy, None, &mut self.names[place]);
            let name: Arc<str> = format!("cluster-{place}").into();
            let target = ClusterTarget {
                name: Arc::clone(&name),
                priorities,
                problem: None,
                drops: Arc::default(),
                in_flight: Arc::default(),
                max_requests: 1024,
                load: None,
                sessions: None,
            };
            targets.push((name, target));
        }
        self.play.update_to(&targets);
    }

    /// The endpoints of each priority, the best first.
    fn priorities(&self) -> Vec<BTreeSet<SocketAddr>> {
        let mut all = Vec::new();
        for endpoints in &self.clusters {
            let mut priorities = BTreeMap::<u32, BTreeSet<SocketAddr>>::new();
            for (endpoint, (priority, _)) in endpoints {
                let address = address(&(endpoint + 1).to_string());
                priorities.entry(*priority).or_default().insert(address);
            }
            all.extend(priorities.into_values());
        }
        all
    }

    /// Checks what must be true at every moment.
    fn check(&mut self) -> Result<(), Fault> {
        let priorities = self.priorities();
        let state = self.play.state();
        for _ in 0..8 {
            let pick = self.play.pick();
            let goes_with = match &pick {
                Pick::To(_) => Connectivity::Ready,
                Pick::Fail(_) => Connectivity::TransientFailure,
                Pick::Queue if state == Connectivity::Idle => Connectivity::Idle,
                Pick::Queue => Connectivity::Connecting,
                Pick::Drop(failure) => return fault(format!("a call was dropped: {failure}")),
            };
            if goes_with != state {
                return fault(format!("in the state {state} a call had {pick:?}"));
            }
            if let Pick::To(picked) = pick {
                let to = picked.endpoint.addresses[0];
                if !priorities.iter().any(|all| all.contains(&to)) {
                    return fault(format!("a call goes to {to}, which is no endpoint any more"));
                }
            }
        }
        self.check_best(&priorities)
    }

    /// Checks that calls go to the best priority if one of its endpoints is ready.
    fn check_best(&mut self, priorities: &[BTreeSet<SocketAddr>]) -> Result<(), Fault> {
        let ready = self.play.ready();
        let Some(best) = priorities.first().filter(|best| !best.is_disjoint(&ready)) else {
            return Ok(());
        };
        for _ in 0..4 {
            match self.play.pick() {
                Pick::To(picked) if best.contains(&picked.endpoint.addresses[0]) => {}
                pick => return fault(format!("of {best:?} one is ready, but a call had {pick:?}")),
            }
        }
        Ok(())
    }

    /// Checks what must be true when nothing has happened for long.
    fn check_quiet(&mut self) -> Result<(), Fault> {
        self.play.calm_down();
        let up = self.play.up.clone();
        let priorities = self.priorities();
        let expected = priorities.iter().map(|all| all & &up).find(|all| !all.is_empty());
        let state = self.play.state();
        let Some(expected) = expected else {
            return match state {
                Connectivity::TransientFailure => Ok(()),
                state => fault(format!("nothing answers, and the state is {state}")),
            };
        };
        if state != Connectivity::Ready {
            return fault(format!("{expected:?} answer, and the state is {state}"));
        }
        let used: BTreeSet<_> = self.play.spread(400).into_keys().collect();
        if used != expected {
            return fault(format!("calls go to {used:?}, and should go to {expected:?}"));
        }
        // C-110, C-120: nothing is left of what is no endpoint any more, or not needed for long.
        self.play.pass(Duration::from_secs(16 * 60));
        let needed = priorities.iter().take_while(|all| all.is_disjoint(&up)).flatten().count();
        let (open, most) = (self.play.open(), needed + longest(&priorities, &up));
        match open <= most {
            true => Ok(()),
            false => fault(format!("{open} subchannels, of which {most} are needed")),
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            history.push(line());
        }
    }
}

/// The number of endpoints of the best priority that answers.
fn longest(priorities: &[BTreeSet<SocketAddr>], up: &BTreeSet<SocketAddr>) -> usize {
    priorities.iter().find(|all| !all.is_disjoint(up)).map_or(0, BTreeSet::len)
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
        self.history = Some(vec!["a network of twelve endpoints".to_owned()]);
    }

    fn trace(&self) -> Vec<String> {
        self.history.clone().unwrap_or_default()
    }
}

fn assignment(endpoints: &BTreeMap<u64, (u32, u64)>) -> Assignment {
    let mut by_place = BTreeMap::<(u32, u64), Vec<String>>::new();
    for (endpoint, (priority, zone)) in endpoints {
        by_place.entry((*priority, *zone)).or_default().push((endpoint + 1).to_string());
    }
    let localities = by_place.into_iter().map(|((priority, zone), names)| {
        let weight = u32::try_from(zone + 1).expect("a small number");
        let endpoints = in_locality(&zone.to_string(), weight, &names.join(" "));
        let locality = Arc::clone(&endpoints.first().expect("one at least").locality);
        AssignedLocality { locality, priority, endpoints: endpoints.into() }
    });
    Assignment { localities: localities.collect() }
}

/// C-110, C-111, C-113, C-119, C-120
#[test]
fn calls_go_where_the_configuration_of_the_moment_says() {
    each_seed(60, World::new, 200);
}
