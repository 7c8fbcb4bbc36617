//! Findings about single resources, remembered while one commit is judged. Not here: those about changes (`steps`).

use std::sync::Arc;

use chancery_core::Resource;

use super::steps::Steps;

/// The findings about resources. Each holds its resource, so that no other one gets the same address meanwhile, as
/// those that are filled for one node would.
pub(super) struct Each<T>(Steps<Finding<T>>);

/// A finding, and what it is about.
pub(super) struct Finding<T> {
    pub(super) it: T,
    _of: Arc<Resource>,
}

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self(Steps::default())
    }
}

impl<T> Each<T> {
    /// The finding about a resource; `None` if there were so many that no more are looked for.
    pub(super) fn of(
        &self,
        resource: &Arc<Resource>,
        find: impl FnOnce() -> T,
    ) -> Option<Arc<Finding<T>>> {
        let find = || Finding { it: find(), _of: Arc::clone(resource) };
        self.0.of((Some(resource), None), find)
    }

    /// Forgets all, when a commit was judged.
    pub(super) fn clear(&self) {
        self.0.clear();
    }
}
