//! The way of a call through a picker over 1,000 endpoints, a thousand picks at a time, as often as told:
//!
//!     picks PATH TIMES [THREADS]
//!
//! Made for counting instructions, as the paths of the core are (`cargo xtask counts`). With threads,
//! each of which makes all picks, it shows what callers cost each other. Not here: a clock. The time of a
//! pick is that of the program, divided by the picks.
#![expect(clippy::print_stdout, reason = "it tells what there is")]

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use chancery_calls::balancing::{
    Action, CallEnd, ChoiceCount, Detection, DetectionTarget, Endpoint, EndpointLocality,
    FailurePercentage, Node, OutlierDetection, Pick, PickArgs, Picker, PolicyConfig, PolicyTarget,
    RingHashConfig, SubchannelId, SubchannelState, Switch, Tree, Wake, WeightedRoundRobinConfig,
};
use chancery_calls::{Dice, SeededDice};
use chancery_core::client::load::OrcaReport;
use chancery_core::{Locality, Time};
use http::HeaderMap;

const ENDPOINTS: u32 = 1_000;
const PICKS: u64 = 1_000;

/// A path, taken that many times by so many threads.
type Path = fn(u64, usize);

const PATHS: [(&str, Path); 9] = [
    ("pick-first", |times, threads| picks(&ready(PICK_FIRST), times, threads)),
    ("round-robin", |times, threads| picks(&ready(PolicyConfig::RoundRobin), times, threads)),
    ("least-request", |times, threads| {
        picks(&ready(PolicyConfig::LeastRequest(ChoiceCount::default())), times, threads);
    }),
    ("weighted", |times, threads| picks(&weighted(), times, threads)),
    ("ring-hash", |times, threads| picks(&ready(ring_hash()), times, threads)),
    ("ring-half-failed", |times, threads| picks(&half_failed(), times, threads)),
    ("outlier-detection", |times, threads| picks(&detecting(), times, threads)),
    ("updates", |times, _| updates(&in_localities(), times)),
    ("ring-updates", |times, _| updates(&ring_hash(), times)),
];

const PICK_FIRST: PolicyConfig = PolicyConfig::PickFirst { shuffle: false };

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let path = words.first().and_then(|word| PATHS.iter().find(|(name, _)| name == word));
    let times = words.get(1).and_then(|word| word.parse().ok());
    let (Some((_, run)), Some(times)) = (path, times) else {
        PATHS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    run(times, words.get(2).and_then(|word| word.parse().ok()).unwrap_or(1));
    ExitCode::SUCCESS
}

/// A tree whose connections do what the bench says.
struct Driven<N: Node> {
    tree: Tree<N, SeededDice>,
    now: Time,
    tried: u32,
}

impl<N: Node> Driven<N> {
    fn new(config: &N::Config) -> Self {
        let (mut tree, now) = (Tree::new(SeededDice(1)), Time::default());
        tree.update(config, now);
        Self { tree, now, tried: 0 }
    }

    /// Connects what is asked for. Connections to some addresses fail.
    fn run(&mut self, fails: impl Fn(SocketAddr) -> bool) {
        let mut addresses = std::collections::BTreeMap::<SubchannelId, SocketAddr>::new();
        while let Some(action) = self.tree.next_action() {
            match action {
                Action::Create { id, address, .. } => {
                    addresses.insert(id, address);
                }
                Action::Connect(id) => {
                    self.tried += 1;
                    let state = match fails(addresses[&id]) {
                        true => SubchannelState::Failed("it refuses".into()),
                        false => SubchannelState::Ready,
                    };
                    self.tree.subchannel(id, &SubchannelState::Connecting, self.now);
                    self.tree.subchannel(id, &state, self.now);
                }
                _ => {}
            }
        }
    }

    fn picker(&mut self) -> Arc<dyn Picker> {
        self.tree.picker().expect("there was an update")
    }
}

fn endpoints(from: u32, to: u32) -> Arc<[Arc<Endpoint>]> {
    let name = Locality {
        region: "europe-west1".to_owned(),
        zone: "europe-west1-b".to_owned(),
        sub_zone: String::new(),
    };
    let locality = Arc::new(EndpointLocality { name, weight: 1 });
    let endpoint = |at: u32| {
        let address = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + at), 80));
        Arc::new(Endpoint { locality: Arc::clone(&locality), ..Endpoint::at(address) })
    };
    (from..to).map(endpoint).collect()
}

fn target(config: PolicyConfig) -> PolicyTarget {
    PolicyTarget { config, endpoints: endpoints(0, ENDPOINTS), note: None }
}

fn ring_hash() -> PolicyConfig {
    PolicyConfig::RingHash(RingHashConfig::default())
}

fn in_localities() -> PolicyConfig {
    PolicyConfig::WrrLocality(Arc::new(PolicyConfig::RoundRobin))
}

/// Lets calls ask for connections until those of all endpoints were tried.
fn connect_all<N: Node>(driven: &mut Driven<N>, fails: impl Fn(SocketAddr) -> bool) {
    driven.run(&fails);
    let (mut dice, metadata) = (SeededDice(2), HeaderMap::new());
    while driven.tried < ENDPOINTS {
        let hash = Some(dice.roll());
        let mut call = PickArgs {
            path: "/s/m",
            metadata: &metadata,
            hash,
            session: None,
            dice: &mut dice,
            wake: None,
            permit: None,
            by_session: false,
        };
        driven.picker().pick(&mut call);
        if let Some(wake) = call.wake {
            driven.tree.wake(wake, driven.now);
            driven.run(&fails);
        }
    }
}

fn ready(config: PolicyConfig) -> Arc<dyn Picker> {
    let has_one = config == PICK_FIRST;
    let mut driven = Driven::<Switch>::new(&target(config));
    if has_one {
        driven.tree.wake(Wake::All, driven.now);
        driven.run(|_| false);
    } else {
        connect_all(&mut driven, |_| false);
    }
    driven.picker()
}

fn half_failed() -> Arc<dyn Picker> {
    let mut driven = Driven::<Switch>::new(&target(ring_hash()));
    connect_all(&mut driven, |address| match address {
        SocketAddr::V4(address) => address.ip().to_bits() % 2 == 0,
        SocketAddr::V6(_) => false,
    });
    driven.picker()
}

fn detecting() -> Arc<dyn Picker> {
    let detection = Detection {
        failure_percentage: Some(FailurePercentage::default()),
        ..Detection::default()
    };
    let mut driven = Driven::<OutlierDetection<Switch>>::new(&DetectionTarget {
        cluster: "orders".into(),
        detection: Arc::new(detection),
        endpoints: endpoints(0, ENDPOINTS),
        node: target(PolicyConfig::RoundRobin),
    });
    driven.run(|_| false);
    driven.picker()
}

/// Each endpoint can do as much as its number says.
fn weighted() -> Arc<dyn Picker> {
    let config = WeightedRoundRobinConfig {
        blackout_period: std::time::Duration::ZERO,
        ..WeightedRoundRobinConfig::default()
    };
    let mut driven =
        Driven::<Switch>::new(&target(PolicyConfig::WeightedRoundRobin(Arc::new(config))));
    driven.run(|_| false);
    let (mut dice, metadata, picker) = (SeededDice(2), HeaderMap::new(), driven.picker());
    for at in 0..ENDPOINTS {
        let dice = &mut dice;
        let mut call = PickArgs {
            path: "/s/m",
            metadata: &metadata,
            hash: None,
            session: None,
            dice,
            wake: None,
            permit: None,
            by_session: false,
        };
        if let Pick::To(picked) = picker.pick(&mut call) {
            let report = OrcaReport {
                rps_fractional: Some(f64::from(at + 1)),
                cpu_utilization: Some(1.0),
                ..OrcaReport::default()
            };
            let report = Some(&report);
            picked.ended(&CallEnd { succeeded: true, now: driven.now, report });
        }
    }
    let deadline = driven.tree.deadline().expect("weights are used from time to time");
    driven.tree.on_time(deadline);
    driven.picker()
}

fn picks(picker: &Arc<dyn Picker>, times: u64, threads: usize) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || pick_many(&**picker, times, thread));
        }
    });
}

fn pick_many(picker: &dyn Picker, times: u64, thread: usize) {
    let (mut dice, metadata) = (SeededDice(thread as u64), HeaderMap::new());
    for _ in 0..times * PICKS {
        let hash = Some(dice.roll());
        let dice = &mut dice;
        let mut call = PickArgs {
            path: "/s/m",
            metadata: &metadata,
            hash,
            session: None,
            dice,
            wake: None,
            permit: None,
            by_session: false,
        };
        let pick = picker.pick(&mut call);
        assert!(matches!(pick, Pick::To(_)), "it is ready");
    }
}

/// One of a thousand endpoints goes, and another one comes, each time.
fn updates(config: &PolicyConfig, times: u64) {
    let mut driven = Driven::<Switch>::new(&target(config.clone()));
    connect_all(&mut driven, |_| false);
    for at in (1..).take(usize::try_from(times).unwrap_or(usize::MAX)) {
        let endpoints = endpoints(at, at + ENDPOINTS);
        let target = PolicyTarget { config: config.clone(), endpoints, note: None };
        driven.tree.update(&target, driven.now);
        driven.run(|_| false);
        driven.picker();
    }
}
