//! Findings about changes of single resources, remembered while one commit is judged: many audiences see the same
//! change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_core::Resource;

/// The findings about changes, by the addresses of both forms of the resource, which live while they are judged.
pub(super) struct Steps<T>(Mutex<BTreeMap<(usize, usize), Arc<T>>>);

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Steps<T> {
    /// The finding about a change; `None` if there were so many that no more are looked for.
    pub(super) fn of(
        &self,
        change: (Option<&Arc<Resource>>, Option<&Arc<Resource>>),
        find: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let address = |it: Option<&Arc<Resource>>| it.map_or(0, |it| Arc::as_ptr(it) as usize);
        let step = (address(change.0), address(change.1));
        if let Some(known) = self.lock().get(&step) {
            return Some(Arc::clone(known));
        }
        if self.lock().len() >= MOST_KNOWN {
            return None;
        }
        let found = Arc::new(find());
        self.lock().insert(step, Arc::clone(&found));
        Some(found)
    }

    /// Forgets all, when a commit was judged.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(usize, usize), Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The changes that are looked into for one commit.
const MOST_KNOWN: usize = 1000;
