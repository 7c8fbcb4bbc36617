//! The resources of one type that a client wants.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Everything, some names, both, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// True if all resources of the type are wanted.
    pub all: bool,
    /// The names that are wanted, which there may be beside `all` (S-051).
    pub names: BTreeSet<Arc<str>>,
}

impl Interest {
    /// The interest in all resources of the type.
    pub fn all() -> Self {
        Self { all: true, names: BTreeSet::new() }
    }

    /// The interest in these names.
    pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { all: false, names: names.into_iter().map(Arc::from).collect() }
    }

    /// Returns true if `name` is wanted.
    pub fn covers(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }

    /// Returns true if nothing is wanted.
    pub fn is_nothing(&self) -> bool {
        !self.all && self.names.is_empty()
    }
}
