//! The filter chain of a connection to a server (C-143).
//!
//! Not here: the listener itself, and the filters of a chain: it is whatever the caller says.

mod chain_match;
mod chains;

pub use chain_match::{ChainMatch, SourceType, TransportMatch};
pub use chains::{ArrivedConnection, ChainRule, FilterChains, FilterChainsError};
