//! What was heard of a directory since it was read last: in which places something happened.
//!
//! Events pile up here until a load takes them. They say where to look and not what is there, so
//! the same place twice is one place, and too many places are the whole directory.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Where something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tidings {
    /// Anywhere, for all that is known.
    Anywhere,
    /// At these paths, which are reached without symlinks, and nowhere else.
    At(BTreeSet<PathBuf>),
}

/// What hears tidings and keeps them. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ear(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    heard: Mutex<Heard>,
    looked: Condvar,
}

#[derive(Debug, Default)]
struct Heard {
    tidings: Tidings,
    /// How often somebody was heard to look into the directory.
    looks: u64,
    /// The last of our own signs that was heard of.
    sign: u64,
}

impl Default for Tidings {
    fn default() -> Self {
        Self::At(BTreeSet::new())
    }
}

impl Tidings {
    fn add(&mut self, path: PathBuf) {
        if let Self::At(paths) = self {
            paths.insert(path);
            if paths.len() > MOST {
                *self = Self::Anywhere;
            }
        }
    }
}

impl Ear {
    /// Something happened there.
    pub(crate) fn hear(&self, path: PathBuf) {
        self.lock().tidings.add(path);
    }

    /// Something may have happened, and nobody knows where.
    pub(crate) fn hear_anything(&self) {
        self.lock().tidings = Tidings::Anywhere;
        self.0.looked.notify_all();
    }

    /// Somebody looked into the directory.
    pub(crate) fn hear_look(&self) {
        self.lock().looks += 1;
        self.0.looked.notify_all();
    }

    /// This sign was heard of.
    pub(crate) fn hear_sign(&self, sign: u64) {
        let mut heard = self.lock();
        heard.sign = heard.sign.max(sign);
        self.0.looked.notify_all();
    }

    /// What was heard and not taken, which stays.
    pub(crate) fn pending(&self) -> Tidings {
        self.lock().tidings.clone()
    }

    /// What was heard and not taken.
    pub(crate) fn take(&self) -> Tidings {
        std::mem::take(&mut self.lock().tidings)
    }

    /// Puts back what was taken, because nothing came of it.
    pub(crate) fn put_back(&self, tidings: Tidings) {
        match tidings {
            Tidings::Anywhere => self.hear_anything(),
            Tidings::At(paths) => paths.into_iter().for_each(|path| self.hear(path)),
        }
    }

    /// Waits until the sign that `look` gives is heard of, and with it, because the system tells
    /// things in their order, all that happened before. Whether it was, and a look into the
    /// directory too: who hears of none watches a directory that is not there any more.
    pub(crate) fn has_heard_all(&self, look: impl FnOnce() -> Option<u64>) -> bool {
        let before = self.lock().looks;
        let Some(sign) = look() else { return false };
        let heard = |it: &Heard| it.sign >= sign && it.looks != before;
        // Where events are lost, the sign may be among them.
        let deaf = |it: &mut Heard| !heard(it) && it.tidings != Tidings::Anywhere;
        let waited = self.0.looked.wait_timeout_while(self.lock(), LONGEST, deaf);
        heard(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Nothing that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// More places than this are the whole directory: looking at each costs more than a scan then.
const MOST: usize = 1024;

/// How long the system may take to tell of a look. After that, everything is looked at instead.
const LONGEST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_is_kept_until_it_is_taken() {
        let ear = Ear::default();
        ear.hear("a".into());
        ear.hear("b".into());
        ear.hear("a".into());
        let heard = Tidings::At(["a", "b"].map(PathBuf::from).into());
        assert_eq!(ear.pending(), heard);
        assert_eq!(ear.take(), heard);
        assert_eq!(ear.pending(), Tidings::default());
        ear.hear("c".into());
        ear.put_back(heard);
        assert_eq!(ear.take(), Tidings::At(["a", "b", "c"].map(PathBuf::from).into()));
    }

    #[test]
    fn too_many_places_are_anywhere() {
        let ear = Ear::default();
        (0..MOST).for_each(|at| ear.hear(at.to_string().into()));
        assert_ne!(ear.pending(), Tidings::Anywhere);
        ear.hear("one more".into());
        ear.hear("a".into());
        assert_eq!(ear.take(), Tidings::Anywhere);
    }

    #[test]
    fn a_look_that_is_not_heard_of_proves_nothing() {
        let ear = Ear::default();
        assert!(!ear.has_heard_all(|| None));
        let lost = || {
            ear.hear_anything();
            Some(1)
        };
        assert!(!ear.has_heard_all(lost));
        ear.take();
        let heard = ear.clone();
        assert!(ear.has_heard_all(|| {
            heard.hear_look();
            heard.hear_sign(2);
            Some(2)
        }));
    }

    #[test]
    fn an_earlier_look_that_is_heard_of_late_proves_nothing() {
        let ear = Ear::default();
        let (late, ours) = (ear.clone(), ear.clone());
        let heard = std::thread::spawn(move || {
            ear.has_heard_all(|| {
                late.hear_look();
                late.hear_sign(1);
                Some(2)
            })
        });
        // It waits for its own, and this is what was still under way before it.
        ours.hear("a".into());
        ours.hear_sign(2);
        assert!(heard.join().unwrap());
        assert_eq!(ours.take(), Tidings::At(["a".into()].into()));
    }
}
