//! The flags of `chancery bench`: these structs are its help.
//!
//! A doc comment of a field is text that users read. Not here: the flags of the clients
//! (`clients`), the forms of single values (`values`), and the runs themselves (`chancery_bench`).

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::TypeUrl;
use clap::{Args, Subcommand};

use super::clients::ClientArgs;
use super::values::{TriggerKind, gap, rate, span};

/// Measure an xDS server over gRPC under load
///
/// The command opens many discovery streams that subscribe and acknowledge like real clients, changes
/// the configuration of the server, and measures how soon the clients receive the change, and how much
/// CPU and memory the server needs. It prints a table, and writes all figures with --json.
/// docs/bench.md describes the scenarios and the figures.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, arg_required_else_help = true, subcommand_required = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(super) verb: Verb,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Verb {
    #[command(flatten)]
    Run(ScenarioCommand),
    /// Draw the results that earlier runs saved with --json as an SVG
    ///
    /// The chart has one line for each --label, through the median of the runs at the same place. The
    /// exponent of each line is printed: 1 means that it grows like x, 0 that it does not grow.
    Chart(Box<ChartArgs>),
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum ScenarioCommand {
    /// Send one change to many streams, again and again
    ///
    /// The streams subscribe and receive their first answers. Each round then makes a change, and
    /// waits until every stream has a response of the first type. Latencies start at the trigger.
    FanOut(Box<Rounds>),
    /// The same in state of the world, where a response contains all resources
    ///
    /// Use a type like cds or lds. For eds and rds, a server may send only the changed resources.
    WholeState(Box<Rounds>),
    /// The same beside clients that read slowly or not at all
    ///
    /// The figures are those of the other clients. Compare them with a run without --stalled and --slow.
    SlowReaders(Box<Rounds>),
    /// The same with a file that is replaced, for a server that watches files
    ///
    /// Use --trigger file:PATH and --template FILE. The latencies include the time until the server
    /// notices the change, and any time for which it waits until the directory is quiet.
    FileChange(Box<Rounds>),
    /// Make changes at a steady rate, whether the clients keep up or not
    ///
    /// A response counts as one that brings all changes made before it. The figures are the age of the
    /// oldest change that a response brings, and the number of changes that it brings.
    Churn(Box<Churn>),
    /// Subscribe with many clients at once, until each has its first answer
    ///
    /// The clients connect first, and then all subscribe at the same moment. The figures are the times
    /// until the first answers are complete.
    ColdStart(Box<ColdStart>),
    /// Reconnect all clients with the versions of all their resources, without a change
    ///
    /// One stream learns names and versions. Then all clients connect and send these as
    /// `initial_resource_versions`. A server need not answer a client that is up to date, so each client
    /// also asks for another type: its answer shows that the first request was handled. Delta only.
    Reconnect(Box<Reconnect>),
    /// Measure memory and traffic of streams on which nothing happens
    ///
    /// The streams subscribe, receive their first answers, and stay open. With --pid, the memory of one
    /// stream is printed. Two runs with different --names give the memory of one subscribed name.
    Idle(Box<Idle>),
    /// Report the calls of many clients (LRS), as often as the server asks for it
    ///
    /// Each client opens a stream of load reports, and reports the same calls of --clusters clusters in each
    /// interval. The measured part begins when all of them have reported once. With --pid, the share of a
    /// core that the server needs is printed. The names of the clusters follow --name-pattern.
    LoadReports(Box<LoadReports>),
}

/// Rounds of changes.
#[derive(Args, Clone, Debug)]
pub(super) struct Rounds {
    #[command(flatten)]
    pub(super) clients: ClientArgs,
    #[command(flatten)]
    pub(super) change: ChangeArgs,

    /// The number of changes that are measured
    #[arg(long, default_value_t = 30, help_heading = "Rounds")]
    pub(super) rounds: usize,

    /// The number of changes before the measured ones
    #[arg(long, default_value_t = 3, help_heading = "Rounds")]
    pub(super) warmup: usize,

    /// The pause before each change: 30ms, or 30 for milliseconds
    #[arg(long, default_value = "0", value_parser = gap, help_heading = "Rounds")]
    pub(super) gap: Duration,
}

/// Changes at a rate.
#[derive(Args, Clone, Debug)]
pub(super) struct Churn {
    #[command(flatten)]
    pub(super) clients: ClientArgs,
    #[command(flatten)]
    pub(super) change: ChangeArgs,

    /// The number of changes in each second
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = rate)]
    #[arg(help_heading = "Rounds")]
    pub(super) rate: f64,

    /// The time for which changes are made
    #[arg(long, default_value = "10s", value_parser = span, help_heading = "Rounds")]
    pub(super) duration: Duration,
}

/// A chart of runs.
#[derive(Args, Clone, Debug)]
pub(super) struct ChartArgs {
    /// The file that is written
    pub(super) out: PathBuf,

    /// Files that were written with --json
    #[arg(required = true, value_name = "RUN.json")]
    pub(super) runs: Vec<PathBuf>,

    /// The figure on the x axis, by its name in the JSON
    #[arg(long, value_name = "FIGURE", default_value = "streams")]
    pub(super) x: String,

    /// The figure on the y axis, by its name in the JSON
    #[arg(long, value_name = "FIGURE", default_value = "latency_ms.last.p50")]
    pub(super) y: String,

    /// The title above the chart
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,

    /// Use linear axes that begin at zero, instead of logarithmic ones
    #[arg(long)]
    pub(super) linear: bool,
}

/// Many clients at once.
#[derive(Args, Clone, Debug)]
pub(super) struct ColdStart {
    #[command(flatten)]
    pub(super) clients: ClientArgs,

    /// Measure from before the clients connect, instead of from their first requests
    #[arg(long, help_heading = "Rounds")]
    pub(super) connect: bool,
}

/// Clients that come back.
#[derive(Args, Clone, Debug)]
pub(super) struct Reconnect {
    #[command(flatten)]
    pub(super) clients: ClientArgs,

    /// Measure from before the clients connect, instead of from their first requests
    #[arg(long, help_heading = "Rounds")]
    pub(super) connect: bool,

    /// The type of the additional request; best one of which the server has no resources [default:
    /// cds, or another type that is not in --types]
    #[arg(long, value_name = "TYPE", value_parser = chancery_bench::parse_type, help_heading = "Rounds")]
    pub(super) probe: Option<TypeUrl>,
}

/// Streams on which nothing happens.
#[derive(Args, Clone, Debug)]
pub(super) struct Idle {
    #[command(flatten)]
    pub(super) clients: ClientArgs,

    /// The time for which the streams stay open
    #[arg(long, default_value = "10s", value_parser = span, help_heading = "Rounds")]
    pub(super) duration: Duration,
}

/// Clients that report their calls.
#[derive(Args, Clone, Debug)]
pub(super) struct LoadReports {
    #[command(flatten)]
    pub(super) clients: ClientArgs,

    /// The number of clusters that each client reports
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Rounds")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) clusters: u32,

    /// The number of localities of each cluster
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Rounds")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) localities: u32,

    /// The time for which reports are counted
    #[arg(long, default_value = "20s", value_parser = span, help_heading = "Rounds")]
    pub(super) duration: Duration,
}

/// The way in which changes are made.
#[derive(Args, Clone, Debug)]
pub(super) struct ChangeArgs {
    /// The way to make a change: tcp:HOST:PORT (send `change`, wait for `ok`), exec:COMMAND (run it with
    /// sh, wait for its end) or file:PATH (replace the file by --template)
    #[arg(long, value_name = "HOW", help_heading = "Change")]
    pub(super) trigger: TriggerKind,

    #[arg(long, value_name = "FILE", help_heading = "Change", help = TEMPLATE_HELP)]
    pub(super) template: Option<PathBuf>,
}

impl ScenarioCommand {
    /// The flags of the clients, which every scenario has.
    pub(super) fn clients(&self) -> &ClientArgs {
        match self {
            Self::FanOut(rounds)
            | Self::WholeState(rounds)
            | Self::SlowReaders(rounds)
            | Self::FileChange(rounds) => &rounds.clients,
            Self::Churn(churn) => &churn.clients,
            Self::ColdStart(start) => &start.clients,
            Self::Reconnect(again) => &again.clients,
            Self::Idle(idle) => &idle.clients,
            Self::LoadReports(load) => &load.clients,
        }
    }

    /// The flags as the options of a run.
    ///
    /// # Errors
    /// They contradict each other, in words.
    pub(super) fn options(&self) -> Result<chancery_bench::Options, String> {
        let scenario = match self {
            Self::FanOut(rounds) => chancery_bench::Scenario::FanOut(rounds.options()?),
            Self::WholeState(rounds) => chancery_bench::Scenario::WholeState(rounds.options()?),
            Self::SlowReaders(rounds) => chancery_bench::Scenario::SlowReaders(rounds.options()?),
            Self::FileChange(rounds) => chancery_bench::Scenario::FileChange(rounds.options()?),
            Self::Churn(churn) => chancery_bench::Scenario::Churn(chancery_bench::Churn {
                change: churn.change.options()?,
                rate: churn.rate,
                duration: churn.duration,
            }),
            Self::ColdStart(start) => {
                chancery_bench::Scenario::ColdStart { connect: start.connect }
            }
            Self::Reconnect(again) => {
                chancery_bench::Scenario::Reconnect(chancery_bench::Reconnect {
                    connect: again.connect,
                    probe: again.probe.clone(),
                })
            }
            Self::Idle(idle) => chancery_bench::Scenario::Idle { duration: idle.duration },
            Self::LoadReports(load) => {
                let LoadReports { clusters, localities, duration, .. } = **load;
                chancery_bench::Scenario::LoadReports(chancery_bench::LoadClients {
                    clusters,
                    localities,
                    duration,
                })
            }
        };
        Ok(chancery_bench::Options { scenario, clients: self.clients().options() })
    }
}

impl Rounds {
    fn options(&self) -> Result<chancery_bench::Rounds, String> {
        let Self { rounds, warmup, gap, .. } = *self;
        Ok(chancery_bench::Rounds { change: self.change.options()?, rounds, warmup, gap })
    }
}

impl ChangeArgs {
    fn options(&self) -> Result<chancery_bench::Change, String> {
        match (&self.trigger, &self.template) {
            (TriggerKind::Tcp(address), None) => Ok(chancery_bench::Change::Tcp(address.clone())),
            (TriggerKind::Exec(command), None) => Ok(chancery_bench::Change::Exec(command.clone())),
            (TriggerKind::File(path), Some(template)) => {
                Ok(chancery_bench::Change::File { path: path.clone(), template: template.clone() })
            }
            _ => Err("`--trigger file:PATH` and `--template FILE` need each other".to_owned()),
        }
    }
}

/// The help of `--template`. clap makes a line break of `{n}`: an escape sequence that styles nothing
/// keeps the two characters apart, and is left out where there are no colours.
const TEMPLATE_HELP: &str =
    "The content that file: writes; {\u{1b}[0mn} stands for the number of the change";
