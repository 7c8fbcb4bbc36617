//! The flags of `chancery explain-node`: this struct is its help.

use std::path::PathBuf;

use chancery_core::Node;
use clap::{Args, ValueEnum};

use crate::admin_client::{AdminAccess, AdminServer, HEADING};
use crate::ask::{NodeDetails, become_known_at};
use crate::config::ResourceFlags;
use crate::exit::Failure;

/// Tell why a node gets what it gets
///
/// Reads DIR as `chancery serve DIR` would. It tells which rule of DIR/chancery.yaml decides on the
/// group of the node, the layers that the node sees with their files, and for each resource the place
/// that it comes from, the patches that change it, and the places that it hides. The rules know of a
/// node what it says about itself: give with flags what they ask for, or with --admin the server that
/// knows. docs/layers.md describes layers.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct ExplainArgs {
    /// The id of the node
    #[arg(value_name = "ID")]
    node: String,

    /// The directory that holds the resources
    pub(super) dir: PathBuf,

    /// Admin interface (not the discovery port), IP:PORT or https://HOST:PORT, of a server to which the node is
    /// connected, and which knows the rest of it; what other flags say is put over that
    #[arg(long, value_name = "ADDR", help_heading = HEADING)]
    admin: Option<AdminServer>,

    #[command(flatten)]
    access: AdminAccess,

    #[command(flatten)]
    details: NodeDetails,

    /// The program of the node, as `envoy/1.36.2` or `gRPC Go/1.70.0`
    #[arg(long, value_name = "NAME[/VERSION]", help_heading = "Node")]
    user_agent: Option<String>,

    /// Tell of resources of this type only: cds, eds, lds, rds, …, or a type URL
    #[arg(long = "type", value_name = "TYPE", help_heading = "Output")]
    pub(super) type_name: Option<String>,

    /// Tell of resources with this name only
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub(super) name: Option<String>,

    /// The format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ExplainFormat::Text)]
    #[arg(help_heading = "Output")]
    pub(super) output: ExplainFormat,

    #[command(flatten)]
    pub(super) resources: ResourceFlags,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExplainFormat {
    /// The group, the layers, and the resources, each with its places
    Text,
    /// One line with a JSON object: {node, group, decided_by, layers, resources, …}
    Json,
}

impl ExplainArgs {
    /// The node that the flags describe.
    pub(super) fn node(&self) -> Result<Node, Failure> {
        if self.node.is_empty() {
            return Err(Failure::misuse("the id of the node is empty"));
        }
        let mut node = Node { id: self.node.clone(), ..Node::default() };
        match &self.admin {
            Some(admin) => {
                become_known_at(admin, &self.access, &mut node, &self.node, &self.details)?
            }
            None => self.access.unused()?,
        }
        self.details.introduce(&mut node);
        if let Some(program) = &self.user_agent {
            let (name, version) = program.rsplit_once('/').unwrap_or((program, ""));
            (node.user_agent_name, node.user_agent_version) = (name.to_owned(), version.to_owned());
        }
        Ok(node)
    }
}

const AFTER_HELP: &str = "\
Examples:
  chancery explain-node edge-1 config/ --cluster edge
  chancery explain-node edge-1 config/ --cluster edge --type cds --name shop
  chancery explain-node edge-1 config/ --admin 127.0.0.1:18080
  chancery explain-node edge-1 config/ --metadata role=canary --user-agent envoy/1.36.2 -o json

Exit codes:
  0   the node gets what is printed
  1   the node is refused, or gets nothing, or nothing of that type and name
  2   the directory cannot be read, or has errors; or --admin knows no such node
  64  the command line is wrong";
