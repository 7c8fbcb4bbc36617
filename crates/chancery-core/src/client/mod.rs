//! The client's half of the protocol: what is watched, what is held, and which server is asked.

mod reply;

pub use reply::{Bare, Flaw, Given, Item, Reading, Reply};
