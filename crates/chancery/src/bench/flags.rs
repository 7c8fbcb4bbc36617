//! The flags of `chancery bench`: these structs are its help.

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::TypeUrl;
use clap::{Args, Subcommand};

use super::clients::ClientArgs;
use super::values::{TriggerKind, gap, rate, span};

/// Measure an xDS server under load: this one, or any other that speaks gRPC.
///
/// Opens many discovery streams, lets them subscribe and acknowledge like real clients, makes the
/// server's configuration change, and says what came when and what it cost. Prints a table;
/// --json writes the same and more for programs. docs/bench.md says what each figure means.
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
    /// Draw runs that were kept with --json as an SVG
    ///
    /// One line for each --label; runs at the same place become their median. Says the exponent
    /// of each line: 1 grows as x does, 0 does not grow.
    Chart(Box<ChartArgs>),
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum ScenarioCommand {
    /// One change to many streams, again and again
    ///
    /// The streams subscribe and get their first answers. Then, each round: make a change, wait
    /// until every stream got a response of the first type. Latencies are from the moment the
    /// trigger is pulled.
    FanOut(Box<Rounds>),
    /// The same in the state of the world: every change brings everything
    ///
    /// That is so for types like cds and lds; of eds and rds a server may send what changed alone.
    WholeState(Box<Rounds>),
    /// The same with clients that read slowly, or not at all, beside the others
    ///
    /// The figures are those of the others. Run it without --stalled and --slow too and compare.
    SlowReaders(Box<Rounds>),
    /// The same for a server that follows a file: from its replacement to the receipts
    ///
    /// Give --trigger file:PATH and --template FILE. The time until the server notices, and any
    /// time it waits for the directory to settle, are in the latencies.
    FileChange(Box<Rounds>),
    /// Changes at a steady rate, whether the clients keep up or not
    ///
    /// A client covers all changes made before a response. Tells how old the oldest change that a
    /// response covers is, and how many changes a response covers.
    Churn(Box<Churn>),
    /// Many clients at once, until each has its first answer
    ///
    /// The connections are made first; then all clients subscribe at the same moment. Tells how
    /// long each of them waited for its complete first answer.
    ColdStart(Box<ColdStart>),
    /// Clients that come back with everything they had, when nothing has changed
    ///
    /// One stream learns names and versions; then all clients connect and name them as
    /// `initial_resource_versions`. An up-to-date client need not be answered, so each asks for
    /// another type behind: its answer tells that the first request was handled. Delta only.
    Reconnect(Box<Reconnect>),
    /// Memory and traffic of streams on which nothing happens
    ///
    /// The streams subscribe, get their first answers, and stay. With --pid the memory of one
    /// stream is told; with --names and two runs, that of one subscribed name can be derived.
    Idle(Box<Idle>),
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

    /// The number of changes that come before those
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

    /// Changes in a second
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

    /// Files of --json
    #[arg(required = true, value_name = "RUN.json")]
    pub(super) runs: Vec<PathBuf>,

    /// The figure across, by its name in the JSON
    #[arg(long, value_name = "FIGURE", default_value = "streams")]
    pub(super) x: String,

    /// The figure upwards, by its name in the JSON
    #[arg(long, value_name = "FIGURE", default_value = "latency_ms.last.p50")]
    pub(super) y: String,

    /// The title above the chart
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,

    /// Axes that begin at zero, instead of logarithmic ones
    #[arg(long)]
    pub(super) linear: bool,
}

/// Many clients at once.
#[derive(Args, Clone, Debug)]
pub(super) struct ColdStart {
    #[command(flatten)]
    pub(super) clients: ClientArgs,

    /// Measure from before connecting, and not from the first requests
    #[arg(long, help_heading = "Rounds")]
    pub(super) connect: bool,
}

/// Clients that come back.
#[derive(Args, Clone, Debug)]
pub(super) struct Reconnect {
    #[command(flatten)]
    pub(super) clients: ClientArgs,

    /// Measure from before connecting, and not from the first requests
    #[arg(long, help_heading = "Rounds")]
    pub(super) connect: bool,

    /// The type that is asked for behind; best one the server has nothing of [default: cds, or
    /// another that is not asked for anyway]
    #[arg(long, value_name = "TYPE", value_parser = chancery_bench::parse_type, help_heading = "Rounds")]
    pub(super) probe: Option<TypeUrl>,
}

/// Streams on which nothing happens.
#[derive(Args, Clone, Debug)]
pub(super) struct Idle {
    #[command(flatten)]
    pub(super) clients: ClientArgs,

    /// The time for which nothing is done
    #[arg(long, default_value = "10s", value_parser = span, help_heading = "Rounds")]
    pub(super) duration: Duration,
}

/// The way in which changes are made.
#[derive(Args, Clone, Debug)]
pub(super) struct ChangeArgs {
    /// The way to make a change: tcp:HOST:PORT (sends `change`, waits for `ok`), exec:COMMAND (runs
    /// it with sh, waits for its end) or file:PATH (replaces it by --template)
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
