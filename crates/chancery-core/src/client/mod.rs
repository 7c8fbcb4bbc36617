//! The client's half of the protocol: what is watched, what is held, and which server is asked.

mod naming;
mod reply;
mod setup;
mod target;
mod template;

pub use naming::{AuthorityKey, InvalidPlace, Naming, Place};
pub use reply::{Bare, Flaw, Given, Item, Reading, Reply};
pub use setup::{
    AuthoritySetup, ClientSettings, Fallback, Protocol, Server, ServerFeatures, ServerId,
    ServerKey, Setup, StreamId,
};
pub use target::{InvalidTarget, Target};
pub use template::Template;
