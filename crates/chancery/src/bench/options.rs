//! The flags of `chancery bench`: these structs are its help.

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::TypeUrl;
use clap::{Args, Subcommand, ValueEnum};

use super::target::Server;
use super::trigger::How;
use super::xds::{Protocol, types};
use crate::config::Span;

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
    Run(Scenario),
    /// Draw runs that were kept with --json as an SVG
    ///
    /// One line for each --label; runs at the same place become their median. Says the exponent
    /// of each line: 1 grows as x does, 0 does not grow.
    Chart(Box<Chart>),
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum Scenario {
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
    pub(super) clients: Clients,
    #[command(flatten)]
    pub(super) change: Change,

    /// How many changes are measured
    #[arg(long, default_value_t = 30, help_heading = "Rounds")]
    pub(super) rounds: usize,

    /// How many changes come before those
    #[arg(long, default_value_t = 3, help_heading = "Rounds")]
    pub(super) warmup: usize,

    /// How long nothing happens before each change: 30ms, or 30 for milliseconds
    #[arg(long, default_value = "0", value_parser = gap, help_heading = "Rounds")]
    pub(super) gap: Duration,
}

/// Changes at a rate.
#[derive(Args, Clone, Debug)]
pub(super) struct Churn {
    #[command(flatten)]
    pub(super) clients: Clients,
    #[command(flatten)]
    pub(super) change: Change,

    /// Changes in a second
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = rate)]
    #[arg(help_heading = "Rounds")]
    pub(super) rate: f64,

    /// How long changes are made
    #[arg(long, default_value = "10s", value_parser = span, help_heading = "Rounds")]
    pub(super) duration: Duration,
}

/// What is drawn.
#[derive(Args, Clone, Debug)]
pub(super) struct Chart {
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

    /// What stands above it
    #[arg(long, value_name = "TEXT")]
    pub(super) title: Option<String>,

    /// Axes that begin at zero, instead of logarithmic ones
    #[arg(long)]
    pub(super) linear: bool,
}

/// Everybody at once.
#[derive(Args, Clone, Debug)]
pub(super) struct ColdStart {
    #[command(flatten)]
    pub(super) clients: Clients,

    /// Measure from before connecting, and not from the first requests
    #[arg(long, help_heading = "Rounds")]
    pub(super) connect: bool,
}

/// Everybody again.
#[derive(Args, Clone, Debug)]
pub(super) struct Reconnect {
    #[command(flatten)]
    pub(super) clients: Clients,

    /// Measure from before connecting, and not from the first requests
    #[arg(long, help_heading = "Rounds")]
    pub(super) connect: bool,

    /// The type that is asked for behind; best one the server has nothing of [default: cds, or
    /// another that is not asked for anyway]
    #[arg(long, value_name = "TYPE", value_parser = types::parse, help_heading = "Rounds")]
    pub(super) probe: Option<TypeUrl>,
}

/// Nothing, for a while.
#[derive(Args, Clone, Debug)]
pub(super) struct Idle {
    #[command(flatten)]
    pub(super) clients: Clients,

    /// How long nothing is done
    #[arg(long, default_value = "10s", value_parser = span, help_heading = "Rounds")]
    pub(super) duration: Duration,
}

/// How changes are made.
#[derive(Args, Clone, Debug)]
pub(super) struct Change {
    /// How a change is made: tcp:HOST:PORT (sends `change`, waits for `ok`), exec:COMMAND (runs
    /// it with sh, waits for its end) or file:PATH (replaces it by --template)
    #[arg(long, value_name = "HOW", help_heading = "Change")]
    pub(super) trigger: How,

    #[arg(long, value_name = "FILE", help_heading = "Change", help = TEMPLATE_HELP)]
    pub(super) template: Option<PathBuf>,
}

/// clap makes a line break of `{n}`. An escape sequence that styles nothing keeps the two characters
/// apart; it is left out where there are no colours.
const TEMPLATE_HELP: &str = "What file: writes; {\u{1b}[0mn} stands for the number of the change";

/// Who connects to what, and what they ask for.
#[derive(Args, Clone, Debug)]
pub(super) struct Clients {
    /// The server: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", help_heading = "Server")]
    pub(super) server: Server,

    /// The server's process on this machine, to tell its CPU time and memory
    #[arg(long, value_name = "PID", help_heading = "Server")]
    pub(super) pid: Option<u32>,

    #[command(flatten)]
    pub(super) secure: Secure,

    /// How long is waited for any one thing: a connection, the first answers, a round
    #[arg(long, default_value = "60s", value_parser = span, help_heading = "Server")]
    pub(super) timeout: Duration,

    /// The largest HTTP/2 frame the server may send, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16_384, help_heading = "Server")]
    #[arg(value_parser = clap::value_parser!(u32).range(16_384..=16_777_215))]
    pub(super) max_frame_size: u32,

    /// How many clients; several, as in 100,1000,10000, make a run each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000")]
    #[arg(help_heading = "Clients", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) streams: Vec<u32>,

    /// Over how many connections [default: one for each client]
    #[arg(long, value_name = "N", help_heading = "Clients")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections: Option<u32>,

    /// How many threads the clients run on
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Clients")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) threads: u32,

    /// The variant of the protocol [default: delta, sotw for whole-state]
    #[arg(long, value_enum, help_heading = "Clients")]
    pub(super) protocol: Option<Protocol>,

    /// A stream for each type, on the type's own service, instead of one aggregated stream
    #[arg(long, help_heading = "Clients")]
    pub(super) per_type: bool,

    /// What is asked for: cds, eds, lds, rds, … or full type URLs; changes are waited for in the
    /// first
    #[arg(long, value_delimiter = ',', default_value = "eds", value_parser = types::parse)]
    #[arg(value_name = "TYPES", help_heading = "Clients")]
    pub(super) types: Vec<TypeUrl>,

    /// Ask for so many names, of every type or, as in eds=100, of one [default: for everything]
    #[arg(long, value_name = "[TYPE=]N", value_delimiter = ',', value_parser = named)]
    #[arg(help_heading = "Clients")]
    pub(super) names: Vec<Named>,

    /// What names look like; {:06} stands for their number, from 0, with six digits
    #[arg(long, value_name = "PATTERN", default_value = "bench-{:06}", help_heading = "Clients")]
    pub(super) name_pattern: String,

    /// How everything is asked for: with an empty list, with `*`, or with whichever of them is
    /// usual for the type
    #[arg(long, value_enum, default_value_t = Wildcard::Auto, help_heading = "Clients")]
    pub(super) wildcard: Wildcard,

    /// The first answer is complete with so many resources of each type [default: the names that
    /// were asked for, in delta; one response, otherwise]
    #[arg(long, value_name = "N", help_heading = "Clients")]
    pub(super) expect: Option<u32>,

    /// Who the clients are; {} stands for their number
    #[arg(long, value_name = "ID", default_value = "bench-{}", help_heading = "Clients")]
    pub(super) node_id: String,

    /// The cluster the clients are in
    #[arg(long, value_name = "NAME", default_value = "bench", help_heading = "Clients")]
    pub(super) node_cluster: String,

    /// Metadata of the clients, text only; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair, help_heading = "Clients")]
    pub(super) node_metadata: Vec<(String, String)>,

    /// Answer nothing; many servers rightly send nothing more then
    #[arg(long, help_heading = "Manners")]
    pub(super) no_ack: bool,

    /// So many clients reject every response
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Manners")]
    pub(super) nack: u32,

    /// So many clients stop reading after their first answers; they are not waited for
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Manners")]
    pub(super) stalled: u32,

    /// So many clients read so many bytes in a second; they are not waited for
    #[arg(long, value_name = "K@BYTES", value_parser = slow, help_heading = "Manners")]
    pub(super) slow: Option<(u32, u32)>,

    /// Write what was measured as JSON, to a file or, with -, to the standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) json: Option<PathBuf>,

    /// Draw the runs of several numbers of streams
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) svg: Option<PathBuf>,

    /// A name for this series of runs, kept in the JSON
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub(super) label: Option<String>,
}

/// TLS of the clients.
#[derive(Args, Clone, Debug)]
pub(super) struct Secure {
    /// Connect with TLS; the server has to prove itself with --ca
    #[arg(long, requires = "ca", help_heading = "TLS")]
    pub(super) tls: bool,

    /// Who vouches for the server, PEM
    #[arg(long, value_name = "FILE", requires = "tls", help_heading = "TLS")]
    pub(super) ca: Option<PathBuf>,

    /// Certificate chain of the clients, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"], help_heading = "TLS")]
    pub(super) cert: Option<PathBuf>,

    /// Private key of the clients, PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "cert"], help_heading = "TLS")]
    pub(super) key: Option<PathBuf>,

    /// What the server's certificate has to be for [default: the host of --server]
    #[arg(long, value_name = "NAME", requires = "tls", help_heading = "TLS")]
    pub(super) server_name: Option<String>,
}

/// How many names, and of which type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) url: Option<TypeUrl>,
    pub(super) count: u32,
}

/// How everything is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Wildcard {
    /// Empty for types where that is usual, like cds and lds, otherwise `*`
    Auto,
    /// An empty list
    Empty,
    /// A star
    Star,
}

fn span(text: &str) -> Result<Duration, String> {
    text.parse::<Span>().map(|span| span.0).map_err(|invalid| invalid.to_string())
}

fn gap(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_millis).or_else(|_| span(text))
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=100_000.0).contains(rate));
    rate.ok_or_else(|| format!("`{text}` is no rate; write 0.001 to 100000 changes in a second"))
}

fn named(text: &str) -> Result<Named, String> {
    let (url, count) = match text.split_once('=') {
        Some((url, count)) => (Some(types::parse(url)?), count),
        None => (None, text),
    };
    let count = count.parse().map_err(|_| format!("`{count}` is no number of names"))?;
    Ok(Named { url, count })
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` lacks a `=`"))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn slow(text: &str) -> Result<(u32, u32), String> {
    let told = || format!("`{text}` is no pace; write `10@65536`: ten clients, 64 KiB in a second");
    let (clients, bytes) = text.split_once('@').ok_or_else(told)?;
    let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0);
    clients.parse().ok().zip(bytes).ok_or_else(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        assert_eq!(gap("30"), Ok(Duration::from_millis(30)));
        assert_eq!(gap("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(slow("3@100"), Ok((3, 100)));
        assert_eq!(named("7"), Ok(Named { url: None, count: 7 }));
        assert_eq!(named("eds=7").unwrap().url.unwrap().short(), "eds");
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
    }

    #[test]
    fn misuse_is_refused_in_words() {
        assert!(slow("3@0").unwrap_err().contains("3@0"));
        assert!(rate("0").is_err() && rate("NaN").is_err() && rate("2.5") == Ok(2.5));
        assert!(named("x=1").unwrap_err().contains("`x`"));
        assert!(gap("soon").is_err() && pair("a").is_err() && named("many").is_err());
    }
}
