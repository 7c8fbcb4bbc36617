//! Findings about changes of single resources, remembered while one commit is judged: many audiences see the same
//! change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_core::Resource;
use tracing::warn;

/// Both forms of a resource.
type Forms = [Option<Arc<Resource>>; 2];

/// The findings about changes. What is filled for nodes is made afresh for each of them, so the forms are kept: no
/// other one gets their address.
pub(super) struct Steps<T>(Mutex<Known<T>>);

struct Known<T> {
    by_address: BTreeMap<[usize; 2], (Forms, Arc<T>)>,
    /// The changes that were looked into.
    count: usize,
}

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Self(Mutex::new(Known { by_address: BTreeMap::new(), count: 0 }))
    }
}

impl<T> Steps<T> {
    /// The finding about a change; `None` if there were so many that no more are looked for, which the log says.
    pub(super) fn of(
        &self,
        change: (Option<&Arc<Resource>>, Option<&Arc<Resource>>),
        find: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        let forms = [change.0, change.1].map(Option::<&Arc<_>>::cloned);
        let step = forms.each_ref().map(|it| it.as_ref().map_or(0, |it| Arc::as_ptr(it) as usize));
        let count = {
            let mut known = self.lock();
            if let Some((_, found)) = known.by_address.get(&step) {
                return Some(Arc::clone(found));
            }
            known.count += 1;
            known.count
        };
        if count > MOST_LOOKED_INTO {
            if count == MOST_LOOKED_INTO + 1 {
                warn!(most = MOST_LOOKED_INTO, "{TOO_MANY}");
            }
            return None;
        }
        let found = Arc::new(find());
        let mut known = self.lock();
        if known.by_address.len() < MOST_KNOWN {
            known.by_address.insert(step, (forms, Arc::clone(&found)));
        }
        Some(found)
    }

    /// The finding about one form of a resource.
    pub(super) fn of_one(
        &self,
        resource: &Arc<Resource>,
        find: impl FnOnce() -> T,
    ) -> Option<Arc<T>> {
        self.of((None, Some(resource)), find)
    }

    /// Forgets all, when a commit was judged.
    pub(super) fn clear(&self) {
        let mut known = self.lock();
        known.by_address.clear();
        known.count = 0;
    }

    fn lock(&self) -> MutexGuard<'_, Known<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const TOO_MANY: &str = "so many resources change at once that the gate looks no further into them: what is wrong with \
                        the others goes live; make smaller changes to have all of them judged";

/// The changes that are remembered for one commit.
const MOST_KNOWN: usize = 1_000;
/// The changes that are looked into for one commit.
const MOST_LOOKED_INTO: usize = 100_000;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn resource(number: u64) -> Arc<Resource> {
        Arc::new(Resource::new("a".parse().unwrap(), Bytes::from(number.to_string())))
    }

    #[test]
    fn a_resource_that_comes_where_another_one_was_is_another_one() {
        let steps = Steps::default();
        for number in 0..100 {
            let one = resource(number);
            assert_eq!(steps.of((None, Some(&one)), || number).as_deref(), Some(&number));
        }
    }

    #[test]
    fn many_changes_are_looked_into_and_some_are_remembered() {
        let steps = Steps::default();
        let all: Vec<_> = (0..2_000).map(resource).collect();
        for (one, number) in all.iter().zip(0_u64..) {
            assert_eq!(steps.of((None, Some(one)), || number).as_deref(), Some(&number));
        }
        assert_eq!(steps.of((None, Some(&all[0])), || 9).as_deref(), Some(&0));
        assert_eq!(steps.of((None, Some(&all[1_999])), || 9).as_deref(), Some(&9));
        let more = (0..MOST_LOOKED_INTO).filter_map(|_| steps.of((None, Some(&all[1_999])), || 9));
        assert_eq!(more.count(), MOST_LOOKED_INTO - 2_001);
        steps.clear();
        assert!(steps.of((None, Some(&all[1_999])), || 9).is_some());
    }
}
