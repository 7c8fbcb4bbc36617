//! The flags of the clients, which all scenarios of `chancery bench` have.
//!
//! They become the plain options of `chancery_bench`; a doc comment of a field is text that users
//! read. Not here: the flags of single scenarios (`flags`), and the forms of single values
//! (`values`).

use std::path::PathBuf;
use std::time::Duration;

use chancery_bench::{NameCount, Node, Protocol, Server, SlowClients, TlsFiles, parse_type};
use chancery_core::TypeUrl;
use clap::{Args, ValueEnum};

use super::values::{named, pair, slow, span};

/// The clients, and the server they connect to.
#[derive(Args, Clone, Debug)]
pub(super) struct ClientArgs {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", help_heading = "Server")]
    pub(super) server: Server,

    /// The process of the server on this machine, to measure its CPU time and memory
    #[arg(long, value_name = "PID", help_heading = "Server")]
    pub(super) pid: Option<u32>,

    #[command(flatten)]
    pub(super) secure: Secure,

    /// The longest time for a connection, for the first answers, and for a round
    #[arg(long, default_value = "60s", value_parser = span, help_heading = "Server")]
    pub(super) timeout: Duration,

    /// The largest HTTP/2 frame the server may send, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16_384, help_heading = "Server")]
    #[arg(value_parser = clap::value_parser!(u32).range(16_384..=16_777_215))]
    pub(super) max_frame_size: u32,

    /// The number of clients; 100,1000,10000 makes three runs
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000")]
    #[arg(help_heading = "Clients", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) streams: Vec<u32>,

    /// The number of connections that the clients share [default: one for each client]
    #[arg(long, value_name = "N", help_heading = "Clients")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections: Option<u32>,

    /// The number of threads that the clients run on
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Clients")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) threads: u32,

    /// The variant of the protocol [default: delta, sotw for whole-state]
    #[arg(long, value_enum, help_heading = "Clients")]
    pub(super) protocol: Option<Variant>,

    /// Open one stream for each type, on the service of the type, instead of an aggregated stream
    #[arg(long, help_heading = "Clients")]
    pub(super) per_type: bool,

    /// The types that the clients subscribe to: cds, eds, lds, rds, … or type URLs; each change must be
    /// one of the first type
    #[arg(long, value_delimiter = ',', default_value = "eds", value_parser = parse_type)]
    #[arg(value_name = "TYPES", help_heading = "Clients")]
    pub(super) types: Vec<TypeUrl>,

    /// Subscribe to this number of names, of every type or, as in eds=100, of one type [default: all
    /// resources]
    #[arg(long, value_name = "[TYPE=]N", value_delimiter = ',', value_parser = named)]
    #[arg(help_heading = "Clients")]
    pub(super) names: Vec<NameCount>,

    /// The pattern of the names; {:06} stands for their number, from 0, with six digits
    #[arg(long, value_name = "PATTERN", default_value = "bench-{:06}", help_heading = "Clients")]
    pub(super) name_pattern: String,

    /// The request for all resources: an empty list of names, `*`, or the usual one for the type
    #[arg(long, value_enum, default_value_t = Wildcard::Auto, help_heading = "Clients")]
    pub(super) wildcard: Wildcard,

    /// The number of resources of each type with which the first answer is complete [default: all
    /// names, for delta with --names; otherwise one response]
    #[arg(long, value_name = "N", help_heading = "Clients")]
    pub(super) expect: Option<u32>,

    /// The node ids of the clients; {} stands for the number of the client
    #[arg(long, value_name = "ID", default_value = "bench-{}", help_heading = "Clients")]
    pub(super) node_id: String,

    /// Cluster of the nodes
    #[arg(long, value_name = "NAME", default_value = "bench", help_heading = "Clients")]
    pub(super) node_cluster: String,

    /// Metadata of the nodes, strings only; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, help_heading = "Clients")]
    pub(super) node_metadata: Vec<(String, String)>,

    /// Do not acknowledge responses; many servers then send no more, as the protocol allows
    #[arg(long, help_heading = "Manners")]
    pub(super) no_ack: bool,

    /// The number of clients that reject every response
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Manners")]
    pub(super) nack: u32,

    /// The number of clients that stop reading after their first answers; rounds do not wait for them
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Manners")]
    pub(super) stalled: u32,

    /// K clients read only BYTES bytes in each second; rounds do not wait for them
    #[arg(long, value_name = "K@BYTES", value_parser = slow, help_heading = "Manners")]
    pub(super) slow: Option<SlowClients>,

    /// Write all figures as JSON, to a file or, with -, to the standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,

    /// Draw the runs with several numbers of --streams as an SVG
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) svg: Option<PathBuf>,

    /// A name for this series of runs, which is saved in the JSON
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub(super) label: Option<String>,
}

/// TLS of the clients.
#[derive(Args, Clone, Debug)]
pub(super) struct Secure {
    /// Connect with TLS, and verify the server by --ca
    #[arg(long, requires = "ca", help_heading = "TLS")]
    pub(super) tls: bool,

    /// Certificate authorities for the server, PEM
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "TLS")]
    pub(super) ca: Option<PathBuf>,

    /// Certificate chain of the clients, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"], help_heading = "TLS")]
    pub(super) cert: Option<PathBuf>,

    /// Private key of the clients, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"], help_heading = "TLS")]
    pub(super) key: Option<PathBuf>,

    /// The name that the certificate of the server must have [default: the host of --server]
    #[arg(long, value_name = "NAME", requires = "tls", help_heading = "TLS")]
    pub(super) server_name: Option<String>,
}

/// The way in which everything is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Wildcard {
    /// An empty list for types where that is usual, like cds and lds, otherwise `*`
    Auto,
    /// An empty list of names
    Empty,
    /// The name `*`
    Star,
}

/// The variant of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Variant {
    /// State of the world
    Sotw,
    /// Incremental
    Delta,
}

impl ClientArgs {
    /// The flags as options.
    pub(super) fn options(&self) -> chancery_bench::Clients {
        chancery_bench::Clients {
            server: self.server.clone(),
            pid: self.pid,
            tls: self.secure.files(),
            timeout: self.timeout,
            max_frame_size: self.max_frame_size,
            connections: self.connections,
            threads: self.threads,
            protocol: self.protocol.map(Into::into),
            per_type: self.per_type,
            types: self.types.clone(),
            names: self.names.clone(),
            name_pattern: self.name_pattern.clone(),
            wildcard: self.wildcard.into(),
            expect: self.expect,
            node: Node {
                id: self.node_id.clone(),
                cluster: self.node_cluster.clone(),
                metadata: self.node_metadata.clone(),
            },
            no_ack: self.no_ack,
            nack: self.nack,
            stalled: self.stalled,
            slow: self.slow,
            label: self.label.clone(),
        }
    }
}

impl Secure {
    fn files(&self) -> Option<TlsFiles> {
        let identity = self.cert.clone().zip(self.key.clone());
        let server_name = self.server_name.clone();
        self.ca.clone().map(|ca| TlsFiles { ca, identity, server_name })
    }
}

impl From<Variant> for Protocol {
    fn from(variant: Variant) -> Self {
        match variant {
            Variant::Sotw => Self::Sotw,
            Variant::Delta => Self::Delta,
        }
    }
}

impl From<Wildcard> for chancery_bench::Wildcard {
    fn from(wildcard: Wildcard) -> Self {
        match wildcard {
            Wildcard::Auto => Self::Auto,
            Wildcard::Empty => Self::Empty,
            Wildcard::Star => Self::Star,
        }
    }
}
