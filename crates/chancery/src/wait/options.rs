//! The command line of `chancery wait`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::admin_client::AdminArgs;
use crate::config::Span;

/// Wait until the nodes of a server have acknowledged what is loaded
///
/// It ends when every node that counts has acknowledged the last load: those that are connected, and those that
/// went less than 15 s ago. Nodes that rejected it or are silent end it with a table of who and why. If
/// something newer is loaded meanwhile, it ends too, but with --latest. docs/status.md says exactly what landed
/// means.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP)]
pub(crate) struct WaitArgs {
    /// Only nodes of this group, and of those that extend it; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) group: Vec<String>,

    /// Only the node with this id, which has to be connected; may be given several times
    #[arg(long, value_name = "ID")]
    pub(super) node: Vec<String>,

    /// Wait for this load: revision=NUMBER, hash=HASH, or file=PATH for the one with the present content of a
    /// file; otherwise for what is loaded now
    #[arg(long = "for", value_name = "WHAT", conflicts_with = "latest")]
    pub(super) target: Option<Target>,

    /// The longest time to wait
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(super) timeout: Span,

    /// So many nodes at least have to have it
    #[arg(long, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(super) min_nodes: Option<u64>,

    /// If something newer is loaded meanwhile, wait for that
    #[arg(long)]
    pub(super) latest: bool,

    /// The format of the output
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = WaitFormat::Text)]
    pub(super) output: WaitFormat,

    #[command(flatten)]
    pub(super) admin: AdminArgs,
}

/// The load that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Revision(u64),
    Hash(String),
    File(PathBuf),
    /// The load that the server said is waited for, with its digest.
    Pinned(u64, Option<String>),
}

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum WaitFormat {
    /// A sentence, and a table of the nodes that do not have it
    Text,
    /// A JSON object on one line, as the API has it
    Json,
}

const AFTER_HELP: &str = "\
Examples:
  chancery wait --timeout 2m
  chancery wait --group edge --min-nodes 3
  cp new.yaml /etc/xds/groups/edge/routes.yaml
  chancery wait --group edge --for file=/etc/xds/groups/edge/routes.yaml

Exit codes:
  0   it has landed on every node that counts
  1   it was rejected, nodes are silent, or something newer was loaded: the table says who and why; or the
      file has a fault, or the gate holds it back
  2   there is no answer: the time is over, or the server could not be asked
  64  the command line is wrong";

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odd = || format!("`{text}` is none of `revision=NUMBER`, `hash=HASH` and `file=PATH`");
        let (key, value) = text.split_once('=').ok_or_else(odd)?;
        match key {
            "revision" => value.parse().map(Self::Revision).map_err(|_| odd()),
            "hash" if !value.is_empty() => Ok(Self::Hash(value.to_owned())),
            "file" if !value.is_empty() => Ok(Self::File(value.into())),
            _ => Err(odd()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_named_by_its_number_its_digest_or_a_file() {
        assert_eq!("revision=7".parse(), Ok(Target::Revision(7)));
        assert_eq!("hash=ab".parse(), Ok(Target::Hash("ab".to_owned())));
        assert_eq!("file=a=b".parse(), Ok(Target::File("a=b".into())));
        for odd in ["", "7", "revision=", "revision=x", "hash=", "file=", "time=7"] {
            assert!(odd.parse::<Target>().is_err(), "{odd}");
        }
    }
}
