//! Watches the places that matter, and says that something happened there.
//!
//! What happened does not matter, only where: whatever is there now is what counts
//! (level-triggered). So an event becomes a place and one wake-up, and many events become one as
//! well.
//!
//! Directories are watched, never files: a watch on a file goes deaf when the file is replaced.
//! Reading causes events too (`Access`), which must not wake the reader. One of them is of use: who
//! looks into the top directory and hears of a look watches the directory that is there. That all
//! was heard that happened before is told by a sign of our own ([`Signs`]).

pub(crate) mod change_log;
pub(crate) mod sync_cookies;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use chancery_proto::document::Format;
use notify::event::{AccessKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::fault::Warning;
use crate::scan::is_skipped;
use crate::scan::listing::{Identity, Places};
use crate::watch::change_log::Ear;
use crate::watch::sync_cookies::{Signs, sign_of};

/// Says that something is to be done. A bell that rings already need not be rung again.
#[derive(Clone, Debug)]
pub(crate) struct Bell(pub(crate) SyncSender<()>);

/// The places being watched.
pub(crate) struct Watcher {
    inner: RecommendedWatcher,
    ear: Ear,
    places: Arc<Mutex<Places>>,
    /// `None` if there can be none: then nobody knows whether everything was heard.
    signs: Option<Signs>,
    watched: BTreeMap<PathBuf, Identity>,
    trouble: BTreeMap<PathBuf, String>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        // Full: it rings. Closed: nobody is left to hear it.
        let _ = self.0.try_send(());
    }
}

impl Watcher {
    /// Watches nothing yet.
    pub(crate) fn new(bell: Bell, ear: Ear) -> notify::Result<Self> {
        let places = Arc::new(Mutex::new(Places::default()));
        let signs = Signs::new().ok();
        let given = signs.as_ref().map(|signs| signs.directory().to_owned());
        let (shared, hears) = (Arc::clone(&places), ear.clone());
        let mut inner = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if hears_sign(&hears, given.as_deref(), &event) {
                return;
            }
            let places = shared.lock().unwrap_or_else(PoisonError::into_inner);
            if hear(&hears, &places, event) {
                bell.ring();
            }
        })?;
        let mut watch = |signs: &Signs| inner.watch(signs.directory(), RecursiveMode::NonRecursive);
        let signs = signs.filter(|signs| watch(signs).is_ok());
        let (watched, trouble) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { inner, ear, places, signs, watched, trouble })
    }

    /// Whether all that happened until now, in all places, was heard.
    pub(crate) fn has_heard_all(&self) -> bool {
        let top = self.places.lock().unwrap_or_else(PoisonError::into_inner).top.clone();
        let (Some(top), Some(signs)) = (top, &self.signs) else { return false };
        self.ear.has_heard_all(|| fs::read_dir(top).ok().and_then(|_| signs.give()))
    }

    /// Whether every change is heard of, and every look. Only Linux tells of looks.
    pub(crate) fn hears_everything(&self) -> bool {
        cfg!(target_os = "linux") && self.signs.is_some() && self.trouble.is_empty()
    }

    /// Watches these places and no others. Every place is added again each time: a watch belongs
    /// to a directory and not to its path, and ends with it unseen.
    pub(crate) fn watch(&mut self, places: &Places) {
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = places.clone();
        let around = places.entries.iter().filter_map(|entry| entry.parent().map(Path::to_owned));
        let wanted: BTreeMap<PathBuf, Identity> = around
            .chain(places.directories.keys().cloned())
            .filter_map(|path| Some((Identity::of(&fs::metadata(&path).ok()?), path)))
            .map(|(identity, path)| (path, identity))
            .collect();
        for (path, identity) in &self.watched {
            if wanted.get(path) != Some(identity) {
                // It may have ended by itself.
                let _ = self.inner.unwatch(path);
            }
        }
        self.trouble.clear();
        for path in wanted.keys() {
            if let Err(error) = self.inner.watch(path, RecursiveMode::NonRecursive) {
                self.trouble.insert(path.clone(), error.to_string());
            }
        }
        self.watched = wanted;
    }

    /// The places that cannot be watched; changes there are found by sweeps alone.
    pub(crate) fn trouble(&self) -> impl Iterator<Item = Warning> {
        self.trouble.iter().map(|(path, error)| {
            Warning::of_file(path, format!("cannot be watched, only swept: {error}"))
        })
    }
}

/// Takes a sign of our own in; whether it was one.
fn hears_sign(ear: &Ear, given: Option<&Path>, event: &notify::Result<Event>) -> bool {
    let path = event.as_ref().ok().and_then(|event| event.paths.first());
    let Some(path) = path.filter(|path| given.is_some() && path.parent() == given) else {
        return false;
    };
    if let Some(sign) = sign_of(path) {
        ear.hear_sign(sign);
    }
    true
}

/// Takes an event in; whether it is news.
fn hear(ear: &Ear, places: &Places, event: notify::Result<Event>) -> bool {
    // An error means that events were lost.
    let Some(event) = event.ok().filter(|event| !event.need_rescan()) else {
        ear.hear_anything();
        return true;
    };
    if matches!(event.kind, EventKind::Access(AccessKind::Open(_))) {
        if event.paths.iter().any(|path| places.top.as_ref() == Some(path)) {
            ear.hear_look();
        }
        return false;
    }
    let (kind, mut news) = (event.kind, false);
    for path in event.paths.into_iter().filter(|path| matters(places, kind, path)) {
        ear.hear(path);
        news = true;
    }
    news
}

/// Whether what happened to this path can alter what a scan finds.
fn matters(places: &Places, kind: EventKind, path: &Path) -> bool {
    let in_place = match kind {
        EventKind::Access(_) => return false,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => true,
        _ => false,
    };
    let inside = path.parent().is_some_and(|parent| places.directories.contains_key(parent));
    let ours = inside && (!in_place || is_ours(path));
    ours || places.directories.contains_key(path) || places.entries.contains(path)
}

/// Whether a file of this name is read. The log that somebody writes beside it is not.
fn is_ours(path: &Path) -> bool {
    Format::of_path(path).is_some() && !path.file_name().is_some_and(is_skipped)
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessMode, CreateKind, DataChange, Flag, RemoveKind, RenameMode};

    use super::*;
    use crate::watch::change_log::Tidings;

    fn places() -> Places {
        Places {
            directories: ["/etc/conf", "/etc/conf/groups"].map(|it| (it.into(), None)).into(),
            entries: ["/etc/conf", "/srv/secret.data"].map(PathBuf::from).into(),
            top: Some("/etc/conf".into()),
        }
    }

    fn woken(kind: EventKind, path: &str) -> bool {
        let ear = Ear::default();
        let news = hear(&ear, &places(), Ok(Event::new(kind).add_path(path.into())));
        let heard = if news { [path.into()].into() } else { [].into() };
        assert_eq!(ear.take(), Tidings::At(heard));
        news
    }

    #[test]
    fn reading_wakes_nobody() {
        assert!(!woken(EventKind::Access(AccessKind::Any), "/etc/conf/a.yaml"));
    }

    #[test]
    fn whatever_comes_or_goes_in_our_directories_matters() {
        let kinds = [
            EventKind::Create(CreateKind::Any),
            EventKind::Remove(RemoveKind::Any),
            EventKind::Modify(ModifyKind::Name(RenameMode::Any)),
        ];
        for kind in kinds {
            assert!(woken(kind, "/etc/conf/..data"));
            assert!(woken(kind, "/etc/conf/groups/g"));
            assert!(woken(kind, "/etc/conf"));
            assert!(woken(kind, "/srv/secret.data"));
            assert!(!woken(kind, "/etc/passwd"));
            assert!(!woken(kind, "/srv/other"));
        }
    }

    #[test]
    fn a_log_beside_the_resources_may_grow() {
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        assert!(!woken(written, "/etc/conf/access.log"));
        assert!(!woken(written, "/etc/conf/.a.yaml.swp"));
        assert!(woken(written, "/etc/conf/a.yaml"));
        assert!(woken(written, "/srv/secret.data"), "a symlink leads there");
    }

    #[test]
    fn lost_events_are_an_event_anywhere() {
        let ear = Ear::default();
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(hear(&ear, &Places::default(), Ok(lost)));
        assert_eq!(ear.take(), Tidings::Anywhere);
        assert!(hear(&ear, &Places::default(), Err(notify::Error::generic("lost"))));
        assert_eq!(ear.take(), Tidings::Anywhere);
    }

    #[test]
    fn a_look_into_the_top_directory_is_heard_and_wakes_nobody() {
        let ear = Ear::default();
        let look = |path: &str| {
            let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
            hear(&ear, &places(), Ok(Event::new(opened).add_path(path.into())))
        };
        assert!(!look("/etc/conf/groups"));
        let sign = Ok(Event::new(EventKind::Create(CreateKind::File)).add_path("/tmp/s/1".into()));
        assert!(ear.has_heard_all(|| {
            assert!(!look("/etc/conf"));
            assert!(hears_sign(&ear, Some(Path::new("/tmp/s")), &sign));
            Some(1)
        }));
        assert!(!hears_sign(&ear, Some(Path::new("/tmp")), &sign));
        assert_eq!(ear.take(), Tidings::default());
    }
}
