//! Fleets in virtual time: server machines and their clients, over a network that a seed decides.
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
//! that are lost with all messages under way, clients that stop reading. At each step the client and
//! the referee check the rules of the protocol. In the end nothing moves any more, each client holds
//! exactly the resources of the snapshot that it subscribes to, and for ten minutes the server sends
//! nothing but heartbeats.
//!
//! [`Federation`] is the simulation of the other side: one client machine, and servers of several
//! authorities that fail, come back and differ.
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
mod status_check;
mod subscription_view;
mod world;

use crate::client::Fault;
pub use federation::Federation;
pub use fleet::Fleet;
pub use profile::{Profile, SubscriptionStyle};
pub use rng::Rng;
pub use world::{Dangers, TTL, TYPES, World, judge};

/// A simulated history that a seed decides.
pub trait History {
    /// Runs that many operations, lets everything come to rest, and checks the final state.
    ///
    /// # Errors
    /// Returns the fault if a rule is broken on the way, or the final state is wrong.
    fn live(&mut self, operations: u64) -> Result<(), Fault>;

    /// Starts to record what happens.
    fn record(&mut self);

    /// The record in order of time, after a line with the profile of the seed.
    fn trace(&self) -> Vec<String>;
}

/// Runs a history of that many operations for each of `count` seeds.
///
/// `CHANCERY_SIM_SEED` replays one seed, `CHANCERY_SIM_SEEDS` sets the number of seeds.
///
/// # Panics
/// Panics at the first history in which a rule is broken, with its record in the message.
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

/// The number of lines that are printed of a failed history.
const SHOWN: usize = 120;
