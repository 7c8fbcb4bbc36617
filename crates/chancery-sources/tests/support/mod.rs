//! A directory to write into, and a follower of it whose reports can be waited for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use chancery_catalog::Catalog;
use chancery_core::{ResourceName, Snapshot, TypeUrl, Version};
use chancery_proto::schema::Schema;
use chancery_sources::{Directory, Following, LoadReport, Options};
use tempfile::TempDir;

/// A directory of configuration, `conf`, in a temporary one.
pub(crate) struct Tree {
    outer: TempDir,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("conf")).unwrap();
        Self { outer }
    }

    /// A tree with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let tree = Self::new();
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    /// The directory given to the source.
    pub(crate) fn conf(&self) -> PathBuf {
        self.outer.path().join("conf")
    }

    /// Its neighbour of that name.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.outer.path().join(name)
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.conf().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        write(&self.at(path), text);
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.at(path)).unwrap();
    }

    /// Only what the system tells is noticed: a sweep would hide what it does not.
    pub(crate) fn options(&self) -> Options {
        Options { sweep: Duration::from_secs(3600), ..Options::new(self.conf()) }
    }

    pub(crate) fn directory(&self) -> Directory {
        Directory::new(self.options(), Schema::bundled())
    }

    /// The catalog and the report of a load of the directory.
    pub(crate) fn load(&self) -> (Catalog, LoadReport) {
        let mut directory = self.directory();
        let report = directory.load();
        (directory.catalog(), report)
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A follower, and what it told.
pub(crate) struct Followed {
    pub(crate) catalog: Catalog,
    pub(crate) following: Following,
    reports: Receiver<(LoadReport, Vec<String>)>,
}

impl Followed {
    pub(crate) fn new(options: Options) -> Self {
        let directory = Directory::new(options, Schema::bundled());
        let catalog = directory.catalog();
        let (sender, reports) = channel();
        let seen = catalog.clone();
        let following = directory.follow(move |report| {
            let names = seen.snapshot(None, None).map(|snapshot| names(&snapshot));
            let _ = sender.send((report.clone(), names.unwrap_or_default()));
        });
        Self { catalog, following: following.unwrap(), reports }
    }

    /// The next report, and the names that base had then.
    #[track_caller]
    pub(crate) fn next(&self) -> (LoadReport, Vec<String>) {
        self.reports.recv_timeout(TIMEOUT).expect("the follower has something to tell")
    }

    /// Waits for a report after which this holds.
    #[track_caller]
    pub(crate) fn until(&self, holds: impl Fn(&LoadReport, &Catalog) -> bool) -> LoadReport {
        loop {
            let (report, _) = self.next();
            if holds(&report, &self.catalog) {
                return report;
            }
        }
    }

    /// Waits until this holds, which it may do already.
    #[track_caller]
    pub(crate) fn settled(&self, holds: impl Fn(&Catalog) -> bool) {
        while !holds(&self.catalog) {
            self.next();
        }
    }

    /// Waits until base has these clusters.
    #[track_caller]
    pub(crate) fn until_named(&self, names: &[&str]) -> LoadReport {
        self.until(|_, catalog| named(catalog, None, None) == names)
    }

    /// Waits until the cluster has another version than this.
    #[track_caller]
    pub(crate) fn until_other(&self, name: &str, old: &Version) {
        self.until(|_, catalog| version(catalog, name) != Some(old.clone()));
    }
}

/// Far more than anything should take.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn cds() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

/// A cluster, as YAML. `seconds` makes it differ from others of its name.
pub(crate) fn cluster(name: &str, seconds: u32) -> String {
    format!(
        "\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n\
         name: {name}\n\
         connect_timeout: {seconds}s\n"
    )
}

/// Several documents in one file.
pub(crate) fn documents(all: &[String]) -> String {
    all.join("---\n")
}

/// A cluster that does not parse.
pub(crate) fn broken(name: &str) -> String {
    cluster(name, 1) + "nonsense: 1\n"
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot.set(&cds()).iter().map(|cluster| cluster.name().to_string()).collect()
}

/// The clusters an audience sees.
pub(crate) fn named(catalog: &Catalog, group: Option<&str>, node: Option<&str>) -> Vec<String> {
    catalog.snapshot(group, node).map(|snapshot| names(&snapshot)).unwrap_or_default()
}

/// The version of a cluster in base.
pub(crate) fn version(catalog: &Catalog, name: &str) -> Option<Version> {
    version_for(catalog, None, None, name)
}

pub(crate) fn version_for(
    catalog: &Catalog,
    group: Option<&str>,
    node: Option<&str>,
    name: &str,
) -> Option<Version> {
    let snapshot = catalog.snapshot(group, node)?;
    let name: ResourceName = name.parse().unwrap();
    let cluster = snapshot.set(&cds()).get(name.as_str())?;
    Some(cluster.version().clone())
}

pub(crate) fn schema() -> Schema {
    Schema::bundled()
}

/// Makes a FIFO, which std cannot do.
pub(crate) fn fifo(path: &Path) {
    let mut made = Command::new("mkfifo").arg(path).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while made.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "`mkfifo` has not ended");
        thread::park_timeout(Duration::from_millis(1));
    }
    assert!(path.symlink_metadata().is_ok());
}
