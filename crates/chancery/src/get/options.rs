//! The flags of `chancery get`: these structs are its help.

use clap::{Args, ValueEnum};

use crate::ask::QueryArgs;

/// Ask an xDS server for resources, and print them
///
/// The server can be any xDS server. A resource that does not come within --timeout counts as
/// missing. Private keys and other secrets are left out. Resources are written to stdout, and
/// everything else to stderr. docs/get.md describes the command.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(super) query: QueryArgs,

    /// The format in which resources are printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ResourceFormat::Table)]
    #[arg(help_heading = "Output")]
    pub(super) output: ResourceFormat,
}

/// The format of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ResourceFormat {
    /// One line for each resource: type, name, version, size and server
    Table,
    /// One YAML document for each resource
    Yaml,
    /// One line with a JSON object for each resource: {type, name, version, resource}
    Json,
    /// A DiscoveryResponse as protobuf text
    Text,
    /// A DiscoveryResponse as binary protobuf, of one type only
    Binary,
}

const AFTER_HELP: &str = "\
Examples:
  chancery get cds --server istiod.example:15010 --node sidecar~10.0.0.1~web.prod~prod.svc -o yaml
  chancery get eds web-1 web-2 --server 127.0.0.1:18000
  chancery get 'xdstp://team-b/envoy.config.cluster.v3.Cluster/edge/*' --bootstrap bootstrap.json
  GRPC_XDS_BOOTSTRAP=bootstrap.json chancery get lds --target xds://team-b/billing:8080

Exit codes:
  0   all resources came
  1   a server answered, and not with every resource: one does not exist, or was rejected
  2   there is no answer: no server could be reached, or none answered, or they ended the stream
      with an error; or a rejected resource has no known name; or the target, a name or a file
      cannot be used
  64  the command line is wrong";
