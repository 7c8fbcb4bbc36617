//! Matchers that routes, filters and listeners have in common: of texts, headers, addresses, chances.
//!
//! A matcher is checked when it is made, so that one that exists can be asked. Not here: where the value of
//! a header comes from, which differs between a call that begins and one that arrives.

mod address_range;
mod fault;
mod fraction;
mod header;
mod header_key;
mod pattern;
mod text;

pub use address_range::AddressRange;
pub use fault::MatcherError;
pub use fraction::{Denominator, Fraction};
pub use header::{HeaderMatcher, HeaderRule};
pub use header_key::HeaderKey;
pub use pattern::{Pattern, Rewrite};
pub use text::{TextMatcher, TextPattern};
