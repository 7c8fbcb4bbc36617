//! Why a run could not be made.

use std::io;

use super::address::Server;

/// Why a run could not be made.
///
/// A run that was made and went wrong is no error: its report says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The options contradict each other.
    #[error("{0}")]
    Options(String),
    /// The name of the server cannot be looked up.
    #[error("cannot find `{server}`")]
    Lookup {
        /// The server as it was given.
        server: Server,
        /// The answer of the resolver.
        source: io::Error,
    },
    /// No client could connect to the server.
    #[error("cannot use the server at `{server}`: {reason}")]
    Unreachable {
        /// The server as it was given.
        server: String,
        /// The reason in words.
        reason: String,
    },
    /// The server did not send its resources to the client that asks for them before the others.
    #[error("the server did not say what it has in time")]
    Unanswered,
    /// The server's process cannot be looked at.
    #[error("process `{0}` cannot be looked at; is it running here?")]
    Process(u32),
    /// A file of the clients' TLS, or the name of the server in it, cannot be used.
    #[error("{0}")]
    Tls(String),
    /// The program that makes the changes cannot be reached.
    #[error("cannot reach the trigger at `{address}`")]
    Trigger {
        /// The address as it was given.
        address: String,
        /// The reason.
        source: io::Error,
    },
    /// The template of the file that is replaced cannot be read.
    #[error("cannot read `{path}`")]
    Template {
        /// The template's path.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// This process may open too few files for so many connections.
    #[error("{connections} connections need {needed} open files, and {allowed} are allowed")]
    OpenFiles {
        /// The number of connections.
        connections: usize,
        /// The number of files they need.
        needed: usize,
        /// The number of files the process may open.
        allowed: usize,
    },
    /// A thread for the clients cannot be started.
    #[error(transparent)]
    Thread(#[from] io::Error),
}

impl Error {
    /// Returns advice on what to do about it, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::OpenFiles { needed, .. } => {
                Some(format!("type `ulimit -n {needed}` before, here and for the server"))
            }
            _ => None,
        }
    }
}
