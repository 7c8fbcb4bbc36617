//! The flags of `chancery diff`: this struct is its help.

use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

use crate::config::ServeFlags;

/// Tell what would change for the clients if a directory were served
///
/// Compares DIR with what is there now: with another directory, or with DIR in a revision of git.
/// Both are read as `chancery serve` would read them, and the resources are compared that each
/// group, and each node with files of its own, would be given. A change is printed once, below those
/// who see it, with what clients will do where that is known. Private keys and other secrets are
/// left out. Differences are written to stdout, and the errors of a directory to stderr.
/// docs/diff.md describes the command.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct DiffArgs {
    /// The directory that would be served
    pub(super) dir: PathBuf,

    /// The directory that is served now
    #[arg(value_name = "OTHER", required_unless_present = "git", conflicts_with = "git")]
    pub(super) other: Option<PathBuf>,

    /// Compare with DIR as it was committed in this revision
    #[arg(long, value_name = "REVISION")]
    pub(super) git: Option<String>,

    /// Compare only what this group and its nodes see
    #[arg(long, value_name = "NAME")]
    pub(super) group: Option<String>,

    /// The format in which differences are printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = DiffFormat::Text)]
    #[arg(help_heading = "Output")]
    pub(super) output: DiffFormat,

    /// File with more message types, a FileDescriptorSet; may be given several times
    #[arg(long = "descriptor-set", value_name = "FILE", env = "CHANCERY_DESCRIPTOR_SET")]
    #[arg(value_delimiter = ',', help_heading = "Resources", hide_env_values = true)]
    descriptor_sets: Vec<PathBuf>,

    /// Compare as for a server that has the v2 types too
    #[arg(long, env = "CHANCERY_ENABLE_V2", help_heading = "Resources", hide_env_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new(), value_name = "BOOL", hide_possible_values = true)]
    enable_v2: Option<bool>,
}

/// The format of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DiffFormat {
    /// The changed lines of each resource, below those who see the change
    Text,
    /// One line with a JSON object for each change: {change, type, name, audiences, …}
    Json,
}

impl DiffArgs {
    /// The flags of a `serve` that would read this directory.
    pub(super) fn serve_flags(&self, dir: &Path) -> ServeFlags {
        ServeFlags {
            dir: dir.to_owned(),
            descriptor_sets: self.descriptor_sets.clone(),
            enable_v2: self.enable_v2,
            ..ServeFlags::default()
        }
    }
}

const AFTER_HELP: &str = "\
Examples:
  chancery diff config/ --git main          # what this branch would change
  chancery diff config/ --git HEAD --group edge
  chancery diff staging/ production/
  chancery diff config/ --git main -o json | jq -r '.change + \" \" + .name'

Exit codes:
  0   nothing would change
  1   something would change
  2   a directory or the revision cannot be read, or has errors
  64  the command line is wrong";
