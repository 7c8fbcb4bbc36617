//! What can be set about reading a directory: limits and waits, each with a name and a default.

use std::path::PathBuf;
use std::time::Duration;

/// How a directory is read and followed.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The directory. All files below it are configuration.
    pub directory: PathBuf,
    /// Files and directories that are none of ours, by name or by path below the directory: an
    /// Envoy bootstrap that lies beside the resources, say. Default: none.
    pub ignore: Vec<PathBuf>,
    /// Whether resources are offered under their v2 types too (S-010). Default: no.
    pub v2: bool,
    /// A larger file is a fault. Default: 64 MiB.
    pub max_file_bytes: u64,
    /// More files than this, and nothing is loaded. Default: 100,000.
    pub max_files: usize,
    /// How long a changed directory must be quiet before it is read. Default: 100 ms.
    pub settle: Duration,
    /// How long a directory that does not become quiet is waited for. Default: 500 ms, so that a
    /// change is live within a second.
    pub settle_bound: Duration,
    /// How changes are noticed. Default: by events.
    pub watch: Watch,
    /// How often all files are looked at for changes that no event told of. A sweep reads no
    /// file, only its size and times; it may take 1/20 of the time. Default: 2 s.
    pub sweep: Duration,
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// The system tells of changes; a sweep cures what it did not tell.
    #[default]
    Events,
    /// By sweeps alone: for network filesystems, which tell of local changes only. Use it with a
    /// short [`Options::sweep`].
    Sweeps,
}

impl Options {
    /// The defaults, for this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            ignore: Vec::new(),
            v2: false,
            max_file_bytes: 64 * 1024 * 1024,
            max_files: 100_000,
            settle: Duration::from_millis(100),
            settle_bound: Duration::from_millis(500),
            watch: Watch::default(),
            sweep: Duration::from_secs(2),
        }
    }
}
