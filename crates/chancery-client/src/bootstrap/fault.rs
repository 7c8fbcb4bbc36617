//! What is wrong with a bootstrap, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no bootstrap: the environment's fault, or of who wrote it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BootstrapError {
    /// Nobody gave one.
    #[error(
        "there is no bootstrap; give one in code, name its file in `GRPC_XDS_BOOTSTRAP`, or put the \
         JSON itself into `GRPC_XDS_BOOTSTRAP_CONFIG`"
    )]
    Missing,
    /// The file that `GRPC_XDS_BOOTSTRAP` names cannot be read.
    #[error("cannot read the bootstrap `{}`, which `GRPC_XDS_BOOTSTRAP` names", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not JSON at all.
    #[error("{} is no JSON: {problem}", whose(.origin.as_deref()))]
    Json {
        /// Where it was found; `None` if it was given in code.
        origin: Option<String>,
        /// What is wrong, with line and column.
        problem: String,
    },
    /// It says what a client cannot work with.
    #[error("{} cannot be used: {}", whose(.origin.as_deref()), list(.faults))]
    Invalid {
        /// Where it was found; `None` if it was given in code.
        origin: Option<String>,
        /// Everything that is wrong.
        faults: Vec<Fault>,
    },
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Where, as in `xds_servers[1].channel_creds`. Empty for the whole.
    pub path: String,
    /// What.
    pub problem: String,
}

impl BootstrapError {
    pub(crate) fn unless_empty(origin: Option<String>, faults: Vec<Fault>) -> Result<(), Self> {
        if faults.is_empty() { Ok(()) } else { Err(Self::Invalid { origin, faults }) }
    }

    /// All that is wrong with what the bootstrap says; empty if it was not read that far.
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
