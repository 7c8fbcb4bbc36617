//! Fleets in virtual time: server machines and reference clients over a network that a seed decides.
//!
//! ```text
//!            World: commits at any moment
//!              |            |
//!           Replica      Replica          each publishes at its own time
//!              |            |
//!   ads::Server + referee  ...            one machine per stream
//!          |    ^
//!     lane v    | lane                    delay, loss of the stream, slow readers
//!         Client                          reference client: ACKs, NACKs, quirks, TTLs
//! ```
//!
//! A seed draws a [`Profile`], then a history: commits, changed and repeated subscriptions, streams
//! lost with all that was under way, clients that stop reading. All the way the client and the
//! referee look for broken rules. In the end nothing moves any more, each client holds exactly
//! what its subscription and the snapshot say, and for ten minutes not a response is sent but
//! heartbeats.
//!
//! The same seed is the same history, so a failure is a number: [`each_seed`] prints it with the
//! conversation, and `CHANCERY_SIM_SEED=number` plays it alone.
//!
//! ```
//! use chancery_testkit::sim::{Fleet, each_seed};
//!
//! // Fifty histories of two clients and two replicas.
//! each_seed(50, |seed| Fleet::new(seed, 2, 2), 20);
//! ```

mod connection;
mod fleet;
mod lane;
mod profile;
mod referee;
mod rng;
mod view;
mod world;

pub use fleet::Fleet;
pub use profile::{Follow, Profile};
pub use rng::Rng;
pub use world::{Dangers, TTL, TYPES, World, judge};

/// Lives through histories of so many operations, one for each of `count` seeds.
///
/// `CHANCERY_SIM_SEED` replays one seed, `CHANCERY_SIM_SEEDS` says how many there are.
///
/// # Panics
/// At the first history in which a rule is broken, after printing its conversation.
pub fn each_seed(count: u64, fleet: impl Fn(u64) -> Fleet, operations: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("CHANCERY_SIM_SEED") {
        return one_seed(seed, &fleet, operations);
    }
    for seed in 0..number("CHANCERY_SIM_SEEDS").unwrap_or(count) {
        one_seed(seed, &fleet, operations);
    }
}

fn one_seed(seed: u64, fleet: &impl Fn(u64) -> Fleet, operations: u64) {
    let mut quick = fleet(seed);
    let Err(fault) = quick.live(operations) else { return };
    // The same history again, this time written down.
    let mut slow = fleet(seed);
    slow.record();
    let again = slow.live(operations);
    let trace = slow.trace();
    let from = trace.len().saturating_sub(SHOWN);
    let shown = [&trace[..1], &trace[from.max(1)..]].concat().join("\n");
    assert!(again == Err(fault.clone()), "seed {seed} is not the same history twice");
    panic!("{shown}\nseed {seed}: {fault}\nreplay it with CHANCERY_SIM_SEED={seed}");
}

/// How many lines of a failed history are printed.
const SHOWN: usize = 120;
