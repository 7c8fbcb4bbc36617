//! The settings of reading a directory: limits and waits, each with a name and a default.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chancery_catalog::Layer;
use chancery_proto::document::Checks;

use crate::allowance;

/// The settings of reading and following a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The directory. All files below it are read as configuration.
    pub directory: PathBuf,
    /// Files and directories that are not read, by name or by path below the directory: for example
    /// an Envoy bootstrap that lies beside the resources. Default: none.
    pub ignore: Vec<PathBuf>,
    /// True to offer resources under their v2 types too (S-010). Default: false.
    pub v2: bool,
    /// The checks of resources that can be used all the same. Default: none.
    pub checks: LayerChecks,
    /// True if a rule that is a fault by these checks holds back its layer like any other fault.
    /// Otherwise [`LoadReport::violations`](crate::LoadReport::violations) lists it. Default: true.
    pub hold_violations: bool,
    /// The limit for the size of a file in bytes. A larger file is a fault. Default: 64 MiB.
    pub max_file_bytes: u64,
    /// The limit for the number of files. Of directories there may be twice as many, and 1,000 in
    /// any case. With more of either, nothing is loaded. Default: 100,000.
    pub max_files: usize,
    /// The limit for the bytes of all files together. A file counts under each of its names, and one
    /// that is larger than a file may be does not count. With more, nothing is loaded. Default: 4
    /// GiB.
    pub max_directory_bytes: u64,
    /// The time without changes after which a changed directory is read. Default: 100 ms.
    pub settle: Duration,
    /// The longest time to wait for that. After it, the files that rest are loaded. It counts as
    /// twice `settle` if it is shorter, where `settle` counts as this bound at most. Default: 500
    /// ms, so that a change is served within a second.
    pub settle_bound: Duration,
    /// The way changes are noticed. Default: by events.
    pub watch: Watch,
    /// The time between two sweeps, which look at all files for changes that no event reported. A
    /// sweep reads only sizes and times, not content. It may take 1/200 of the time, and 1/20 where
    /// it is unknown if events report everything, and is made every two minutes however long it
    /// takes. Default: 2 s.
    pub sweep: Duration,
}

/// The way changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// The system reports changes; a sweep finds those it did not report.
    #[default]
    Events,
    /// By sweeps alone: for network filesystems, which report local changes only. Use it with a
    /// short [`Options::sweep`].
    Sweeps,
}

/// The checks of each layer: the clients that get one may be others than those that get another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerChecks {
    /// The checks of base, and of the overlays of nodes, whose groups nobody knows.
    pub shared: Checks,
    /// Those of groups.
    pub groups: BTreeMap<Arc<str>, Checks>,
    /// Those of all other groups.
    pub other_groups: Checks,
    /// The codes and classes of findings about messages that nobody wants to hear of.
    pub allowed: BTreeSet<String>,
}

impl LayerChecks {
    /// Returns true if nobody wants to hear of findings of this code.
    pub(crate) fn allow(&self, code: &str) -> bool {
        self.allowed.iter().any(|allowed| allowance::is_of(code, allowed))
    }

    /// The checks of a layer.
    pub fn of(&self, layer: &Layer) -> Checks {
        match layer {
            Layer::Base | Layer::Node(_) => self.shared,
            Layer::Group(name) => *self.groups.get(name).unwrap_or(&self.other_groups),
        }
    }
}

/// The same checks for all layers.
impl From<Checks> for LayerChecks {
    fn from(checks: Checks) -> Self {
        Self { shared: checks, other_groups: checks, ..Self::default() }
    }
}

impl Options {
    /// The time without changes after which a directory or a file is quiet.
    pub(crate) fn quiet(&self) -> Duration {
        self.settle.min(self.settle_bound)
    }

    /// The longest time to wait for a quiet directory. A change has mostly several events, so the
    /// silence may begin late.
    pub(crate) fn bound(&self) -> Duration {
        self.settle_bound.max(self.quiet().saturating_mul(2))
    }

    /// The defaults, for this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            ignore: Vec::new(),
            v2: false,
            checks: LayerChecks::default(),
            hold_violations: true,
            max_file_bytes: 64 * 1024 * 1024,
            max_files: 100_000,
            max_directory_bytes: 4 << 30,
            settle: Duration::from_millis(100),
            settle_bound: Duration::from_millis(500),
            watch: Watch::default(),
            sweep: Duration::from_secs(2),
        }
    }
}
