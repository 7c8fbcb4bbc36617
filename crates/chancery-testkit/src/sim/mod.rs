//! Fleets in virtual time: machines and who talks to them, over a network that a seed decides.
//!
//! ```text
//!            World: commits at any moment
//!              |            |
//!           Replica      Replica          each publishes at its own time
//!              |            |
//!   server::Machine + referee  ...            one machine per stream
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
//! [`Federation`] is the other half: one client with all it does, and servers of several authorities
//! that fail, come back and differ.
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
mod federation;
mod fleet;
mod lane;
mod profile;
mod referee;
mod rng;
mod subscription_view;
mod world;

use crate::client::Fault;
pub use federation::Federation;
pub use fleet::Fleet;
pub use profile::{Profile, SubscriptionStyle};
pub use rng::Rng;
pub use world::{Dangers, TTL, TYPES, World, judge};

/// A world that a seed stands for.
pub trait History {
    /// Lives through so many operations, calms down, and checks what must be true then.
    ///
    /// # Errors
    /// When a rule was broken on the way, or what should be true in the end is not.
    fn live(&mut self, operations: u64) -> Result<(), Fault>;

    /// Writes down what happens from now on.
    fn record(&mut self);

    /// What was written down, in order of time, after a line that says what the seed stands for.
    fn trace(&self) -> Vec<String>;
}

/// Lives through histories of so many operations, one for each of `count` seeds.
///
/// `CHANCERY_SIM_SEED` replays one seed, `CHANCERY_SIM_SEEDS` says how many there are.
///
/// # Panics
/// At the first history in which a rule is broken, after printing its conversation.
pub fn each_seed<H: History>(count: u64, world: impl Fn(u64) -> H, operations: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("CHANCERY_SIM_SEED") {
        return one_seed(seed, &world, operations);
    }
    for seed in 0..number("CHANCERY_SIM_SEEDS").unwrap_or(count) {
        one_seed(seed, &world, operations);
    }
}

fn one_seed<H: History>(seed: u64, world: &impl Fn(u64) -> H, operations: u64) {
    let mut quick = world(seed);
    let Err(fault) = quick.live(operations) else { return };
    // The same history again, this time written down.
    let mut slow = world(seed);
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
