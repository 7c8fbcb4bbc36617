//! The faults of a bootstrap, and their places.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why there is no bootstrap: either the environment or the author of the bootstrap has
/// to change something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// No bootstrap was given or found.
    #[error(
        "there is no bootstrap; give one in code, name its file in `GRPC_XDS_BOOTSTRAP`, or put the \
         JSON itself into `GRPC_XDS_BOOTSTRAP_CONFIG`"
    )]
    Missing,
    /// The file that `GRPC_XDS_BOOTSTRAP` names cannot be read.
    #[error("cannot read the bootstrap `{}`, which `GRPC_XDS_BOOTSTRAP` names", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The bootstrap is no JSON.
    #[error("{} is no JSON: {problem}", whose(.origin.as_deref()))]
    Json {
        /// The place where it was found; `None` if it was given in code.
        origin: Option<String>,
        /// The problem, with line and column.
        problem: String,
    },
    /// The bootstrap is JSON that no client can work with.
    #[error("{} cannot be used: {}", whose(.origin.as_deref()), list(.faults))]
    Invalid {
        /// The place where it was found; `None` if it was given in code.
        origin: Option<String>,
        /// All faults.
        faults: Vec<Fault>,
    },
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The path of the place, as in `xds_servers[1].channel_creds`. It is empty for the whole.
    pub path: String,
    /// The problem.
    pub problem: String,
}

impl BootstrapError {
    pub(crate) fn unless_empty(origin: Option<String>, faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self::Invalid { origin, faults }) }
    }

    /// Returns all faults. There are none if the text is no JSON or was not read at all.
    pub fn faults(&self) -> &[Fault] {
        match self {
            Self::Invalid { faults, .. } => faults,
            Self::Missing | Self::Read { .. } | Self::Json { .. } => &[],
        }
    }
}

impl Fault {
    pub(crate) fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.problem);
        }
        write!(f, "`{}` {}", self.path, self.problem)
    }
}

fn whose(origin: Option<&str>) -> String {
    origin
        .map_or_else(|| "the bootstrap".to_owned(), |origin| format!("the bootstrap in `{origin}`"))
}

fn list(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
