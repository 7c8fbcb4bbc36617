//! What a client wants of one type.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Everything, some names, both, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Whether everything is wanted.
    pub all: bool,
    /// What is wanted by name, also beside everything (S-051).
    pub names: BTreeSet<Arc<str>>,
}

impl Interest {
    /// Everything.
    pub fn all() -> Self {
        Self { all: true, names: BTreeSet::new() }
    }

    /// These names.
    pub fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { all: false, names: names.into_iter().map(Arc::from).collect() }
    }

    /// Whether it covers the name.
    pub fn covers(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }

    /// Whether nothing is wanted.
    pub fn is_nothing(&self) -> bool {
        !self.all && self.names.is_empty()
    }
}
