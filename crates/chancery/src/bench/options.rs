//! The options of a run, as plain values: the scenario, the clients and the server.
//!
//! Not here: the flags of the command and their defaults, which become these values.

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::TypeUrl;

use super::target::Server;
use super::xds::{Node, Protocol};

/// The options of a run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The part of the run that is measured.
    pub(crate) scenario: Scenario,
    /// The clients and the server they connect to.
    pub(crate) clients: Clients,
}

/// The part of a run that is measured.
#[derive(Clone, Debug)]
pub(crate) enum Scenario {
    /// One change to many streams, again and again.
    FanOut(Rounds),
    /// The same in the state of the world.
    WholeState(Rounds),
    /// The same beside clients that read slowly or not at all.
    SlowReaders(Rounds),
    /// The same for a server that follows a file.
    FileChange(Rounds),
    /// Changes at a steady rate, whether the clients keep up or not.
    Churn(Churn),
    /// Many clients at once, until each has its first answer.
    ColdStart {
        /// Time is measured from before connecting, and not from the first requests.
        connect: bool,
    },
    /// Clients that come back with the versions of everything they had.
    Reconnect(Reconnect),
    /// Streams on which nothing happens.
    Idle {
        /// The time during which nothing is done.
        duration: Duration,
    },
}

/// Rounds of one change each.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    /// The way a change is made.
    pub(crate) change: Change,
    /// The number of changes that are measured.
    pub(crate) rounds: usize,
    /// The number of changes before those.
    pub(crate) warmup: usize,
    /// The time before each change during which nothing happens.
    pub(crate) gap: Duration,
}

/// Changes at a steady rate.
#[derive(Clone, Debug)]
pub(crate) struct Churn {
    /// The way a change is made.
    pub(crate) change: Change,
    /// The number of changes in a second.
    pub(crate) rate: f64,
    /// The time during which changes are made.
    pub(crate) duration: Duration,
}

/// Clients that come back with the versions of everything they had.
#[derive(Clone, Debug)]
pub(crate) struct Reconnect {
    /// Time is measured from before connecting, and not from the first requests.
    pub(crate) connect: bool,
    /// The type that every client asks for last; by default one that it does not ask for anyway.
    pub(crate) probe: Option<TypeUrl>,
}

/// The way a change is made in the server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The line `change` is sent to this address; the answer `ok` says that it is made.
    Tcp(String),
    /// A command is run by `sh`.
    Exec(String),
    /// A file is replaced.
    File {
        /// The file's path.
        path: PathBuf,
        /// A file with its content, in which `{n}` stands for the number of the change.
        template: PathBuf,
    },
}

/// The clients of a run and the server they connect to.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    /// The server.
    pub(crate) server: Server,
    /// The server's process on this machine, whose CPU time and memory are reported.
    pub(crate) pid: Option<u32>,
    /// The files of TLS; without them the connections are in clear text.
    pub(crate) tls: Option<TlsFiles>,
    /// The longest wait for any one thing: a connection, the first answers, a round.
    pub(crate) timeout: Duration,
    /// The largest HTTP/2 frame the server may send, in bytes.
    pub(crate) max_frame_size: u32,
    /// The number of connections; by default each client has one of its own.
    pub(crate) connections: Option<u32>,
    /// The number of threads the clients run on.
    pub(crate) threads: u32,
    /// The variant of the protocol; by default the one that is usual for the scenario.
    pub(crate) protocol: Option<Protocol>,
    /// Each type is asked for on a stream of its own service.
    pub(crate) per_type: bool,
    /// The types the clients ask for; changes are waited for in the first.
    pub(crate) types: Vec<TypeUrl>,
    /// The numbers of names the clients ask for; by default they ask for everything.
    pub(crate) names: Vec<NameCount>,
    /// The pattern of the names; `{:06}` stands for the number of the name, with six digits.
    pub(crate) name_pattern: String,
    /// The way in which everything is asked for.
    pub(crate) wildcard: Wildcard,
    /// The number of resources of each type that make the first answer complete.
    pub(crate) expect: Option<u32>,
    /// The node the clients say they are.
    pub(crate) node: Node,
    /// The clients answer no response.
    pub(crate) no_ack: bool,
    /// The number of clients that reject every response.
    pub(crate) nack: u32,
    /// The number of clients that stop reading after their first answers.
    pub(crate) stalled: u32,
    /// The clients that read slowly.
    pub(crate) slow: Option<SlowClients>,
    /// A name for a series of runs, which is kept in the report.
    pub(crate) label: Option<String>,
}

/// The files of the clients' TLS.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    /// The certificates of the authorities that vouch for the server, PEM.
    pub(crate) ca: PathBuf,
    /// The certificate chain of the clients and its private key, PEM.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// The name in the server's certificate; by default the host of the server's address.
    pub(crate) server_name: Option<String>,
}

/// The number of names that are asked for, of one type or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameCount {
    /// The type; all types without it.
    pub(crate) url: Option<TypeUrl>,
    /// The number of names.
    pub(crate) count: u32,
}

/// The way in which everything is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wildcard {
    /// An empty list for types where that is usual, like cds and lds, otherwise `*`.
    Auto,
    /// An empty list.
    Empty,
    /// The name `*`.
    Star,
}

/// Clients that read slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlowClients {
    /// The number of clients.
    pub(crate) count: u32,
    /// The number of bytes that each of them reads in a second.
    pub(crate) bytes_per_second: u32,
}
