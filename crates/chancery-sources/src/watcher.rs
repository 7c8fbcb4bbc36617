//! Watches the places that matter, and says that something happened there.
//!
//! What happened does not matter, because every change is met by reading everything again
//! (level-triggered). So an event becomes one wake-up, and many events become one as well.
//!
//! Directories are watched, never files: a watch on a file goes deaf when the file is replaced.
//! Reading causes events too (`Access`), which must not wake the reader.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use chancery_proto::document::Format;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::fault::Warning;
use crate::listing::{Identity, Places};
use crate::scan::is_skipped;

/// Says that something is to be done. A bell that rings already need not be rung again.
#[derive(Clone, Debug)]
pub(crate) struct Bell(pub(crate) SyncSender<()>);

/// The places being watched.
pub(crate) struct Watcher {
    inner: RecommendedWatcher,
    places: Arc<Mutex<Places>>,
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
    pub(crate) fn new(bell: Bell) -> notify::Result<Self> {
        let places = Arc::new(Mutex::new(Places::default()));
        let shared = Arc::clone(&places);
        let inner = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let places = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // An error means that events were lost.
            if event.map_or(true, |event| matters(&places, &event)) {
                bell.ring();
            }
        })?;
        Ok(Self { inner, places, watched: BTreeMap::new(), trouble: BTreeMap::new() })
    }

    /// Watches these places and no others. Every place is added again each time: a watch belongs
    /// to a directory and not to its path, and ends with it unseen.
    pub(crate) fn watch(&mut self, places: &Places) {
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = places.clone();
        let around = places.entries.iter().filter_map(|entry| entry.parent().map(Path::to_owned));
        let wanted: BTreeMap<PathBuf, Identity> = around
            .chain(places.directories.iter().cloned())
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

/// Whether what an event tells of can alter what a scan finds.
fn matters(places: &Places, event: &Event) -> bool {
    if event.need_rescan() {
        return true;
    }
    let in_place = match event.kind {
        EventKind::Access(_) => return false,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => true,
        _ => false,
    };
    event.paths.iter().any(|path| {
        let inside = path.parent().is_some_and(|parent| places.directories.contains(parent));
        let ours = inside && (!in_place || is_ours(path));
        ours || places.directories.contains(path) || places.entries.contains(path)
    })
}

/// Whether a file of this name is read. The log that somebody writes beside it is not.
fn is_ours(path: &Path) -> bool {
    Format::of_path(path).is_some() && !path.file_name().is_some_and(is_skipped)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use notify::event::{AccessKind, CreateKind, DataChange, Flag, RemoveKind, RenameMode};

    use super::*;

    fn woken(kind: EventKind, path: &str) -> bool {
        let set = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        let places = Places {
            directories: set(&["/etc/conf", "/etc/conf/groups"]),
            entries: set(&["/etc/conf", "/srv/secret.data"]),
        };
        matters(&places, &Event::new(kind).add_path(path.into()))
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
    fn lost_events_are_an_event() {
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        assert!(matters(&Places::default(), &lost));
    }
}
