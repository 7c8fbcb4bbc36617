//! Fault injection (C-150): a delay, then an abort, by chances of their own.
//!
//! A policy decides before anything of the call is sent, and the caller carries it out. Not here: timers.

mod active;
mod headers;
mod policy;
mod status;

pub use active::{ActiveFaults, FaultPermit};
pub use policy::{AbortSource, DelaySource, Fault, FaultAbort, FaultDelay, FaultPolicy};
pub use status::AbortStatus;
