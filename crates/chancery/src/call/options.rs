//! The flags of `chancery call`: these structs are its help.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use super::metadata::{self, Header};
use crate::config::{Size, Span};

/// Call a gRPC service as a client of the mesh does, and show which way calls go, and why
///
/// The command reads the bootstrap of gRPC programs, asks the control plane for the routes, clusters and
/// endpoints of the target, and balances calls as they do. Messages are JSON; their types come from the
/// server (reflection) or from a file. Answers are written to stdout, and everything else to stderr.
/// docs/call.md describes the command.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct CallArgs {
    /// The target, as a gRPC program has it: xds:///orders:8080; or without a control plane
    /// dns:///HOST:PORT, HOST:PORT, ipv4:IP:PORT,IP:PORT, unix:PATH or https://HOST:PORT
    pub(super) target: String,

    /// The method, as orders.v1.Orders/Get; a service with --list; a service, method or type with
    /// --describe
    #[arg(required_unless_present_any = ["list", "describe"])]
    pub(super) method: Option<String>,

    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) way: WayArgs,
    #[command(flatten)]
    pub(super) security: SecurityArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) instead: InsteadArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The messages and metadata of a call, and the types of the messages.
#[derive(Args, Clone, Debug)]
pub(super) struct InputArgs {
    /// The request, as JSON; @FILE for the content of a file, - for stdin; several values one after
    /// another are the messages of a stream, and those of stdin are sent as they come [default: {}, or no
    /// message of a stream]
    #[arg(short, long, value_name = "JSON", help_heading = "Request")]
    pub(super) data: Option<String>,

    /// Metadata of the request, 'NAME: VALUE'; the value is base64 if the name ends in -bin; may be given
    /// several times
    #[arg(short = 'H', long = "header", value_name = "HEADER", value_parser = metadata::header)]
    #[arg(help_heading = "Request")]
    pub(super) headers: Vec<Header>,

    /// File with the types of the messages, a FileDescriptorSet with all imports; may be given several
    /// times [default: the server is asked by reflection]
    #[arg(long = "descriptor-set", value_name = "FILE", env = "CHANCERY_DESCRIPTOR_SET")]
    #[arg(value_delimiter = ',', help_heading = "Request", hide_env_values = true)]
    pub(super) descriptor_sets: Vec<PathBuf>,
}

/// The things that decide where calls go, and how long they may take.
#[derive(Args, Clone, Debug)]
pub(super) struct WayArgs {
    /// The bootstrap file of a gRPC client [default: the file that GRPC_XDS_BOOTSTRAP names, or the
    /// JSON in GRPC_XDS_BOOTSTRAP_CONFIG]
    #[arg(long, value_name = "FILE", help_heading = "Channel")]
    pub(super) bootstrap: Option<PathBuf>,

    /// The name of the service for routes and servers [default: that in the target]
    #[arg(long, value_name = "NAME", help_heading = "Channel")]
    pub(super) authority: Option<String>,

    /// The deadline of each call, and the time for reflection and for an explanation
    #[arg(long, value_name = "TIME", default_value = "15s", help_heading = "Channel")]
    #[arg(value_parser = some_time)]
    pub(super) timeout: Span,

    /// Wait until the deadline while the control plane or endpoints cannot be reached
    #[arg(long, help_heading = "Channel")]
    pub(super) wait_for_ready: bool,

    /// The size up to which a message of an answer is taken
    #[arg(long, value_name = "SIZE", default_value = "4MiB", help_heading = "Channel")]
    pub(super) max_size: Size,
}

/// The security of connections to endpoints.
#[derive(Args, Clone, Debug)]
pub(super) struct SecurityArgs {
    /// Connect to endpoints in the clear, also where the control plane asks for TLS [default for xds: as
    /// the control plane says, and in the clear where it says nothing]
    #[arg(long, conflicts_with_all = ["tls", "ca", "cert"], help_heading = "TLS")]
    pub(super) plaintext: bool,

    /// Connect to endpoints with TLS, and verify them by the certificate authorities of the system or
    /// --ca; for xds: only where the control plane says nothing
    #[arg(long, help_heading = "TLS")]
    pub(super) tls: bool,

    /// Certificate authorities for endpoints, PEM; implies --tls
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(super) ca: Option<PathBuf>,

    /// Certificate chain of the client for endpoints, PEM; implies --tls
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "TLS")]
    pub(super) cert: Option<PathBuf>,

    /// Private key of --cert, PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub(super) key: Option<PathBuf>,
}

/// The number of calls.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct LoadArgs {
    /// The number of calls; with more than one, a table shows how they were spread
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) count: u32,

    /// The calls that are begun in a second, at most
    #[arg(long, value_name = "N", help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) rate: Option<u32>,

    /// The calls that are made at the same time, at most
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(super) concurrency: u16,
}

/// The things to do instead of a call.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct InsteadArgs {
    /// Make no call, and explain which way one would go
    #[arg(long, conflicts_with_all = ["list", "describe"], help_heading = "Instead of a call")]
    pub(super) dry_run: bool,

    /// List the services, or the methods of a service
    #[arg(long, conflicts_with = "describe", help_heading = "Instead of a call")]
    pub(super) list: bool,

    /// Print the definitions of all services, or of a service, a method or a type
    #[arg(long, help_heading = "Instead of a call")]
    pub(super) describe: bool,
}

/// The part of all that is known which is shown.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct OutputArgs {
    /// Say which way the call goes and why, before it is made, and where it went
    #[arg(long, help_heading = "Output")]
    pub(super) explain: bool,

    /// The format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = CallFormat::Text)]
    #[arg(help_heading = "Output")]
    pub(super) output: CallFormat,

    /// Log the events on the connections to stderr; twice for more detail
    #[arg(short, long, action = ArgAction::Count, help_heading = "Output")]
    pub(super) verbose: u8,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CallFormat {
    /// Answers as JSON on several lines, and explanations in words; a table for several calls
    Text,
    /// One line with a JSON object for each message of an answer, {call, response}, and for each
    /// call, {call, code, message, cluster, locality, endpoint, attempts, milliseconds, headers, trailers};
    /// explanations as {explanation}
    Json,
}

/// Reads a time in which something can be done.
fn some_time(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    match span.0.is_zero() {
        true => Err("no call can be made in no time".to_owned()),
        false => Ok(span),
    }
}

const AFTER_HELP: &str = "\
Examples:
  chancery call xds:///orders:8080 orders.v1.Orders/Get -d '{\"id\": 1}' --bootstrap bootstrap.json
  chancery call xds:///orders:8080 orders.v1.Orders/Get --dry-run -H 'tier: gold'
  chancery call xds:///orders:8080 orders.v1.Orders/Get -d @order.json -n 1000 --concurrency 10
  chancery call xds:///orders:8080 --list
  chancery call localhost:50051 --plaintext --list
  chancery call xds:///orders:8080 --describe orders.v1.Order

Exit codes:
  0   every call ended with OK; or what was asked for instead of a call was printed: with --dry-run, a call
      would be sent, or would wait for a connection
  1   a server ended a call with another status; or, with --dry-run, a call would fail; or what is to be
      listed or described does not exist
  2   there is no answer: the control plane or the endpoints could not be reached, or sent none in
      time; or, with --dry-run, the control plane has sent nothing in time; or the types,
      the request or a file cannot be used
  64  the command line is wrong";
