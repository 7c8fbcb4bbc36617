//! Load reports: a program counts its calls, and the servers that want to know are told.
//!
//! A [`Load`] is what counts for one cluster. Counting takes a lock of that cluster and locality for
//! a moment, and never waits for a server. Not here: the streams (`crate::grpc`), and when what is
//! told, which the machine decides ([`chancery_core::client::load`]).

mod desk;
mod handle;

pub(crate) use desk::{Desk, Desks};
pub use handle::{Call, Load, LoadError, LocalityLoad};
