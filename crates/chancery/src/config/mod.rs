//! The configuration of the server itself: `chancery.yaml` at the top of the directory, overridden
//! by the environment and the command line.
//!
//! The structs are plain. An unknown key is refused with its place and the closest known key. The
//! groups and the gate are followed while the server runs; every other change needs a restart, and
//! the log says so. Not here: the resources, which `chancery-sources` reads.

mod address;
mod allow;
mod clients;
mod csds;
mod external;
mod file;
mod flags;
mod gate;
mod groups;
mod limits;
mod list;
mod load;
mod load_reports;
mod network;
mod pattern;
mod resource_flags;
mod socket_mode;
mod status;
mod units;
mod version;

use std::path::{Path, PathBuf};

use chancery_server::AvailableMemory;
use chancery_sources::Options;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use self::clients::DeclaredClients;
pub(crate) use self::clients::SeenGroups;
use self::pattern::Patterns;

pub(crate) use address::{AdminAddress, ListenAddress};
pub(crate) use allow::AllowedCodes;
pub(crate) use csds::CsdsAccess;
pub(crate) use external::ExternalNames;
pub(crate) use file::{ConfigChange, ConfigFile};
pub(crate) use flags::ServeFlags;
pub(crate) use gate::{GateConfig, GateMode};
pub(crate) use groups::{Decision, GroupRules};
pub(crate) use limits::LimitsTable;
pub(crate) use load::{FILE, FileContent, InvalidConfig, parsed};
pub(crate) use load_reports::LoadReportsTable;
pub(crate) use resource_flags::ResourceFlags;
pub(crate) use socket_mode::SocketMode;
pub(crate) use status::StatusTable;
pub(crate) use units::{Size, Span};

/// The whole of `chancery.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct Config {
    /// The addresses of gRPC and REST. Default: `127.0.0.1:18000`.
    #[serde(deserialize_with = "list::addresses")]
    pub(crate) listen: Vec<ListenAddress>,
    /// The mode of the files of Unix sockets in `listen`. Default: `0600`, for processes of the same
    /// user.
    pub(crate) unix_mode: SocketMode,
    /// The address of `/ready`, `/healthz`, `/metrics` and the API, or `off`. Default:
    /// `127.0.0.1:18080`. The API is for processes on the same machine, and for those whom `admin-tls` and `admin-tokens` let in.
    pub(crate) admin: AdminAddress,
    /// The names under which the admin interface is asked, as in `Host`, besides `localhost` and IP
    /// addresses. Default: none.
    #[serde(deserialize_with = "list::texts")]
    pub(crate) admin_hosts: Vec<String>,
    /// TLS for those who ask the admin interface from other machines. Default: none, and the API is for
    /// processes on the same machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin_tls: Option<TlsTable>,
    /// The file with the tokens of those who may read the API from other machines. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin_tokens: Option<PathBuf>,
    /// TLS for all TCP listeners. Default: none, which is for loopback and trusted networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<TlsTable>,
    /// The rules that assign nodes to groups; the first rule that matches decides. Default: none.
    /// A change takes effect without a restart.
    pub(crate) groups: GroupRules,
    /// The resources of a node that no rule matches. Default: `base`. A change takes effect without
    /// a restart.
    pub(crate) unmatched: Decision,
    /// The resources of a client whose first request has no node id (S-024). Default: `base`, as for
    /// a node that no rule matches; `refuse` where every client should have a group of its own. A
    /// change takes effect without a restart.
    pub(crate) anonymous: Decision,
    /// Patterns for names that all clients know and no file has, as of a cluster in their bootstrap. A
    /// reference to one is not warned of. Default: none. A change takes effect without a restart.
    #[serde(skip_serializing_if = "Patterns::is_empty")]
    pub(crate) external: Patterns,
    /// The clients of all groups that say nothing else: `envoy`, `envoy=1.36`, `grpc`. Default: `envoy`, of
    /// any version. A change takes effect without a restart.
    #[serde(skip_serializing_if = "DeclaredClients::is_empty")]
    pub(crate) clients: DeclaredClients,
    /// Codes of findings that nobody wants to hear of, in `serve` and in `check`, each with a reason.
    /// Default: none. A change takes effect without a restart.
    #[serde(skip_serializing_if = "AllowedCodes::is_empty")]
    pub(crate) allow: AllowedCodes,
    /// Files and directories that are not read, by name or by path below the directory.
    /// Default: none.
    pub(crate) ignore: Vec<PathBuf>,
    /// Files with more message types, as `FileDescriptorSet`. Default: none.
    pub(crate) descriptor_sets: Vec<PathBuf>,
    /// True if the v2 services and types are served too. Default: false.
    pub(crate) enable_v2: bool,
    /// False if the server does not start while any file has a fault. Default: true; it starts and serves
    /// every node that does not use such files, and the others by `state`.
    pub(crate) allow_partial: bool,
    /// The directory in which the last good state is kept over a restart. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<PathBuf>,
    /// The way in which changes of files are noticed: `events`, or `sweeps` alone for network
    /// filesystems, which report local changes only. Default: `events`.
    pub(crate) watch: ChangeDetection,
    /// True if secrets may go to any client. Default: false; secrets then go only over mutual TLS, a
    /// Unix socket or loopback (S-137).
    pub(crate) secrets_anywhere: bool,
    /// The name that clients see as `control_plane.identifier`. Default: `chancery-` and a random
    /// number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) control_plane: Option<String>,
    /// The checks that hold something back before it is served.
    pub(crate) gate: GateConfig,
    /// The load reports of clients.
    pub(crate) load_reports: LoadReportsTable,
    /// The peers that may ask on the discovery port how clients stand (CSDS): `off`, `local` or `certified`.
    /// Default: `local`.
    pub(crate) csds: CsdsAccess,
    /// The bounds of what is remembered of clients.
    pub(crate) status: StatusTable,
    /// The form and the level of log lines.
    pub(crate) log: LogTable,
    /// The waits and limits.
    pub(crate) limits: LimitsTable,
}

/// The `tls` table. Relative paths start at the directory of `chancery.yaml`, and the files are
/// read again when they change.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct TlsTable {
    /// The certificate chain, PEM. Required.
    pub(crate) cert: PathBuf,
    /// The private key, PEM. Required.
    pub(crate) key: PathBuf,
    /// The authorities that sign the certificates of clients, PEM. Default: none, and clients need
    /// no certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca: Option<PathBuf>,
    /// The lists of certificates of clients that their authorities revoked, PEM. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "list::texts")]
    pub(crate) client_crl: Vec<PathBuf>,
}

/// The way in which changes of files are noticed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChangeDetection {
    /// By events of the operating system; a sweep finds the changes that had no event.
    #[default]
    Events,
    /// By sweeps alone.
    Sweeps,
}

/// The `log` table.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct LogTable {
    /// The form of a line. Default: `text`.
    pub(crate) format: LogFormat,
    /// The level of the least important lines that are still written. Default: `info`. `debug`
    /// writes every request and response.
    pub(crate) level: LogLevel,
    /// The bytes of lines that wait for whoever reads stderr; lines for which there is no room are
    /// dropped and counted. Default: 4MiB.
    pub(crate) buffer: Size,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One object per line.
    Json,
}

/// The importance of a log line.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogLevel {
    /// Errors that somebody has to repair.
    Error,
    /// Problems in spite of which the server goes on, too.
    Warn,
    /// Streams, loads of the directory and rejections, too.
    #[default]
    Info,
    /// Every request and response, too.
    Debug,
    /// Everything.
    Trace,
}

impl Default for LogTable {
    fn default() -> Self {
        let (format, level) = (LogFormat::default(), LogLevel::default());
        Self { format, level, buffer: Size(4 << 20) }
    }
}

impl Config {
    /// The settings of the transports.
    pub(crate) fn server(&self) -> chancery_server::Config {
        let defaults = chancery_server::Config::default();
        chancery_server::Config {
            control_plane: self.control_plane.clone().unwrap_or(defaults.control_plane),
            v2: self.enable_v2,
            secrets_anywhere: self.secrets_anywhere,
            protocol: self.limits.protocol(),
            limits: self.limits.server(),
            times: self.limits.times(),
            status: self.status.bounds(),
        }
    }

    /// The settings of the directory source.
    pub(crate) fn source(&self, dir: &Path) -> Options {
        let mut options = Options::new(dir);
        options.ignore.clone_from(&self.ignore);
        options.v2 = self.enable_v2;
        options.checks = self.checks();
        options.watch = match self.watch {
            ChangeDetection::Events => chancery_sources::Watch::Events,
            ChangeDetection::Sweeps => chancery_sources::Watch::Sweeps,
        };
        self.limits.apply_to(&mut options, AvailableMemory::of_this_process());
        options
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![ListenAddress::Tcp(([127, 0, 0, 1], 18000).into())],
            unix_mode: SocketMode::default(),
            admin: AdminAddress::default(),
            admin_hosts: Vec::new(),
            admin_tls: None,
            admin_tokens: None,
            tls: None,
            groups: GroupRules::default(),
            unmatched: Decision::Base,
            anonymous: Decision::Base,
            external: Patterns::default(),
            clients: DeclaredClients::default(),
            allow: AllowedCodes::default(),
            ignore: Vec::new(),
            descriptor_sets: Vec::new(),
            enable_v2: false,
            allow_partial: true,
            state: None,
            watch: ChangeDetection::default(),
            secrets_anywhere: false,
            control_plane: None,
            gate: GateConfig::default(),
            load_reports: LoadReportsTable::default(),
            csds: CsdsAccess::default(),
            status: StatusTable::default(),
            log: LogTable::default(),
            limits: LimitsTable::default(),
        }
    }
}
