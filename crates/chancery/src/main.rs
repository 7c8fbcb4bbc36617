//! The `chancery` command: the daemon and the tools around it.
//!
//! This crate wires the others together and is the only one that knows flags, the environment,
//! `chancery.yaml`, signals and exit codes. No other crate depends on it.

mod admin;
mod admin_client;
mod ask;
mod bench;
mod call;
mod certificates;
mod check;
mod cli;
mod colour;
mod config;
mod confirm;
mod counts_by_file;
mod diff;
mod exit;
mod explain;
mod field_places;
mod finding;
mod gate;
mod get;
mod line_diff;
mod load;
mod logging;
mod looks;
mod misuse;
mod serve;
mod state;
mod status;
mod stdout;
mod table;
mod wait;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};
use crate::exit::Failure;

fn main() -> ExitCode {
    let code = match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            logging::print_last(&failure.to_string());
            failure.code()
        }
    };
    logging::finish();
    code
}

fn run() -> Result<(), Failure> {
    let words: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let hint = misuse::of_environment(&Cli::command(), &words, &error);
            let failure = Failure::from(error);
            return Err(match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            });
        }
        Err(help) => {
            help.print().ok();
            return Ok(());
        }
    };
    let ended = match cli.command {
        Command::Serve(flags) => serve::run(&flags),
        Command::Call(flags) => call::run(&flags),
        Command::Check(flags) => check::run(&flags),
        Command::Diff(flags) => diff::run(&flags),
        Command::ExplainNode(flags) => explain::run(&flags),
        Command::Get(flags) => get::run(&flags),
        Command::Watch(flags) => watch::run(&flags),
        Command::Confirm(flags) => confirm::run(&flags),
        Command::Load(flags) => load::run(&flags),
        Command::Status(flags) => status::run(&flags),
        Command::Wait(flags) => wait::run(&flags),
        Command::Bench(flags) => bench::run(&flags),
    };
    ended.map_err(|failure| failure.with_usage(|| misuse::called(&Cli::command(), &words)))
}
