//! The options of a run, as plain values: the scenario, the clients and the server.
//!
//! Not here: the flags of the command and their defaults, which become these values.

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::TypeUrl;

use super::address::Server;
use super::xds::{Node, Protocol};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The part of the run that is measured.
    pub scenario: Scenario,
    /// The clients and the server they connect to.
    pub clients: Clients,
}

/// The part of a run that is measured.
#[derive(Clone, Debug)]
pub enum Scenario {
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
    /// Clients that report their calls (LRS).
    LoadReports(LoadClients),
}

/// Rounds of one change each.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// The way a change is made.
    pub change: Change,
    /// The number of changes that are measured.
    pub rounds: usize,
    /// The number of changes before those.
    pub warmup: usize,
    /// The time before each change during which nothing happens.
    pub gap: Duration,
}

/// Changes at a steady rate.
#[derive(Clone, Debug)]
pub struct Churn {
    /// The way a change is made.
    pub change: Change,
    /// The number of changes in a second.
    pub rate: f64,
    /// The time during which changes are made.
    pub duration: Duration,
}

/// Clients that come back with the versions of everything they had.
#[derive(Clone, Debug)]
pub struct Reconnect {
    /// Time is measured from before connecting, and not from the first requests.
    pub connect: bool,
    /// The type that every client asks for last; by default one that it does not ask for anyway.
    pub probe: Option<TypeUrl>,
}

/// Clients that report their calls (LRS).
#[derive(Clone, Debug)]
pub struct LoadClients {
    /// The number of clusters that each of them reports.
    pub clusters: u32,
    /// The number of localities of each cluster.
    pub localities: u32,
    /// The time for which reports are counted.
    pub duration: Duration,
}

/// The way a change is made in the server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
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
pub struct Clients {
    /// The server.
    pub server: Server,
    /// The server's process on this machine, whose CPU time and memory are reported.
    pub pid: Option<u32>,
    /// The files of TLS; without them the connections are in clear text.
    pub tls: Option<TlsFiles>,
    /// The longest wait for any one thing: a connection, the first answers, a round.
    pub timeout: Duration,
    /// The largest HTTP/2 frame the server may send, in bytes.
    pub max_frame_size: u32,
    /// The number of connections; by default each client has one of its own.
    pub connections: Option<u32>,
    /// The number of threads the clients run on.
    pub threads: u32,
    /// The variant of the protocol; by default the one that is usual for the scenario.
    pub protocol: Option<Protocol>,
    /// Each type is asked for on a stream of its own service.
    pub per_type: bool,
    /// The types the clients ask for; changes are waited for in the first.
    pub types: Vec<TypeUrl>,
    /// The numbers of names the clients ask for; by default they ask for everything.
    pub names: Vec<NameCount>,
    /// The pattern of the names; `{:06}` stands for the number of the name, with six digits.
    pub name_pattern: String,
    /// The way in which everything is asked for.
    pub wildcard: Wildcard,
    /// The number of resources of each type that make the first answer complete.
    pub expect: Option<u32>,
    /// The node the clients say they are.
    pub node: Node,
    /// The clients answer no response.
    pub no_ack: bool,
    /// The number of clients that reject every response.
    pub nack: u32,
    /// The number of clients that stop reading after their first answers.
    pub stalled: u32,
    /// The clients that read slowly.
    pub slow: Option<SlowClients>,
    /// A name for a series of runs, which is kept in the report.
    pub label: Option<String>,
}

/// The files of the clients' TLS.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificates of the authorities that vouch for the server, PEM.
    pub ca: PathBuf,
    /// The certificate chain of the clients and its private key, PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name in the server's certificate; by default the host of the server's address.
    pub server_name: Option<String>,
}

/// The number of names that are asked for, of one type or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameCount {
    /// The type; all types without it.
    pub url: Option<TypeUrl>,
    /// The number of names.
    pub count: u32,
}

/// The way in which everything is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wildcard {
    /// An empty list for types where that is usual, like cds and lds, otherwise `*`.
    Auto,
    /// An empty list.
    Empty,
    /// The name `*`.
    Star,
}

/// Clients that read slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowClients {
    /// The number of clients.
    pub count: u32,
    /// The number of bytes that each of them reads in a second.
    pub bytes_per_second: u32,
}
