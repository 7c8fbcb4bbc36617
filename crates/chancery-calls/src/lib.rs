//! The decisions of a gRPC call under xDS, as values: which way it goes, and what becomes of it.
//!
//! ```text
//!   routing     a call            -> a route, a cluster, a deadline, a hash     (RouteConfig::decide)
//!   balancing   endpoints, states -> connections to make, a picker              (balancing::Tree)
//!               a call, a picker  -> a connection, or the reason why there is none
//!   serving     a connection      -> the filter chain of a server               (FilterChains::choose)
//!   filters     a route           -> the filters of its calls                   (FilterChain::with)
//!   retrying    a failed attempt  -> another one, and when                      (Retries::after)
//! ```
//!
//! `matching` has the conditions that several rooms ask.
//!
//! Nothing here does I/O. There is no clock, no async, no protobuf and no randomness of its own: time
//! and dice are inputs ([`Dice`]). The same inputs in the same order give the same outputs, so every
//! rule has a script test, and whole fleets are simulated. A driver opens the connections that the
//! trees of policies ask for, and tells them what becomes of each.
//!
//! Comments cite the rules of a client by number, as C-110; they are in `docs/rules/client.md`, each with
//! the gRFC that it comes from. Not here: how resources are read into these values, connections, and the
//! bytes of calls.

mod dice;
mod status;

pub mod balancing;
pub mod filters;
pub mod matching;
pub mod retrying;
pub mod routing;
pub mod serving;

pub use dice::{Dice, SeededDice};
pub use status::{Code, Failure};
