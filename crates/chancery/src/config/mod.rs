//! The configuration of the server itself: `chancery.yaml` at the top of the directory, and what
//! the command line and the environment say over it.
//!
//! Plain structs; an unknown key is refused with its place and the closest known one. The groups
//! are followed while the server runs; what else changes needs a restart, and is said to.

mod address;
mod file;
mod groups;
mod limits;
mod load;
mod pattern;
mod units;
mod version;

use std::path::{Path, PathBuf};

use chancery_sources::Options;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub(crate) use address::{AdminAddress, ListenAddress};
pub(crate) use file::{ConfigChange, ConfigFile};
pub(crate) use groups::{Decision, GroupRule};
pub(crate) use limits::LimitsTable;
pub(crate) use load::{InvalidConfig, effective};
pub(crate) use units::Span;

/// The whole of `chancery.yaml`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// Where gRPC and REST are served. Default: `127.0.0.1:18000`.
    #[serde(deserialize_with = "address::one_or_many")]
    pub(crate) listen: Vec<ListenAddress>,
    /// Where `/ready`, `/healthz`, `/config` and `/metrics` are served, or `off`. Default:
    /// `127.0.0.1:18080`. There is no login: keep it where only operators come.
    pub(crate) admin: AdminAddress,
    /// TLS for all TCP listeners. Default: none, which is for loopback and trusted networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tls: Option<TlsTable>,
    /// Who belongs to which group: the first rule that matches decides. Default: none. Followed
    /// live.
    pub(crate) groups: Vec<GroupRule>,
    /// What a node is given that no rule matches. Default: `base`. Followed live.
    pub(crate) unmatched: Decision,
    /// What a client is given that does not say who it is (S-024). Default: `base`, as for a node
    /// no rule matches; `refuse` where every client should have something of its own. Followed
    /// live.
    pub(crate) anonymous: Decision,
    /// Files and directories that hold no resources, by name or by path below the directory.
    /// Default: none.
    pub(crate) ignore: Vec<PathBuf>,
    /// Files with more message types, as `FileDescriptorSet`. Default: none.
    pub(crate) descriptor_sets: Vec<PathBuf>,
    /// Whether the v2 services and types are served too. Default: no.
    pub(crate) enable_v2: bool,
    /// Whether to start although files are broken, and serve what is whole. Default: no.
    pub(crate) allow_partial: bool,
    /// How changes are noticed: `events`, or `sweeps` alone for network filesystems, which tell
    /// of local changes only. Default: `events`.
    pub(crate) watch: ChangeDetection,
    /// Whether secrets may go to any client. Default: no; then only over mutual TLS, a Unix
    /// socket or loopback (S-137).
    pub(crate) secrets_anywhere: bool,
    /// What the server calls itself to clients. Default: `chancery-` and a random number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) control_plane: Option<String>,
    /// Log lines.
    pub(crate) log: LogTable,
    /// Waits and limits.
    pub(crate) limits: LimitsTable,
}

/// The `tls` table. Files are found from the directory of `chancery.yaml`, and read again when
/// they change.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TlsTable {
    /// The certificate chain, PEM. Required.
    pub(crate) cert: PathBuf,
    /// The private key, PEM. Required.
    pub(crate) key: PathBuf,
    /// Who signs the certificates of clients, PEM. Default: none, and clients need none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca: Option<PathBuf>,
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChangeDetection {
    /// The system tells of changes; a sweep cures what it did not tell.
    #[default]
    Events,
    /// By sweeps alone.
    Sweeps,
}

/// The `log` table.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct LogTable {
    /// How lines are written. Default: `text`.
    pub(crate) format: LogFormat,
    /// The least important lines still written. Default: `info`. `debug` tells of every exchange.
    pub(crate) level: LogLevel,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object per line.
    Json,
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogLevel {
    /// Something is lost until somebody acts.
    Error,
    /// Something is wrong, and the server goes on.
    Warn,
    /// Streams, loads, rejections.
    #[default]
    Info,
    /// Every exchange.
    Debug,
    /// Everything.
    Trace,
}

impl Config {
    /// What the transports are told.
    pub(crate) fn server(&self) -> chancery_server::Config {
        let defaults = chancery_server::Config::default();
        chancery_server::Config {
            control_plane: self.control_plane.clone().unwrap_or(defaults.control_plane),
            v2: self.enable_v2,
            secrets_anywhere: self.secrets_anywhere,
            protocol: self.limits.protocol(),
            limits: self.limits.server(),
            times: self.limits.times(),
        }
    }

    /// What the source is told.
    pub(crate) fn source(&self, dir: &Path) -> Options {
        let mut options = Options::new(dir);
        options.ignore.clone_from(&self.ignore);
        options.v2 = self.enable_v2;
        options.watch = match self.watch {
            ChangeDetection::Events => chancery_sources::Watch::Events,
            ChangeDetection::Sweeps => chancery_sources::Watch::Sweeps,
        };
        self.limits.apply_to(&mut options);
        options
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![ListenAddress::Tcp(([127, 0, 0, 1], 18000).into())],
            admin: AdminAddress::On(([127, 0, 0, 1], 18080).into()),
            tls: None,
            groups: Vec::new(),
            unmatched: Decision::Base,
            anonymous: Decision::Base,
            ignore: Vec::new(),
            descriptor_sets: Vec::new(),
            enable_v2: false,
            allow_partial: false,
            watch: ChangeDetection::default(),
            secrets_anywhere: false,
            control_plane: None,
            log: LogTable::default(),
            limits: LimitsTable::default(),
        }
    }
}
