//! `chancery load`: shows what the clients of a server report about their calls.
//!
//! It asks the admin interface of the server on the same machine, page by page. Not here: who may ask
//! (`admin::load_reports`), and what is kept of reports.

mod output;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::anyhow;
use chancery_core::printable::Printable;
use clap::{Args, ValueEnum};

use crate::admin::{LOAD, LoadDocument};
use crate::admin_client::{AdminArgs, AdminClient, encoded};
use crate::config::Span;
use crate::exit::Failure;
use crate::looks::Looks;
use crate::stdout;

/// Show what clients report about their calls: how many, to which cluster, and how they ended
///
/// Envoys with load_stats_config and gRPC clients of clusters with `lrs_server: {self: {}}` report their
/// calls to the server (LRS). The command asks the server on the same machine for them. docs/load.md
/// describes what is counted, and how clients are made to report.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct LoadArgs {
    /// The rows in which calls are summed
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = By::Cluster)]
    by: By,

    /// Only calls to this cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Only calls that the node with this id reports, on the streams that it has now
    #[arg(long, value_name = "ID")]
    node: Option<String>,

    /// Show it again and again, until the command is ended
    #[arg(long)]
    watch: bool,

    /// The time between two looks with --watch
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "watch")]
    every: Span,

    /// The format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = LoadFormat::Table)]
    output: LoadFormat,

    #[command(flatten)]
    admin: AdminArgs,
}

/// The rows in which calls are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// One row for each cluster and service name of its endpoints
    Cluster,
    /// One row for each locality of these
    Locality,
    /// One row for each endpoint, for Envoys with `load-reports: {endpoints: true}`
    Endpoint,
    /// One row for each node that reports now
    Node,
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadFormat {
    /// A table
    Table,
    /// One line with a JSON object for each row, as /api/v1/load has them
    Json,
}

const AFTER_HELP: &str = "\
Examples:
  chancery load
  chancery load --by locality --cluster orders
  chancery load --by node --cluster orders
  chancery load --watch --every 5s
  chancery load -o json

Exit codes:
  0   it was shown, also if nothing is reported
  1   nothing is reported of the cluster or node that was named
  2   the server could not be asked, or refused to answer, or has more rows than -o json shows
  64  the command line is wrong";

/// Runs the command.
pub(crate) fn run(args: &LoadArgs) -> Result<(), Failure> {
    let looks = Looks::new(args.watch, args.every, LEAST_TIME)?;
    let client = args.admin.client()?;
    looks.run(|is_first| {
        let found = client.load(args)?;
        if found.rows.is_empty() && !looks.are_many() {
            return nothing(args).map(|()| false);
        }
        let text = match args.output {
            LoadFormat::Table => output::table(&found, args.by, is_first),
            LoadFormat::Json => output::json(&found),
        };
        let is_read = stdout::write(text.as_bytes())?;
        // The table says it in its last line.
        if is_read && args.output == LoadFormat::Json && found.next.is_some() {
            return Err(not_all(&found));
        }
        Ok(is_read)
    })
}

impl AdminClient {
    /// All rows that are asked for, or the first of them and the `next` of their last page.
    fn load(&self, args: &LoadArgs) -> Result<LoadDocument, Failure> {
        let by = match args.by {
            By::Cluster => "cluster",
            By::Locality => "locality",
            By::Endpoint => "endpoint",
            By::Node => "node",
        };
        let mut path = format!("{LOAD}?by={by}&limit={ON_A_PAGE}");
        for (key, value) in [("cluster", &args.cluster), ("node", &args.node)] {
            path += &value.as_ref().map(|it| format!("&{key}={}", encoded(it))).unwrap_or_default();
        }
        let (mut all, mut after) = (LoadDocument::default(), String::new());
        loop {
            let reply = self.get(&format!("{path}{after}"))?;
            let page: LoadDocument = self.document(&reply)?;
            (all.count, all.reporters) = (page.count, page.reporters);
            all.rows.extend(page.rows);
            match page.next {
                Some(next) if all.rows.len() < MOST => {
                    after = format!("&after={}", encoded(&next));
                }
                next => return Ok(LoadDocument { next, ..all }),
            }
        }
    }
}

/// The end of the command if rows are missing in what a program reads.
fn not_all(found: &LoadDocument) -> Failure {
    let (shown, count) = (found.rows.len(), found.count);
    Failure::broken(anyhow!("only the first {shown} of {count} rows were written")).hint(
        "`--cluster` and `--node` ask for fewer, and `/api/v1/load` has all of them page by page",
    )
}

/// The end of the command if there are no rows.
fn nothing(args: &LoadArgs) -> Result<(), Failure> {
    let named = [("cluster", &args.cluster), ("node", &args.node)];
    let named: Vec<_> = named
        .iter()
        .filter_map(|(what, name)| Some(format!("{what} `{}`", Printable(name.as_ref()?))))
        .collect();
    if named.is_empty() {
        // It goes to stderr, because a program may read stdout.
        writeln!(
            io::stderr(),
            "no client has reported calls; docs/load.md says how they are made to"
        )
        .ok();
        return Ok(());
    }
    Err(Failure::negative(anyhow!("nothing is reported of {}", named.join(" and "))))
}

/// The shortest time between two looks.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// The number of rows that are asked for at once.
const ON_A_PAGE: usize = 1000;

/// The number of rows after which no others are asked for.
const MOST: usize = 10_000;
