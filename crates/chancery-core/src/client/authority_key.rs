//! The authority of a name, as a key.

use std::fmt;
use std::sync::Arc;

use crate::{ResourceName, percent};

/// The authority that is responsible for a name. Old names have a key of their own, which no
/// authority can have, not even the empty one (C-051).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthorityKey {
    /// Of an opaque name: the servers at the top of the bootstrap.
    Old,
    /// Of an `xdstp:` name: a key of the bootstrap's `authorities`.
    Named(Arc<str>),
}

impl AuthorityKey {
    /// Returns the key of a name.
    pub fn of(name: &ResourceName) -> Self {
        let Some(parts) = name.xdstp() else { return Self::Old };
        // A name has its authority as in a URI, a bootstrap as it is.
        let decoded = percent::decode(parts.authority);
        Self::Named(decoded.as_deref().unwrap_or(parts.authority).into())
    }

    /// Returns its name in metrics and dumps: `#old` for old names (C-086).
    pub fn label(&self) -> &str {
        match self {
            Self::Old => "#old",
            Self::Named(name) => name,
        }
    }
}

impl fmt::Display for AuthorityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}
