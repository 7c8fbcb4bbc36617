//! Loads of changes and of everything, while the directory changes.

use std::fs;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, SystemTime};

use super::*;
use crate::scan::listing::FileStamp;
use crate::watch::Wakeup;

fn cluster(name: &str) -> String {
    let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
    format!("{{\"@type\": \"{url}\", \"name\": \"{name}\"}}")
}

#[test]
fn what_moved_while_it_was_read_is_not_published() {
    // S-057
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, name: &str| fs::write(dir.path().join(file), cluster(name));
    write("a.json", "a").unwrap();
    let moves: [&dyn Fn() -> std::io::Result<()>; 5] = [
        &|| write("a.json", "longer"),
        &|| write("b.json", "b"),
        &|| fs::remove_file(dir.path().join("b.json")),
        &|| fs::create_dir(dir.path().join("groups")),
        &|| fs::rename(dir.path().join("a.json"), dir.path().join("c.json")),
    ];
    let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
    for step in moves {
        let reading = directory.read();
        step().unwrap();
        assert_eq!(directory.conclude(reading, Moment::now(false)), None);
    }
    assert!(directory.catalog().snapshot(None, None).is_none());
    let reading = directory.read();
    assert!(directory.conclude(reading, Moment::now(false)).is_some());
}

#[test]
fn what_never_comes_to_rest_is_read_as_it_is_and_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.json"), cluster("a")).unwrap();
    let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
    let (report, is_partial) = directory.load_moving();
    assert_eq!((report.resources, report.warnings.len(), is_partial), (1, 1, false));
    // It is not told again at each load.
    let (mut report, _) = directory.load_moving();
    directory.warn_of_moving(&mut report);
    assert_eq!((report.resources, report.warnings.len()), (1, 0));
}

#[test]
fn a_file_read_in_the_tick_it_was_written_in_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.json"), cluster("a")).unwrap();
    let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
    let listing = directory.peek();
    let name = |directory: &mut Directory| {
        let Directory { cache, options, schema, .. } = directory;
        let documents = cache.read(&listing.files, UnsureFiles::Read, None, options, schema);
        documents[0].resources[0].content.name().to_string()
    };
    assert_eq!(name(&mut directory), "a");
    // The stamp shows no change.
    fs::write(dir.path().join("a.json"), cluster("b")).unwrap();
    assert_eq!(name(&mut directory), "b");
    assert!(directory.has_unsure());
}

#[test]
fn of_very_many_files_some_are_read_again_after_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let count = 2 * MOST_UNSURE - 1;
    (0..count).for_each(|at| fs::write(dir.path().join(format!("{at}.json")), "[]").unwrap());
    let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
    directory.load();
    let mut recorded = BTreeSet::new();
    for _ in 0..2 {
        assert!(!directory.record_unsure());
        let ChangedPlaces::At(part) = directory.change_log.take() else { panic!("too many") };
        assert_eq!(part.len(), MOST_UNSURE);
        recorded.extend(part);
    }
    assert_eq!(recorded.len(), count);
}

#[test]
fn what_changed_after_the_directory_was_listed_is_committed_as_it_was_and_loaded_next() {
    let mut it = Listening::new(&["a.json", "b.json"]);
    let name_in = |it: &Listening, file: &str, name: &str| {
        fs::write(it.dir.path().join(file), cluster(name)).unwrap();
    };
    let (reading, listed) = (it.directory.read(), Moment::now(true));
    name_in(&it, "a.json", "new");
    assert!(it.directory.conclude(reading, listed).is_some());
    assert_eq!(it.names(), ["a.json", "b.json"]);
    it.wakeups.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!((0..60).any(|_| it.directory.attempt().is_some()));
    assert_eq!(it.names(), ["b.json", "new"]);
    // A change shortly before may belong together with one that comes later.
    it.directory.options.settle = Duration::from_secs(3_600);
    name_in(&it, "b.json", "newer");
    let (reading, listed) = (it.directory.read(), Moment::now(true));
    name_in(&it, "a.json", "newest");
    assert_eq!(it.directory.conclude(reading, listed), None);
}

/// A directory that was read while its events are recorded, as a follower does.
struct Listening {
    dir: tempfile::TempDir,
    directory: Directory,
    wakeups: Receiver<()>,
}

impl Listening {
    fn new(files: &[&str]) -> Self {
        Self::below("", files)
    }

    /// A directory with these files, at a place below the temporary one.
    fn below(place: &str, files: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (sender, wakeups) = sync_channel(1);
        // Two looks that agree are enough, unless a test says otherwise.
        let options = Options { settle: Duration::ZERO, ..Options::new(dir.path().join(place)) };
        let directory = Directory::new(options, Schema::bundled());
        let mut it = Self { dir, directory, wakeups };
        files.iter().for_each(|file| it.write(file));
        it.directory.watcher = Watcher::new(Wakeup(sender), it.directory.change_log.clone()).ok();
        it.directory.change_log.record_anywhere();
        assert!(it.directory.attempt().is_some());
        it
    }

    /// Writes a file with a cluster of the same name.
    fn write(&self, file: &str) {
        fs::create_dir_all(self.dir.path().join(file).parent().unwrap()).unwrap();
        fs::write(self.dir.path().join(file), cluster(file)).unwrap();
    }

    /// The recorded places, and their changes; `None` stands for anything.
    fn recorded(&self) -> (ChangedPlaces, Option<Vec<FileChange>>) {
        self.wakeups.recv_timeout(Duration::from_secs(60)).unwrap();
        let watcher = self.directory.watcher.as_ref().unwrap();
        // Each of these waits for a second at most.
        assert!((0..60).any(|_| watcher.catch_up()), "events do not arrive");
        let recorded = self.directory.change_log.take();
        let changes = self.directory.changes(&recorded);
        (recorded, changes)
    }

    fn names(&self) -> Vec<String> {
        let snapshot = self.directory.catalog.snapshot(None, None).unwrap();
        let types: Vec<_> = snapshot.types().cloned().collect();
        let all = types.iter().flat_map(|url| snapshot.set(url).iter());
        all.map(|one| one.name().to_string()).collect()
    }
}

#[test]
fn of_a_change_only_what_changed_is_read() {
    let mut it = Listening::new(&["a.json", "b.json", "groups/g/c.json"]);
    it.write("groups/g/d.json");
    let (recorded, changes) = it.recorded();
    let changes = changes.unwrap();
    assert_eq!(changes.len(), 1);
    let report = it.directory.attempt_changes(&recorded, changes).unwrap();
    assert_eq!(report.layers(), [Layer::Group("g".into())]);
    assert_eq!((report.files, report.resources), (4, 4));
    fs::remove_file(it.dir.path().join("a.json")).unwrap();
    let (recorded, changes) = it.recorded();
    let report = it.directory.attempt_changes(&recorded, changes.unwrap()).unwrap();
    assert_eq!(
        (report.layers().to_vec(), it.names()),
        (vec![Layer::Base], vec!["b.json".to_owned()])
    );
}

#[test]
fn what_happens_elsewhere_while_a_change_is_read_holds_it_back() {
    // S-057
    let mut it = Listening::new(&["a.json", "deep/b.json"]);
    let moves: [&dyn Fn(&Listening); 4] = [
        &|it| it.write("c.json"),
        &|it| it.write("deep/b.json"),
        &|it| fs::create_dir(it.dir.path().join("groups")).unwrap(),
        &|it| fs::rename(it.dir.path().join("deep"), it.dir.path().join("deeper")).unwrap(),
    ];
    for step in moves {
        fs::write(it.dir.path().join("a.json"), cluster("changed")).unwrap();
        let (recorded, changes) = it.recorded();
        step(&it);
        assert_eq!(it.directory.attempt_changes(&recorded, changes.unwrap()), None);
        assert!(!it.names().contains(&"changed".to_owned()));
        // Everything, and then again from the start.
        it.directory.change_log.put_back(recorded);
        assert!(it.directory.attempt().is_some());
        assert!(it.names().contains(&"changed".to_owned()));
        it.write("a.json");
        it.directory.change_log.record_anywhere();
        assert!(it.directory.attempt().is_some());
        it.recorded();
    }
}

#[test]
fn after_an_emptied_directory_everything_is_read() {
    let mut it = Listening::new(&["a.json", "b.json"]);
    for file in ["a.json", "b.json"] {
        fs::remove_file(it.dir.path().join(file)).unwrap();
    }
    let (recorded, changes) = it.recorded();
    let report = it.directory.attempt_changes(&recorded, changes.unwrap()).unwrap();
    assert_eq!(report.faults.len(), 1);
    it.write("a.json");
    let (_, changes) = it.recorded();
    assert_eq!(changes, None);
}

#[test]
fn a_change_in_a_directory_that_was_moved_away_deletes_nothing() {
    // S-057
    let mut it = Listening::below("outer/conf", &["outer/conf/a.json", "outer/conf/b.json"]);
    let outer = it.dir.path().join("outer");
    fs::rename(&outer, it.dir.path().join("away")).unwrap();
    // The watch goes along with the directory, and reports its old path.
    it.write("away/conf/a.json");
    it.wakeups.recv_timeout(Duration::from_secs(60)).unwrap();
    let changed = ChangedPlaces::At([outer.join("conf/a.json")].into());
    assert_eq!(it.directory.changes(&changed), None);
    let report = it.directory.attempt().or_else(|| it.directory.attempt()).unwrap();
    assert_eq!((report.faults.len(), it.names().len()), (1, 2));
}

/// Two files that changed, the second of them again since the events were taken.
fn moving(again: &str) -> (Listening, ChangedPlaces, Vec<FileChange>) {
    let it = Listening::new(&["a.json", "b.json"]);
    let write = |file: &str, text: &str| fs::write(it.dir.path().join(file), text).unwrap();
    write("a.json", &cluster("changed"));
    write("b.json", &cluster("changed too"));
    let (recorded, changes) = it.recorded();
    write("b.json", again);
    (it, recorded, changes.unwrap())
}

#[test]
fn what_rests_is_loaded_while_another_file_is_written() {
    let (mut it, recorded, changes) = moving(&cluster("and again"));
    let loaded = it.directory.attempt_resting_changes(&recorded, changes, false);
    let (report, is_partial) = loaded.unwrap();
    assert!(is_partial && report.faults.is_empty());
    assert_eq!(it.names(), ["b.json", "changed"]);
    // The next load takes it, once it rests.
    it.directory.change_log.put_back(recorded);
    let (_, is_partial) = it.directory.attempt_resting(false).unwrap();
    assert_eq!((is_partial, it.names()), (false, vec!["and again".into(), "changed".into()]));
}

#[test]
fn a_file_that_breaks_in_a_storm_stays_as_it_was_for_a_while() {
    for broken in ["", "{"] {
        let (mut it, recorded, _) = moving(broken);
        it.directory.change_log.put_back(recorded.clone());
        let (report, is_partial) = it.directory.attempt_resting(false).unwrap();
        assert!(is_partial && report.faults.is_empty());
        assert_eq!(it.names(), ["b.json", "changed"]);
        // It is looked at again without an event.
        let (report, is_partial) = it.directory.attempt_resting(true).unwrap();
        assert_eq!((is_partial, report.faults.len()), (false, 1));
        assert_eq!(it.names(), ["b.json", "changed"], "held back");
    }
}

#[test]
fn of_a_whole_load_too_what_rests_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, name: &str| fs::write(dir.path().join(file), cluster(name)).unwrap();
    let remove = |file: &str| fs::remove_file(dir.path().join(file)).unwrap();
    ["moves", "goes", "comes back", "rests", "removed"].iter().for_each(|file| {
        write(&format!("{file}.json"), file);
    });
    let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
    directory.load();
    write("rests.json", "new");
    write("new.json", "new one");
    remove("removed.json");
    remove("comes back.json");
    let mut reading = directory.read();
    write("moves.json", "is half written");
    write("comes back.json", "in another form");
    write("late.json", "late");
    remove("goes.json");
    let now = directory.peek();
    assert!(reading.listing.has_same_frame(&now));
    let mut look = directory.unsettled.look(Moment::now(true), Duration::ZERO);
    let moving = reading.leave_moving(&now, directory.last.as_ref(), false, &mut look);
    assert_eq!(moving.len(), 4);
    let names = reading.documents.iter().flat_map(|it| &it.resources);
    let names: Vec<_> = names.map(|it| it.content.name().to_string()).collect();
    assert_eq!(names, ["comes back", "goes", "moves", "new one", "new"]);
    assert!(reading.listing.files.is_sorted_by_key(|found| &found.path));
    let (now, mut reading) = (directory.peek(), directory.read());
    let mut look = directory.unsettled.look(Moment::now(true), Duration::ZERO);
    let moving = reading.leave_moving(&now, directory.last.as_ref(), false, &mut look);
    assert!(moving.is_empty(), "{moving:?}");
}

#[test]
fn while_directories_change_files_that_were_there_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, name: &str| fs::write(dir.path().join(file), cluster(name)).unwrap();
    fs::create_dir(dir.path().join("deep")).unwrap();
    ["a.json", "b.json", "deep/c.json"].iter().for_each(|file| write(file, file));
    let mut directory = Directory::new(Options::new(dir.path()), Schema::bundled());
    directory.load();
    write("a.json", "changed");
    write("new.json", "new");
    let reading = directory.read();
    write("b.json", "moves");
    fs::rename(dir.path().join("deep"), dir.path().join("deeper")).unwrap();
    let now = directory.peek();
    assert!(!reading.listing.has_same_frame(&now));
    let last = directory.last.as_ref().unwrap();
    let mut look = directory.unsettled.look(Moment::now(true), Duration::ZERO);
    let known = reading.known_files(&now, last, &mut look).unwrap();
    let names = known.documents.iter().flat_map(|it| &it.resources);
    let names: Vec<_> = names.map(|it| it.content.name().to_string()).collect();
    assert_eq!(names, ["changed", "b.json", "deep/c.json"], "nothing comes, and nothing goes");
    // A directory in place of this one says nothing of it.
    let other = tempfile::tempdir().unwrap();
    let elsewhere = Directory::new(Options::new(other.path()), Schema::bundled()).peek();
    assert!(reading.known_files(&elsewhere, last, &mut look).is_none());
}

#[test]
fn known_files_are_loaded_while_other_changes_wait_for_a_load_of_everything() {
    for is_anywhere in [false, true] {
        let mut it = Listening::new(&["a.json", "b.json", "c.json", "groups/g/d.json"]);
        let write = |file: &str, names: &[&str]| {
            let all: Vec<_> = names.iter().map(|name| cluster(name)).collect();
            fs::write(it.dir.path().join(file), format!("[{}]", all.join(","))).unwrap();
        };
        fs::rename(it.dir.path().join("groups/g"), it.dir.path().join("groups/h")).unwrap();
        write("new.json", &["new"]);
        fs::remove_file(it.dir.path().join("c.json")).unwrap();
        write("a.json", &["a.json", "more"]);
        write("b.json", &["c.json", "b.json"]);
        let (recorded, changes) = it.recorded();
        assert_eq!(changes, None, "a scan is needed");
        match is_anywhere {
            true => it.directory.change_log.record_anywhere(),
            false => it.directory.change_log.put_back(recorded.clone()),
        }
        let report = it.directory.load_known_files().unwrap();
        assert_eq!(report.faults, []);
        let names = ["a.json", "b.json", "c.json", "more"];
        assert_eq!(it.names(), names, "nothing goes, and nothing is in two places");
        assert!(it.directory.catalog.snapshot(Some("g"), None).is_some());
        assert_eq!(it.directory.load_known_files(), None, "once");
        assert!(is_anywhere || it.directory.change_log.pending() == recorded);
        assert!(it.directory.attempt().is_some());
        assert_eq!(it.names(), ["a.json", "b.json", "c.json", "more", "new"]);
        assert!(it.directory.catalog.layer(&Layer::Group("g".into())).is_none());
    }
}

#[test]
fn of_a_known_file_that_is_written_or_lacks_a_name_nothing_is_loaded_early() {
    let mut it = Listening::new(&["a.json", "b.json", "groups/g/c.json"]);
    fs::rename(it.dir.path().join("groups/g"), it.dir.path().join("groups/h")).unwrap();
    fs::write(it.dir.path().join("a.json"), cluster("other")).unwrap();
    fs::write(it.dir.path().join("b.json"), "{").unwrap();
    let (recorded, _) = it.recorded();
    it.directory.change_log.put_back(recorded);
    assert_eq!(it.directory.load_known_files(), None);
    fs::write(it.dir.path().join("a.json"), cluster("a.json") + "\n").unwrap();
    let hour = Duration::from_secs(3600);
    (it.directory.options.settle, it.directory.options.settle_bound) = (hour, hour);
    assert_eq!(it.directory.load_known_files(), None);
}

/// A directory of which a file must have been as it is for an hour.
fn patient(files: &[&str]) -> Listening {
    let mut it = Listening::new(files);
    let hour = Duration::from_secs(3600);
    (it.directory.options.settle, it.directory.options.settle_bound) = (hour, hour);
    it
}

#[test]
fn a_file_that_is_away_for_a_moment_is_not_removed() {
    // S-057
    for whole in [false, true] {
        let mut it = patient(&["a.json", "b.json", "groups/g/c.json"]);
        let attempt = |it: &mut Listening| {
            if whole {
                it.directory.change_log.record_anywhere();
            }
            let (report, is_partial) = it.directory.attempt_resting(false).unwrap();
            assert_eq!(report.faults, []);
            is_partial
        };
        // An editor keeps the old file under another name, and writes it anew.
        fs::rename(it.dir.path().join("a.json"), it.dir.path().join("a.json~")).unwrap();
        if whole {
            fs::remove_dir_all(it.dir.path().join("groups/g")).unwrap();
        }
        let (recorded, changes) = it.recorded();
        assert_eq!(changes.is_none(), whole);
        it.directory.change_log.put_back(recorded);
        for _ in 0..2 {
            assert!(attempt(&mut it), "it looks again");
            assert_eq!(it.names(), ["a.json", "b.json"]);
            let of_group = it.directory.catalog.snapshot(Some("g"), None).unwrap();
            assert_eq!(of_group.types().map(|url| of_group.set(url).len()).sum::<usize>(), 3);
        }
        fs::write(it.dir.path().join("a.json"), cluster("new")).unwrap();
        assert!(attempt(&mut it), "it may be half written");
        assert_eq!(it.names(), ["a.json", "b.json"]);
        it.directory.options.settle = Duration::ZERO;
        assert!(!attempt(&mut it));
        assert_eq!(it.names(), ["b.json", "new"]);
        let of_group = it.directory.catalog.snapshot(Some("g"), None).unwrap();
        let left = of_group.types().map(|url| of_group.set(url).len()).sum::<usize>();
        assert_eq!(left, if whole { 2 } else { 3 });
    }
}

#[test]
fn a_file_that_moves_is_not_in_two_places() {
    let mut it = patient(&["a.json", "b.json"]);
    fs::rename(it.dir.path().join("a.json"), it.dir.path().join("c.json")).unwrap();
    it.write("d.json");
    let (recorded, changes) = it.recorded();
    let changes = changes.unwrap();
    let now = it.directory.changes(&recorded).unwrap();
    let now = now.into_iter().map(|now| (Arc::clone(&now.path), now)).collect();
    let read: Vec<_> =
        changes.into_iter().map(|change| (it.directory.read_changed(&change), change)).collect();
    // By its stamp the new file rests. It is not known since when the old one is missing.
    let hours = Duration::from_secs(7200);
    let moment = Moment { at: Instant::now(), time: Some(SystemTime::now() + hours) };
    let mut look = it.directory.unsettled.look(moment, it.directory.options.quiet());
    let last = it.directory.last.as_ref().unwrap();
    let (resting, moving) = last.resting_changes(read, &now, false, &mut look);
    let name = |path: &Arc<Path>| path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(moving.iter().map(name).collect::<Vec<_>>(), ["a.json", "c.json"]);
    let resting: Vec<_> = resting.iter().map(|(_, change)| name(&change.path)).collect();
    assert_eq!(resting, ["d.json"]);
    // The same holds for a load of everything.
    let mut reading = it.directory.read();
    let mut look = it.directory.unsettled.look(moment, it.directory.options.quiet());
    let now = reading.listing.clone();
    let moving = reading.leave_moving(&now, it.directory.last.as_ref(), false, &mut look);
    assert_eq!(moving.iter().map(name).collect::<Vec<_>>(), ["a.json", "c.json"]);
}

#[test]
fn after_a_whole_load_only_what_moved_is_looked_at_again() {
    let mut it = patient(&["a.json", "b.json"]);
    it.write("deep/c.json");
    it.recorded();
    it.directory.change_log.record_anywhere();
    let (_, is_partial) = it.directory.attempt_resting(false).unwrap();
    assert!(is_partial);
    let moved = it.dir.path().canonicalize().unwrap().join("deep/c.json");
    assert_eq!(it.directory.change_log.pending(), ChangedPlaces::At([moved].into()));
}

#[test]
fn a_directory_that_fills_again_is_not_taken_by_halves() {
    // S-057: a script between `rm` and `cp`
    let mut it = patient(&["a.json", "b.json"]);
    for file in ["a.json", "b.json"] {
        fs::remove_file(it.dir.path().join(file)).unwrap();
    }
    it.directory.change_log.record_anywhere();
    assert_eq!(it.directory.attempt().unwrap().faults.len(), 1);
    it.write("a.json");
    it.directory.change_log.record_anywhere();
    assert!(it.directory.attempt_resting(false).is_none());
    assert_eq!(it.names(), ["a.json", "b.json"]);
    it.directory.options.settle = Duration::ZERO;
    assert!(it.directory.attempt_resting(false).is_some());
    assert_eq!(it.names(), ["a.json"]);
}

#[test]
fn a_directory_that_becomes_a_symlink_lends_its_place_to_no_other_file() {
    // S-138
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for place in ["conf/sub", "conf/other", "outside"] {
        fs::create_dir_all(root.join(place)).unwrap();
        fs::write(root.join(place).join("a.json"), "hash").unwrap();
    }
    let mut directory = Directory::new(Options::new(root.join("conf")), Schema::bundled());
    let listing = directory.peek();
    let mut found = listing.files.last().unwrap().clone();
    assert!(found.is_ours && found.path.ends_with("sub/a.json"));
    fs::remove_dir_all(root.join("conf/sub")).unwrap();
    for (target, may_quote) in [("../outside", false), ("other", true)] {
        std::os::unix::fs::symlink(target, root.join("conf/sub")).unwrap();
        // The stamp was taken between the two.
        found.stamp = FileStamp::of(&fs::metadata(&found.path).unwrap());
        let Directory { cache, options, schema, .. } = &mut directory;
        let document = cache.read_one(&found, listing.places.top.as_deref(), options, schema);
        assert_eq!(format!("{:?}", document.faults).contains("hash"), may_quote);
        cache.forget(&found.path);
        fs::remove_file(root.join("conf/sub")).unwrap();
    }
}
