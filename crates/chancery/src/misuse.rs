//! The subcommand that was called, with whose usage a misuse of the command line is told.
//!
//! Not here: the definition of the command line (`cli`), and the printing of a failure (`exit`).

use std::ffi::OsString;

use clap::Command;

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
