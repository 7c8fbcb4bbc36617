//! The watcher of the places that matter. It records which of them may have changed.
//!
//! Only the place of an event matters and not its kind, because a load reads whatever is there by
//! then (level-triggered). So an event becomes a place and one wake-up, and many events become one
//! wake-up as well.
//!
//! Directories are watched, never files: a watch on a file reports nothing once the file is
//! replaced. Reading causes events too (`Access`), which must not wake the reader. One of these is
//! useful: if opening the top directory causes an event, the watch is on the directory that exists
//! now. A sync cookie ([`SyncCookies`]) proves that the events of all earlier changes have arrived.

pub(crate) mod sync_cookies;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_proto::document::Format;
use notify::event::{AccessKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::change_log::ChangeLog;
use crate::fault::Warning;
use crate::scan::listing::{FileIdentity, Places};
use crate::scan::skipped::is_skipped;
use crate::watch::sync_cookies::{SyncCookies, cookie_of};

/// A way to wake the follower. It has room for one: the follower does not ask why it was woken.
#[derive(Clone, Debug)]
pub(crate) struct Wakeup(pub(crate) SyncSender<()>);

/// The places being watched.
pub(crate) struct Watcher {
    inner: RecommendedWatcher,
    wakeup: Wakeup,
    changes: ChangeLog,
    shared: Arc<Mutex<Watched>>,
    /// The sync cookies, if they can be created. Without them it is never known that all events
    /// have arrived.
    cookies: Option<SyncCookies>,
    trouble: BTreeMap<PathBuf, String>,
}

/// The places that matter, and the watches on them.
#[derive(Default)]
struct Watched {
    places: Places,
    /// The directories that were watched when they were looked at last.
    directories: BTreeMap<PathBuf, FileIdentity>,
    /// Those of them whose watch may have ended: it belongs to a directory and not to its path.
    doubted: BTreeSet<PathBuf>,
}

impl Watched {
    /// Takes note of an event after which the watches on this path and below it may have ended.
    fn doubt_below(&mut self, path: &Path) {
        let after = self.directories.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        let below = after.map(|(directory, _)| directory).take_while(|it| it.starts_with(path));
        self.doubted.extend(below.cloned());
    }

    fn doubt_all(&mut self) {
        self.doubted = self.directories.keys().cloned().collect();
    }

    /// Takes over the places that matter, and the directories to be watched. Returns those whose
    /// watches are to be removed, and those that are to be watched after that.
    fn change_to(
        &mut self,
        places: &Places,
        wanted: BTreeMap<PathBuf, FileIdentity>,
    ) -> (Vec<PathBuf>, Vec<PathBuf>) {
        self.places.clone_from(places);
        let doubted = std::mem::take(&mut self.doubted);
        let before = std::mem::replace(&mut self.directories, wanted);
        let now = &self.directories;
        let gone = before.iter().filter(|(path, identity)| now.get(*path) != Some(identity));
        let new = now.iter().filter(|(path, identity)| {
            before.get(*path) != Some(identity) || doubted.contains(*path)
        });
        let paths = |(path, _): (&PathBuf, _)| path.clone();
        (gone.map(paths).collect(), new.map(paths).collect())
    }
}

impl Wakeup {
    pub(crate) fn notify(&self) {
        // If the channel is full, the follower is woken already; if it is closed, the follower has
        // ended.
        let _ = self.0.try_send(());
    }
}

impl Watcher {
    /// A watcher that watches no place yet.
    pub(crate) fn new(wakeup: Wakeup, changes: ChangeLog) -> notify::Result<Self> {
        let shared = Arc::new(Mutex::new(Watched::default()));
        let cookies = SyncCookies::new().ok();
        let given = cookies.as_ref().map(|cookies| cookies.directory().to_owned());
        let (watched, log, wakes) = (Arc::clone(&shared), changes.clone(), wakeup.clone());
        let mut inner = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if records_cookie(&log, given.as_deref(), &event) {
                return;
            }
            let mut watched = watched.lock().unwrap_or_else(PoisonError::into_inner);
            if record(&log, &mut watched, event) {
                wakes.notify();
            }
        })?;
        let mut watch =
            |cookies: &SyncCookies| inner.watch(cookies.directory(), RecursiveMode::NonRecursive);
        let cookies = cookies.filter(|cookies| watch(cookies).is_ok());
        Ok(Self { inner, wakeup, changes, shared, cookies, trouble: BTreeMap::new() })
    }

    /// Wakes the follower as an event does.
    pub(crate) fn wake(&self) {
        self.wakeup.notify();
    }

    /// Waits for the events of all earlier changes. Returns true if they are in the log.
    pub(crate) fn catch_up(&self) -> bool {
        let top = self.lock().places.top.clone();
        let (Some(top), Some(cookies)) = (top, &self.cookies) else { return false };
        self.changes.catch_up(|| fs::read_dir(top).ok().and_then(|_| cookies.create()))
    }

    /// Returns true if every change causes an event. That is known only on Linux, the only system
    /// that reports the opening of a directory.
    pub(crate) fn reports_everything(&self) -> bool {
        cfg!(target_os = "linux") && self.cookies.is_some() && self.trouble.is_empty()
    }

    /// Watches these places and no others. A place is added again if it is another directory now, or
    /// if an event told that its watch may have ended. Adds so many at most, because each is a round
    /// trip to another thread, but all of the first places. Returns true if all places are watched.
    pub(crate) fn watch(&mut self, places: &Places, most: usize) -> bool {
        let around = places.entries.iter().filter_map(|entry| entry.parent().map(Path::to_owned));
        let wanted: BTreeMap<PathBuf, FileIdentity> = around
            .chain(places.directories.keys().cloned())
            .filter_map(|path| Some((FileIdentity::of(&fs::metadata(&path).ok()?), path)))
            .map(|(identity, path)| (path, identity))
            .collect();
        self.trouble.retain(|path, _| wanted.contains_key(path));
        let is_first = self.lock().directories.is_empty();
        let most = if is_first { usize::MAX } else { most };
        let (gone, new) = self.lock().change_to(places, wanted);
        let (new, later) = new.split_at(most.min(new.len()));
        self.lock().doubted.extend(later.iter().cloned());
        for path in gone {
            // The watch may have ended already.
            let _ = self.inner.unwatch(&path);
        }
        for path in new {
            match self.inner.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.trouble.remove(path)),
                // The watch on the directory that it was in tells when it comes back.
                Err(error) if is_not_found(&error) => {
                    self.lock().doubted.insert(path.clone());
                }
                Err(error) => {
                    self.lock().doubted.insert(path.clone());
                    self.trouble.insert(path.clone(), error.to_string());
                }
            }
        }
        later.is_empty()
    }

    /// Has the next load watch every place again: something changed of which no event told.
    pub(crate) fn distrust(&self) {
        self.lock().doubt_all();
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places that cannot be watched; changes there are found by sweeps alone.
    pub(crate) fn trouble(&self) -> impl Iterator<Item = Warning> {
        self.trouble.iter().map(|(path, error)| {
            Warning::of_file(path, format!("cannot be watched, only swept: {error}"))
        })
    }
}

/// Returns true if there is no such directory any more.
fn is_not_found(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::PathNotFound => true,
        notify::ErrorKind::Io(error) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Records the event of a sync cookie. Returns false if the event is about something else.
fn records_cookie(
    changes: &ChangeLog,
    given: Option<&Path>,
    event: &notify::Result<Event>,
) -> bool {
    let path = event.as_ref().ok().and_then(|event| event.paths.first());
    let Some(path) = path.filter(|path| given.is_some() && path.parent() == given) else {
        return false;
    };
    if let Some(cookie) = cookie_of(path) {
        changes.record_cookie(cookie);
    }
    true
}

/// Records an event. Returns true if the follower should be woken.
fn record(changes: &ChangeLog, watched: &mut Watched, event: notify::Result<Event>) -> bool {
    // An error means that events were lost.
    let Some(event) = event.ok().filter(|event| !event.need_rescan()) else {
        watched.doubt_all();
        changes.record_anywhere();
        return true;
    };
    if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
        event.paths.iter().for_each(|path| watched.doubt_below(path));
    }
    let places = &watched.places;
    if matches!(event.kind, EventKind::Access(AccessKind::Open(_))) {
        if event.paths.iter().any(|path| places.top.as_ref() == Some(path)) {
            changes.record_look();
        }
        return false;
    }
    let (kind, mut news) = (event.kind, false);
    for path in event.paths.into_iter().filter(|path| matters(places, kind, path)) {
        changes.record(path);
        news = true;
    }
    news
}

/// Returns true if a change of this path can alter what a scan finds.
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

/// Returns true if a file of this name is read. A log that some program writes beside it is not.
fn is_ours(path: &Path) -> bool {
    Format::of_path(path).is_some() && !path.file_name().is_some_and(is_skipped)
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessMode, CreateKind, DataChange, Flag, RemoveKind, RenameMode};

    use super::*;
    use crate::change_log::ChangedPlaces;

    fn places() -> Places {
        Places {
            directories: ["/etc/conf", "/etc/conf/groups"].map(|it| (it.into(), None)).into(),
            entries: ["/etc/conf", "/srv/secret.data"].map(PathBuf::from).into(),
            top: Some("/etc/conf".into()),
        }
    }

    fn woken(kind: EventKind, path: &str) -> bool {
        let changes = ChangeLog::default();
        let mut watched = Watched { places: places(), ..Watched::default() };
        let news = record(&changes, &mut watched, Ok(Event::new(kind).add_path(path.into())));
        let recorded = if news { [path.into()].into() } else { [].into() };
        assert_eq!(changes.take(), ChangedPlaces::At(recorded));
        news
    }

    fn watched(directories: &[&str]) -> Watched {
        let identity = FileIdentity::of(&fs::metadata("/").unwrap());
        let directories = directories.iter().map(|path| (path.into(), identity)).collect();
        Watched { places: places(), directories, ..Watched::default() }
    }

    #[test]
    fn a_directory_is_watched_again_if_its_watch_may_have_ended_and_not_otherwise() {
        let all = ["/etc", "/etc/conf", "/etc/conf/groups", "/etc/conf/groups-2"];
        let mut watched = watched(&all);
        let mut new_after = |kind: EventKind, path: &str| {
            let event = Ok(Event::new(kind).add_path(path.into()));
            record(&ChangeLog::default(), &mut watched, event);
            let wanted = self::watched(&all).directories;
            let (gone, new) = watched.change_to(&places(), wanted);
            assert_eq!(gone, Vec::<PathBuf>::new());
            new
        };
        let moved = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        let removed = EventKind::Remove(RemoveKind::Folder);
        assert_eq!(new_after(moved, "/etc/conf/a.yaml"), Vec::<PathBuf>::new());
        assert_eq!(
            new_after(EventKind::Create(CreateKind::Any), "/etc/conf"),
            Vec::<PathBuf>::new()
        );
        assert_eq!(new_after(removed, "/etc/conf/groups"), [PathBuf::from("/etc/conf/groups")]);
        assert_eq!(
            new_after(moved, "/etc/conf"),
            ["/etc/conf", "/etc/conf/groups", "/etc/conf/groups-2"].map(PathBuf::from)
        );
        let (gone, new) = watched.change_to(&places(), self::watched(&["/etc"]).directories);
        assert_eq!((gone.len(), new.len()), (3, 0));
    }

    #[test]
    fn many_new_places_are_watched_over_several_attempts() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let names = ["a", "b", "c"].map(|name| top.join(name));
        names.iter().for_each(|name| fs::create_dir(name).unwrap());
        let places = |count: usize| Places {
            directories: names.iter().take(count).map(|name| (name.clone(), None)).collect(),
            ..Places::default()
        };
        let (wake, wakeups) = std::sync::mpsc::sync_channel(1);
        let mut watcher = Watcher::new(Wakeup(wake), ChangeLog::default()).unwrap();
        assert!(watcher.watch(&places(1), 0), "the first places are all watched");
        assert!(!watcher.watch(&places(3), 1));
        assert!(watcher.watch(&places(3), 1));
        assert!(watcher.watch(&places(3), 0), "all of them are watched");
        fs::write(names[2].join("a.yaml"), "").unwrap();
        wakeups.recv_timeout(std::time::Duration::from_secs(60)).unwrap();
        watcher.distrust();
        assert!(!watcher.watch(&places(3), 2));
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
        let changes = ChangeLog::default();
        let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
        let mut watched = watched(&["/etc/conf"]);
        assert!(record(&changes, &mut watched, Ok(lost)));
        assert_eq!(watched.doubted.len(), 1);
        assert_eq!(changes.take(), ChangedPlaces::Anywhere);
        assert!(record(&changes, &mut watched, Err(notify::Error::generic("lost"))));
        assert_eq!(changes.take(), ChangedPlaces::Anywhere);
    }

    #[test]
    fn opening_the_top_directory_is_recorded_and_wakes_nobody() {
        let changes = ChangeLog::default();
        let look = |path: &str| {
            let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
            let mut watched = Watched { places: places(), ..Watched::default() };
            record(&changes, &mut watched, Ok(Event::new(opened).add_path(path.into())))
        };
        assert!(!look("/etc/conf/groups"));
        let cookie =
            Ok(Event::new(EventKind::Create(CreateKind::File)).add_path("/tmp/s/1".into()));
        assert!(changes.catch_up(|| {
            assert!(!look("/etc/conf"));
            assert!(records_cookie(&changes, Some(Path::new("/tmp/s")), &cookie));
            Some(1)
        }));
        assert!(!records_cookie(&changes, Some(Path::new("/tmp")), &cookie));
        assert_eq!(changes.take(), ChangedPlaces::default());
    }
}
