//! The flags of `chancery watch`: these structs are its help.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::ask::QueryArgs;
use crate::config::Span;

/// Ask an xDS server for resources, and print them and their changes
///
/// The command runs until it is interrupted. While no server can be reached, it keeps its resources
/// and tries again, or falls back to another server, and prints an event for each resource. Private
/// keys and other secrets are left out. Events are written to stdout, and everything else to stderr.
/// docs/watch.md describes the command.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(super) query: QueryArgs,

    /// The format in which events are printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = EventFormat::Diff)]
    #[arg(help_heading = "Output")]
    pub(super) output: EventFormat,

    /// End after this number of events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = "Bounds")]
    pub(super) count: Option<u64>,

    /// End after this time
    #[arg(long = "for", value_name = "TIME", help_heading = "Bounds")]
    pub(super) time: Option<Span>,

    /// Begin with the output of an earlier get or watch with -o json, and print only the changes
    /// since; with --protocol delta, the server sends only these
    #[arg(long, value_name = "FILE", help_heading = "Protocol")]
    pub(super) resume: Option<PathBuf>,
}

/// The format of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EventFormat {
    /// One line for each event, and the difference between the last value and the new one
    Diff,
    /// One line for each event
    Table,
    /// A comment for each event, and the YAML document of the resource
    Yaml,
    /// One line with a JSON object: {time, type, name, event, version, resource, error}
    Json,
    /// A comment for each event, and the resource as an entry of a DiscoveryResponse
    Text,
    /// A DeltaDiscoveryResponse for each change and removal, after its length as a varint
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
  changed   the resource has a new value
  removed   the resource does not exist, or does not exist any more
  error     the resource has no value that may be used; the reason follows
  ambient   something is wrong, but the last value may still be used; `over` when this has ended

Exit codes:
  0   the command was interrupted, or reached --count or --for
  2   the target, a name, the bootstrap or a file cannot be used
  64  the command line is wrong";
