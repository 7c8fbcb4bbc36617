//! The flags of `chancery watch`: these structs are its help.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::ask::QueryArgs;
use crate::config::Span;

/// Follow resources of an xDS server, and print what becomes of them.
///
/// Goes on until it is interrupted, whatever happens to the server: connects again, falls back to
/// another one, and says what that means for each resource. Private keys and the like are left
/// out. Data goes to stdout and everything else to stderr. docs/watch.md has examples.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(super) query: QueryArgs,

    /// The format in which events are printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = EventFormat::Diff)]
    #[arg(help_heading = "Output")]
    pub(super) output: EventFormat,

    /// End after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = "Bounds")]
    pub(super) count: Option<u64>,

    /// End after so much time
    #[arg(long = "for", value_name = "TIME", help_heading = "Bounds")]
    pub(super) time: Option<Span>,

    /// Begin with what an earlier run of get or watch printed with -o json; only what has changed
    /// since is printed, and asked for if the protocol is delta
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    pub(super) resume: Option<PathBuf>,
}

/// The format of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EventFormat {
    /// A line for each event, and what has changed in a resource that was there before
    Diff,
    /// A line for each event
    Table,
    /// A comment for each event, and a document for each resource
    Yaml,
    /// An object in a line: {time, type, name, event, version, resource, error}
    Json,
    /// A comment for each event, and an entry of a DiscoveryResponse for each resource
    Text,
    /// A DeltaDiscoveryResponse for each change, after its length as a varint
    Binary,
}

const AFTER_HELP: &str = "\
Examples:
  chancery watch cds --server 127.0.0.1:18000
  chancery watch 'xdstp://team-b/envoy.config.cluster.v3.Cluster/edge/*' --bootstrap bootstrap.json
  chancery watch eds web-1 --server 10.0.0.1:18000 --server 10.0.0.2:18000 -o json --for 1m
  chancery get cds --server a:18000 -o json > before
  chancery watch cds --server a:18000 --protocol delta --resume before

Events:
  changed   there is a value, and it is new
  removed   there is none any more
  error     there is none that may be used, and why
  ambient   something is wrong, and the value that was there may be used; or that is over

Exit codes:
  0   interrupted, or --count or --for were reached
  2   the target, a name, the bootstrap or a file is no good
  64  the command line makes no sense";
