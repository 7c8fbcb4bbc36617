//! HTTP filters as values (gRFC A39): the chain of a listener, and what routes change of it.
//!
//! [`faults`] is fault injection, [`rbac`] says who may make which call, and [`session`] is affinity by cookie.
//!
//! A filter's configuration is checked and merged when it is read, and not for each call. Not here: how
//! configurations are read, and the program of a filter that others have written ([`CustomFilter`]).

mod chain;
mod config;
mod overrides;

pub mod faults;
pub mod rbac;
pub mod session;

pub use chain::{Filter, FilterChain, FilterEntry, FilterFault, ListedFilter, OverrideMismatch};
pub use config::{CustomFilter, FilterConfig};
pub use overrides::{OverrideScopes, Overrides};
