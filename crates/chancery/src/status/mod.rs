//! `chancery status`: what the nodes of a server hold, and which of them need attention.
//!
//! It asks the API of the server, or a client itself what it runs (`running`). Not here: the states
//! themselves (docs/status.md), and waiting for them (`wait`).

mod detail;
mod overview;
mod reasons;
mod resources;
mod running;

use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::overview::nodes as nodes_table;
pub(crate) use self::reasons::away;
use self::running::RunningArgs;
use crate::admin::{NODES, NodeDocument, STATUS, StatusSummary};
use crate::admin_client::{AdminArgs, AdminClient, Reply, encoded};
use crate::config::Span;
use crate::exit::Failure;
use crate::looks::Looks;
use crate::stdout;

/// Show what the nodes of a server hold: in step, pending, rejected and why, silent, gone
///
/// Without a name it shows the groups, and the nodes that need attention first. With the id of a node it shows
/// its streams, and each type: the versions it was sent and acknowledged, what it rejected in its own words,
/// what it waits for, and what happened to it last. docs/status.md says exactly what each state means.
///
/// With --envoy or --csds it shows what a client says that it runs: an Envoy is asked on its admin port, a gRPC
/// application that serves its status (CSDS) at the address of that. docs/csds.md describes these states.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct StatusArgs {
    /// The id of a node
    #[arg(value_name = "NODE", conflicts_with_all = ["resource", "group", "state"])]
    node: Option<String>,

    /// Show one resource, as cds/orders: where it comes from, and who has which version. With a * at the end, as
    /// in 'cds/ord*', list those whose names begin so
    #[arg(long, value_name = "TYPE/NAME", conflicts_with = "state")]
    resource: Option<ResourceName>,

    /// Only nodes of this group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,

    /// Only nodes in this state
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,

    /// Show so many nodes, or so many resources of each type, at most
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,

    /// With NODE: show all resources that it wants or holds, and not only those that are not acknowledged
    #[arg(long, requires = "node")]
    all: bool,

    /// Show it again and again, until the command is ended
    #[arg(long)]
    watch: bool,

    /// The time between two looks with --watch
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "watch")]
    every: Span,

    /// The format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = StatusFormat::Table)]
    output: StatusFormat,

    #[command(flatten)]
    admin: AdminArgs,

    #[command(flatten)]
    running: RunningArgs,
}

/// A resource, as it stands on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceName {
    r#type: String,
    name: String,
}

/// A state of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Something was rejected and not changed since
    Rejected,
    /// An answer is owed for too long
    Silent,
    /// Something is under way
    Pending,
    /// There is no stream any more
    Gone,
    /// All that is wanted was acknowledged
    InStep,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    /// Tables
    Table,
    /// A JSON object on one line, as the API has it
    Json,
}

const AFTER_HELP: &str = "\
Examples:
  chancery status
  chancery status --group edge --state rejected
  chancery status edge-7
  chancery status --resource cds/orders
  chancery status --resource 'cds/*' --group edge
  chancery status --watch
  chancery status -o json
  chancery status --envoy 10.0.0.7:19000
  chancery status --csds 127.0.0.1:50051 --admin off

Exit codes:
  0   it was shown, whatever the states are
  1   there is no such node or resource; with --envoy or --csds, something does not run as it was sent
  2   the server or the client could not be asked, or refused to answer
  64  the command line is wrong";

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    if args.running.is_asked() {
        if args.asks_the_server() {
            return Err(Failure::misuse(
                "`--envoy` and `--csds` show one client, and take `-o` and the server alone",
            ));
        }
        return running::run(&args.running, &args.admin, args.output);
    }
    let looks = Looks::new(args.watch, args.every, LEAST_TIME)?;
    let client = args.admin.client()?;
    let mut before = String::new();
    looks.run(|is_first| {
        let text = shown(&client, args)?;
        // The same text is not shown again.
        if text == before {
            return Ok(true);
        }
        let gap = if is_first { "" } else { "\n" };
        let is_read = stdout::write(format!("{gap}{text}").as_bytes());
        before = text;
        is_read
    })
}

impl StatusArgs {
    /// Returns true if there is a flag that means nodes of the server.
    fn asks_the_server(&self) -> bool {
        self.node.is_some()
            || self.resource.is_some()
            || self.group.is_some()
            || self.state.is_some()
            || self.watch
    }
}

fn shown(client: &AdminClient, args: &StatusArgs) -> Result<String, Failure> {
    let limit = args.limit;
    if let Some(id) = &args.node {
        let resources = if args.all { "all" } else { "unsettled" };
        let path = format!("{NODES}/{}?resources={resources}&limit={limit}", encoded(id));
        return written::<NodeDocument>(client, &path, args, detail::node);
    }
    if let Some(resource) = &args.resource {
        return resources::text(client, args, resource);
    }
    let group = args.group.as_ref().map(|group| format!("&group={}", encoded(group)));
    let group = group.unwrap_or_default();
    let state = args.state.and_then(|state| state.to_possible_value());
    let state = state.map(|state| format!("&state={}", state.get_name())).unwrap_or_default();
    let path = format!("{STATUS}?limit={limit}{group}{state}");
    written::<StatusSummary>(client, &path, args, overview::text)
}

/// The text of the document at a path.
fn written<D: DeserializeOwned + Serialize>(
    client: &AdminClient,
    path: &str,
    args: &StatusArgs,
    table: fn(&D) -> String,
) -> Result<String, Failure> {
    Ok(formatted(&document(client, &client.get(path)?)?, args, table))
}

/// The document in a reply.
fn document<D: DeserializeOwned>(client: &AdminClient, reply: &Reply) -> Result<D, Failure> {
    if let Some(error) = reply.error().filter(|error| error.code.starts_with("unknown-")) {
        let failure = Failure::negative(anyhow!("{}", error.message));
        return Err(match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        });
    }
    client.document(reply)
}

/// A document in the format that is asked for.
fn formatted<D: Serialize>(document: &D, args: &StatusArgs, table: fn(&D) -> String) -> String {
    match args.output {
        StatusFormat::Table => table(document),
        StatusFormat::Json => crate::admin::line(document),
    }
}

impl std::str::FromStr for ResourceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odd = || format!("`{text}` is no `TYPE/NAME`, as `cds/orders`");
        let after_url = text.strip_prefix(URL_PREFIX).map_or(0, |_| URL_PREFIX.len());
        let slash = text[after_url..].find('/').ok_or_else(odd)? + after_url;
        let (of, name) = (&text[..slash], &text[slash + 1..]);
        if of.is_empty() || name.is_empty() {
            return Err(odd());
        }
        Ok(Self { r#type: of.to_owned(), name: name.to_owned() })
    }
}

const URL_PREFIX: &str = "type.googleapis.com/";

/// The shortest time between two looks.
const LEAST_TIME: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_a_type_and_a_name() {
        let read = |text: &str| text.parse::<ResourceName>().map(|it| (it.r#type, it.name));
        assert_eq!(read("cds/a/b"), Ok(("cds".to_owned(), "a/b".to_owned())));
        let url = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
        assert_eq!(read(&format!("{url}/a")), Ok((url.to_owned(), "a".to_owned())));
        for odd in ["cds", "cds/", "/a", url] {
            assert!(read(odd).is_err(), "{odd}");
        }
    }
}
