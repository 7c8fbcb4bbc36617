//! The error of a watch: why there is no value, or why the value it has may be old.

use std::fmt;
use std::sync::Arc;

use super::ids::ServerId;
use crate::ErrorDetail;

/// The reason why a resource is not there, or not up to date. The text names the node, the resource
/// and the server, as far as there are any (C-072).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchError {
    /// Whose fault it is, and of what kind.
    pub kind: ErrorKind,
    /// For people.
    pub text: Arc<str>,
    /// The server that is concerned.
    pub server: Option<ServerId>,
    /// True if a resource was rejected that nobody can name, so that it may be another one. A later
    /// response may bring the one that is watched.
    pub is_nameless: bool,
}

/// The kinds of trouble a watcher can hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's: the name is no name, or of another type.
    Name,
    /// The caller's, or the bootstrap's: nobody is responsible for the name (C-018, C-079).
    Authority,
    /// No server can be reached (C-067).
    Unreachable,
    /// The server says, or lets it be seen, that there is no such resource.
    Missing,
    /// The server did not answer in time, and is one whose silence means nothing (C-066), or said
    /// that more of a collection comes (S-110).
    Late,
    /// The resource cannot be used: it was rejected (C-063).
    Rejected,
    /// The server gave a reason, with this gRPC code, not to give it (C-071).
    Refused(i32),
    /// The client itself has come to an end (C-074).
    Broken,
}

impl WatchError {
    /// Returns true if there is no such resource, as far as anybody can tell.
    pub fn is_missing(&self) -> bool {
        matches!(self.kind, ErrorKind::Missing | ErrorKind::Refused(ErrorDetail::NOT_FOUND))
    }

    /// The client itself has come to an end (C-074).
    pub fn broken(why: &str) -> Self {
        Self { kind: ErrorKind::Broken, text: why.into(), server: None, is_nameless: false }
    }
}

impl ErrorKind {
    /// The gRPC code that an RPC fails with for want of the resource: never the code that the
    /// server sent (C-072).
    pub fn code(self) -> i32 {
        match self {
            Self::Name => ErrorDetail::INVALID_ARGUMENT,
            Self::Authority
            | Self::Unreachable
            | Self::Missing
            | Self::Late
            | Self::Rejected
            | Self::Refused(_)
            | Self::Broken => ErrorDetail::UNAVAILABLE,
        }
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for WatchError {}
