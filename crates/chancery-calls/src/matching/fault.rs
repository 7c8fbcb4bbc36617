//! The reasons for which a matcher cannot be made.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

/// A matcher that cannot be made. The fault is that of whoever wrote the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatcherError {
    /// A pattern is not one of RE2, or larger than is allowed.
    Pattern {
        /// The text of the pattern.
        pattern: String,
        /// The rest of a sentence about it.
        reason: String,
    },
    /// The part of a text that is looked for is empty, so that it says nothing.
    EmptyText(
        /// The form of the matcher: prefix, suffix or contains.
        &'static str,
    ),
    /// A substitution refers to a group that its pattern does not have, or has an unknown escape.
    Substitution {
        /// The text of the substitution.
        substitution: String,
        /// The number of groups that the pattern has.
        groups: usize,
    },
}

impl Display for MatcherError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let quoted = |text| Printable(cut(text, MAX_NAME_BYTES).to_string());
        match self {
            Self::Pattern { pattern, reason } => {
                write!(f, "the pattern `{}` cannot be used: {}", quoted(pattern), quoted(reason))
            }
            Self::EmptyText(form) => write!(f, "a `{form}` matcher has an empty text"),
            Self::Substitution { substitution, groups } => write!(
                f,
                "the substitution `{}` may have no other escapes than `\\\\` and `\\0` to `\\{groups}`, as the \
                 pattern has no others",
                quoted(substitution)
            ),
        }
    }
}

impl Error for MatcherError {}
