//! `chancery status`: what clients run, in their own words.

mod running;

use clap::Args;

use self::running::{RunningArgs, RunningFormat};
use crate::exit::Failure;

/// Show what a client says that it runs: which resources, in which version, and what it rejected
///
/// An Envoy is asked on its admin port, a gRPC application that serves its status (CSDS) at the address of
/// that. docs/csds.md describes the states.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    running: RunningArgs,

    /// The format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = RunningFormat::Table)]
    output: RunningFormat,
}

const AFTER_HELP: &str = "\
Examples:
  chancery status --envoy 10.0.0.7:19000
  chancery status --csds 127.0.0.1:50051 -o json

Exit codes:
  0   it was shown
  1   it was shown, and the client rejected something, or did not get it
  2   the client could not be asked
  64  the command line is wrong";

/// Runs the command.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    running::run(&args.running, args.output)
}
