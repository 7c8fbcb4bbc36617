//! Sessions under random changes: endpoints come, go, drain and move between priorities, and connections are refused,
//! hang and break.
//!
//! At every moment a session chooses its own endpoint or none, and only one that may have sessions; calls without one
//! never reach an endpoint that is draining. When the world is quiet, each session with an endpoint that answers is
//! there, and nothing is kept for sessions that have ended. `CHANCERY_SIM_SEED=n` plays one seed again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::{
    AssignedLocality, Assignment, Cluster, ClusterTarget, Endpoint, Health, Pick, PolicyConfig,
    PriorityNames, SessionEndpoints, SessionHealth,
};
use chancery_calls::{Dice, SeededDice};
use chancery_testkit::client::Fault;
use chancery_testkit::sim::{History, each_seed};

use crate::support::{Disturbance, Play, address, endpoints};

/// The endpoints that there may be.
const ENDPOINTS: u64 = 8;

struct World {
    play: Play<Cluster>,
    dice: SeededDice,
    /// The endpoints: priority and health by name.
    endpoints: BTreeMap<u64, (u32, Health)>,
    allowed: SessionHealth,
    names: PriorityNames,
    history: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            play: Play::of(seed),
            dice: SeededDice(seed ^ 0x5e55),
            endpoints: BTreeMap::new(),
            allowed: [Health::Unknown, Health::Draining].into_iter().collect(),
            names: PriorityNames::default(),
            history: None,
        }
    }

    fn step(&mut self) {
        let name = 1 + self.dice.below(ENDPOINTS);
        let disturbance = match self.dice.below(10) {
            0 | 1 => Disturbance::Up,
            2 => Disturbance::Down,
            3 => Disturbance::Silence,
            4 => Disturbance::Refusal,
            5 => Disturbance::Time,
            _ => return self.change(name),
        };
        let text = self.play.disturb(disturbance, &name.to_string(), &mut self.dice);
        self.note(|| text);
    }

    fn change(&mut self, name: u64) {
        let priority = u32::try_from(self.dice.below(2)).expect("a small number");
        match self.dice.below(5) {
            0 => drop(self.endpoints.remove(&name)),
            1 => drop(self.endpoints.insert(name, (priority, Health::Draining))),
            2 => drop(self.endpoints.insert(name, (priority, Health::Healthy))),
            _ => drop(self.endpoints.insert(name, (priority, Health::Unknown))),
        }
        let now = self.endpoints.clone();
        self.note(|| format!("the endpoints are {now:?}"));
        self.apply();
    }

    fn apply(&mut self) {
        let mut by_priority = BTreeMap::<u32, Vec<Arc<Endpoint>>>::new();
        for (name, (priority, health)) in &self.endpoints {
            let endpoint = endpoints(&name.to_string()).pop().expect("one");
            let endpoint = Endpoint { health: *health, ..(*endpoint).clone() };
            by_priority.entry(*priority).or_default().push(Arc::new(endpoint));
        }
        let localities = by_priority.into_iter().map(|(priority, endpoints)| {
            let locality = Arc::clone(&endpoints.first().expect("one at least").locality);
            AssignedLocality { locality, priority, endpoints: endpoints.into() }
        });
        let assignment = Assignment { localities: localities.collect() };
        let policy = PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin));
        self.play.update_to(&ClusterTarget {
            name: "x".into(),
            priorities: assignment.priorities(&policy, None, &mut self.names),
            problem: None,
            drops: Arc::default(),
            in_flight: Arc::default(),
            max_requests: 1024,
            load: None,
            sessions: Some(SessionEndpoints {
                endpoints: assignment.of_sessions(self.allowed),
                idle_timeout: Duration::from_secs(60),
            }),
        });
    }

    fn addresses(&self, is_wanted: impl Fn(Health) -> bool) -> BTreeSet<SocketAddr> {
        let wanted = self.endpoints.iter().filter(|(_, (_, health))| is_wanted(*health));
        wanted.map(|(name, _)| address(&name.to_string())).collect()
    }

    /// Checks calls of random sessions, and others.
    fn check(&mut self) -> Result<(), Fault> {
        let taking = self.addresses(|health| health != Health::Draining);
        let allowed = self.allowed;
        let keeping = self.addresses(|health| allowed.allows(health));
        for _ in 0..4 {
            let name = 1 + self.dice.below(ENDPOINTS);
            let wanted = address(&name.to_string());
            let state = self.play.state();
            let pick = self.play.pick_of_session(&name.to_string());
            match &pick {
                Pick::To(picked) if self.play.by_session => {
                    let to = picked.endpoint.addresses[0];
                    if to != wanted || !keeping.contains(&to) {
                        return fault(format!("a session with {wanted} goes to {to}"));
                    }
                }
                Pick::To(picked) if !taking.contains(&picked.endpoint.addresses[0]) => {
                    return fault(format!("no session, and a call to {:?}", picked.address));
                }
                _ => {}
            }
            // One whose endpoint is not there waits only where any other call does.
            let is_stray = !keeping.contains(&wanted) && state == self.play.state();
            let waits = is_stray && matches!(pick, Pick::Queue);
            if waits && !matches!(self.play.pick(), Pick::Queue) {
                return fault(format!("a session with {wanted} waits for nothing"));
            }
            match self.play.pick() {
                Pick::To(picked) if !taking.contains(&picked.endpoint.addresses[0]) => {
                    return fault(format!("a call goes to {:?}", picked.address));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks what must be true when nothing has happened for long.
    fn check_quiet(&mut self) -> Result<(), Fault> {
        self.play.calm_down();
        let allowed = self.allowed;
        let keeping = self.addresses(|health| allowed.allows(health));
        for name in 1..=ENDPOINTS {
            let (name, wanted) = (name.to_string(), address(&name.to_string()));
            let first = self.play.call_of_session(&name);
            let second = self.play.call_of_session(&name);
            let is_there = second == format!("to {wanted}");
            let should_be = keeping.contains(&wanted) && self.play.up.contains(&wanted);
            if should_be && !is_there {
                return fault(format!("{wanted} answers, and its session is {first}, {second}"));
            }
            if second == "queue" {
                return fault(format!("a session with {wanted} waits for nothing"));
            }
        }
        // Connections of sessions end, and only those that policies want are left.
        self.play.pass(Duration::from_secs(30 * 60));
        let taking = self.addresses(|health| health != Health::Draining);
        let (open, most) = (self.play.open(), taking.len());
        match open <= most {
            true => Ok(()),
            false => fault(format!("{open} subchannels, of which {most} can be needed")),
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            history.push(line());
        }
    }
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
        self.history = Some(vec!["a network of eight endpoints".to_owned()]);
    }

    fn trace(&self) -> Vec<String> {
        self.history.clone().unwrap_or_default()
    }
}

/// C-106, C-109
#[test]
fn sessions_have_their_endpoints_or_none() {
    each_seed(60, World::new, 200);
}
