//! The flags of `chancery diff`: this struct is its help.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::admin_client::{AdminAccess, AdminServer, HEADING};
use crate::ask::{ServerArgs, TlsArgs};
use crate::config::{ResourceFlags, Span};

/// Tell what would change for the clients if a directory were served
///
/// Compares DIR with what is there now: with another directory, with DIR in a revision of git, or with
/// what clients of a server are given. Directories are read as `chancery serve` would read them, and
/// the resources are compared that each group, and each node with files of its own, would be given. A change is printed once, below those
/// who see it, with what clients will do where that is known. Private keys and other secrets are
/// left out. Differences are written to stdout, and the errors of a directory to stderr.
/// docs/diff.md describes the command.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct DiffArgs {
    /// The directory that would be served
    pub(super) dir: PathBuf,

    /// The directory that is served now
    #[arg(value_name = "OTHER", conflicts_with_all = ["git", "servers"])]
    #[arg(required_unless_present_any = ["git", "servers"])]
    pub(super) other: Option<PathBuf>,

    /// Compare with DIR as it was committed in this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "servers")]
    pub(super) git: Option<String>,

    /// Compare with what clients of this server are given now: HOST:PORT or unix:PATH of its discovery port;
    /// may be given several times: the next server is asked when those before it cannot be reached
    #[arg(long = "server", value_name = "ADDR", help_heading = "Server")]
    pub(super) servers: Vec<String>,

    /// Admin interface of the server (not its discovery port), IP:PORT or https://HOST:PORT, which knows the
    /// nodes; `off` asks for none [default: CHANCERY_ADMIN or 127.0.0.1:18080, if it is on the machine of
    /// --server]
    #[arg(long, value_name = "ADDR", requires = "servers", help_heading = HEADING)]
    pub(super) admin: Option<AdminServer>,

    #[command(flatten)]
    pub(super) access: AdminAccess,

    /// The time that a connection to the server may take, and then its answer [default: 15s]
    #[arg(long, value_name = "TIME", requires = "servers", help_heading = "Server")]
    pub(super) timeout: Option<Span>,

    #[command(flatten)]
    pub(super) tls: TlsArgs,

    /// Compare only what this group and its nodes see
    #[arg(long, value_name = "NAME")]
    pub(super) group: Option<String>,

    /// The format in which differences are printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = DiffFormat::Text)]
    #[arg(help_heading = "Output")]
    pub(super) output: DiffFormat,

    #[command(flatten)]
    pub(super) resources: ResourceFlags,
}

impl DiffArgs {
    /// The servers, as a client has them.
    pub(super) fn server(&self) -> ServerArgs {
        let (servers, tls) = (self.servers.clone(), self.tls.clone());
        ServerArgs { servers, bootstrap: None, timeout: self.timeout, tls }
    }
}

/// The format of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DiffFormat {
    /// The changed lines of each resource, below those who see the change
    Text,
    /// One line with a JSON object for each change: {change, type, name, audiences, …}
    Json,
}

const AFTER_HELP: &str = "\
Examples:
  chancery diff config/ --git main          # what this branch would change
  chancery diff config/ --git HEAD --group edge
  chancery diff staging/ production/
  chancery diff config/ --server 127.0.0.1:18000
  chancery diff config/ --server xds.example:18000 --ca ca.pem --cert me.pem --key me.key
  chancery diff config/ --git main -o json | jq -r '.change + \" \" + .name'

Exit codes:
  0   nothing would change
  1   something would change
  2   a directory or the revision cannot be read, or has errors, or the server cannot be asked
  64  the command line is wrong";
