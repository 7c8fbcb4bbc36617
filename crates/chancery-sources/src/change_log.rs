//! The places that changed since the directory was read last.
//!
//! The watcher records events here until a load takes them. An event only says where to look, so
//! two events of one place are one entry, and too many places stand for the whole directory.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The places that may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangedPlaces {
    /// Any place may have changed.
    Anywhere,
    /// Only these paths may have changed. They are reached without symlinks.
    At(BTreeSet<PathBuf>),
}

/// A log of changed places, shared by the watcher and the loads. Clones are the same log.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    recorded: Mutex<Recorded>,
    looked: Condvar,
}

#[derive(Debug, Default)]
struct Recorded {
    places: ChangedPlaces,
    /// The number of times that the top directory was opened.
    looks: u64,
    /// The newest sync cookie whose event arrived.
    cookie: u64,
}

impl Default for ChangedPlaces {
    fn default() -> Self {
        Self::At(BTreeSet::new())
    }
}

impl ChangedPlaces {
    fn add(&mut self, path: PathBuf) {
        if let Self::At(paths) = self {
            paths.insert(path);
            if paths.len() > MOST {
                *self = Self::Anywhere;
            }
        }
    }
}

impl ChangeLog {
    /// Records that something changed at this path.
    pub(crate) fn record(&self, path: PathBuf) {
        self.lock().places.add(path);
    }

    /// Records that something may have changed at an unknown place.
    pub(crate) fn record_anywhere(&self) {
        self.lock().places = ChangedPlaces::Anywhere;
        self.0.looked.notify_all();
    }

    /// Records that the top directory was opened.
    pub(crate) fn record_look(&self) {
        self.lock().looks += 1;
        self.0.looked.notify_all();
    }

    /// Records that the event of this sync cookie arrived.
    pub(crate) fn record_cookie(&self, cookie: u64) {
        let mut recorded = self.lock();
        recorded.cookie = recorded.cookie.max(cookie);
        self.0.looked.notify_all();
    }

    /// A copy of the places that no load has taken.
    pub(crate) fn pending(&self) -> ChangedPlaces {
        self.lock().places.clone()
    }

    /// Takes the places out.
    pub(crate) fn take(&self) -> ChangedPlaces {
        std::mem::take(&mut self.lock().places)
    }

    /// Puts places back, after a load that published nothing.
    pub(crate) fn put_back(&self, places: ChangedPlaces) {
        match places {
            ChangedPlaces::Anywhere => self.record_anywhere(),
            ChangedPlaces::At(paths) => paths.into_iter().for_each(|path| self.record(path)),
        }
    }

    /// Waits until the event of the cookie that `look` creates arrives. The system reports events
    /// in their order, so all earlier changes are in the log then. Returns true if that event
    /// arrived, and the event of opening the directory too: without the second one, the watch is on
    /// a directory that is not at this path any more.
    pub(crate) fn catch_up(&self, look: impl FnOnce() -> Option<u64>) -> bool {
        let before = self.lock().looks;
        let Some(cookie) = look() else { return false };
        let arrived = |it: &Recorded| it.cookie >= cookie && it.looks != before;
        // If events were lost, the cookie may be among them.
        let waits = |it: &mut Recorded| !arrived(it) && it.places != ChangedPlaces::Anywhere;
        let waited = self.0.looked.wait_timeout_while(self.lock(), LONGEST, waits);
        arrived(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Takes the lock. No code panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of places above which the whole directory is read: looking at each of them would cost
/// more than a scan.
const MOST: usize = 1024;

/// The time that the system may take to report a cookie. After it, a load reads everything.
const LONGEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_until_they_are_taken() {
        let changes = ChangeLog::default();
        changes.record("a".into());
        changes.record("b".into());
        changes.record("a".into());
        let recorded = ChangedPlaces::At(["a", "b"].map(PathBuf::from).into());
        assert_eq!(changes.pending(), recorded);
        assert_eq!(changes.take(), recorded);
        assert_eq!(changes.pending(), ChangedPlaces::default());
        changes.record("c".into());
        changes.put_back(recorded);
        assert_eq!(changes.take(), ChangedPlaces::At(["a", "b", "c"].map(PathBuf::from).into()));
    }

    #[test]
    fn too_many_places_are_anywhere() {
        let changes = ChangeLog::default();
        (0..MOST).for_each(|at| changes.record(at.to_string().into()));
        assert_ne!(changes.pending(), ChangedPlaces::Anywhere);
        changes.record("one more".into());
        changes.record("a".into());
        assert_eq!(changes.take(), ChangedPlaces::Anywhere);
    }

    #[test]
    fn a_cookie_whose_event_does_not_arrive_proves_nothing() {
        let changes = ChangeLog::default();
        assert!(!changes.catch_up(|| None));
        let lost = || {
            changes.record_anywhere();
            Some(1)
        };
        assert!(!changes.catch_up(lost));
        changes.take();
        let recorded = changes.clone();
        assert!(changes.catch_up(|| {
            recorded.record_look();
            recorded.record_cookie(2);
            Some(2)
        }));
    }

    #[test]
    fn an_earlier_cookie_that_arrives_late_proves_nothing() {
        let changes = ChangeLog::default();
        let (late, ours) = (changes.clone(), changes.clone());
        let recorded = std::thread::spawn(move || {
            changes.catch_up(|| {
                late.record_look();
                late.record_cookie(1);
                Some(2)
            })
        });
        // It waits for its own cookie; this event was still under way before it.
        ours.record("a".into());
        ours.record_cookie(2);
        assert!(recorded.join().unwrap());
        assert_eq!(ours.take(), ChangedPlaces::At(["a".into()].into()));
    }
}
