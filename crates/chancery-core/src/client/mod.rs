//! The client's half of the protocol: what is watched, what is held, and which server is asked.

mod naming;
mod reply;
mod target;
mod template;

pub use naming::{AuthorityKey, InvalidPlace, Naming, Place};
pub use reply::{Bare, Flaw, Given, Item, Reading, Reply};
pub use target::{InvalidTarget, Target};
pub use template::Template;
