//! The additions to a misuse of the command line: the subcommand that was called, for its usage, and
//! the environment variables at fault.
//!
//! Not here: the definition of the command line (`cli`), and the printing of a failure (`exit`).

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command};

/// Returns the subcommand that these words call, at any depth. It is the command itself if they call
/// none.
pub(crate) fn called(command: &Command, words: &[OsString]) -> Command {
    let mut found = command.clone();
    found.build();
    let Ok(matches) = command.clone().try_get_matches_from(words) else { return found };
    let mut matches = &matches;
    while let Some((name, below)) = matches.subcommand() {
        let Some(subcommand) = found.find_subcommand(name).cloned() else { break };
        (found, matches) = (subcommand, below);
    }
    found
}

/// Returns a hint that names the environment variables at fault for an error of these words, if there
/// are any. A variable is at fault if the error changes or goes when the variable is not read.
pub(crate) fn of_environment(
    command: &Command,
    words: &[OsString],
    error: &clap::Error,
) -> Option<String> {
    let told = error.render().to_string();
    let is_at_fault = |variable: &OsStr| {
        let without = without(command.clone(), variable).try_get_matches_from(words);
        without.err().is_none_or(|error| error.render().to_string() != told)
    };
    let mut settings = variables(command);
    settings.sort();
    settings.dedup();
    let settings = settings.into_iter().filter(|(variable, _)| is_at_fault(variable));
    let sentences: Vec<_> = settings
        .map(|(variable, flag)| {
            format!("`{}` in the environment sets `--{flag}`", variable.display())
        })
        .collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

/// The variables that are set and that a flag reads, here or in a subcommand, with the flag.
fn variables(command: &Command) -> Vec<(OsString, String)> {
    let of_flag = |arg: &Arg| {
        let variable = arg.get_env().filter(|variable| std::env::var_os(variable).is_some())?;
        Some((variable.to_owned(), arg.get_long()?.to_owned()))
    };
    let own = command.get_arguments().filter_map(of_flag);
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

/// The command line that does not read this variable.
fn without(command: Command, variable: &OsStr) -> Command {
    let unread = |arg: Arg| match arg.get_env() {
        Some(read) if read == variable => arg.env(None::<&'static str>),
        _ => arg,
    };
    command.mut_args(unread).mut_subcommands(|below| without(below, variable))
}
