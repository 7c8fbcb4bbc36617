//! The command line: the subcommands, and the text above them.
//!
//! Not here: the flags of each, which are beside the code that they steer.

use clap::{Parser, Subcommand};

use crate::bench::Bench;
use crate::call::CallArgs;
use crate::check::CheckArgs;
use crate::config::ServeFlags;
use crate::confirm::ConfirmArgs;
use crate::diff::DiffArgs;
use crate::explain::ExplainArgs;
use crate::get::GetArgs;
use crate::load::LoadArgs;
use crate::status::StatusArgs;
use crate::wait::WaitArgs;
use crate::watch::WatchArgs;

/// An xDS management server for Envoy proxies and gRPC services, and tools for any xDS server.
#[derive(Debug, Parser)]
#[command(name = "chancery", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommand to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    // The help of each is the documentation of its struct.
    Serve(Box<ServeFlags>),
    Check(Box<CheckArgs>),
    Diff(Box<DiffArgs>),
    ExplainNode(Box<ExplainArgs>),
    Get(Box<GetArgs>),
    Watch(Box<WatchArgs>),
    Confirm(Box<ConfirmArgs>),
    Status(Box<StatusArgs>),
    Wait(Box<WaitArgs>),
    Load(Box<LoadArgs>),
    Call(Box<CallArgs>),
    Bench(Box<Bench>),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// All that clap prints of a command and of those below it, as it was written.
    fn texts(command: &clap::Command) -> Vec<String> {
        let own = [
            command.get_about(),
            command.get_long_about(),
            command.get_before_help(),
            command.get_before_long_help(),
            command.get_after_help(),
            command.get_after_long_help(),
        ];
        let helps = command.get_arguments().flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
        let all = own.into_iter().chain(helps).flatten().map(|text| text.ansi().to_string());
        let values = command.get_arguments().flat_map(clap::Arg::get_possible_values);
        let values = values.filter_map(|value| Some(value.get_help()?.ansi().to_string()));
        all.chain(values).chain(command.get_subcommands().flat_map(texts)).collect()
    }

    #[test]
    fn no_help_has_what_clap_takes_for_a_line_break() {
        let texts = texts(&Cli::command());
        assert!(texts.len() > 100, "{}", texts.len());
        let broken: Vec<_> = texts.iter().filter(|text| text.contains("{n}")).collect();
        assert_eq!(broken, [""; 0]);
    }
}
