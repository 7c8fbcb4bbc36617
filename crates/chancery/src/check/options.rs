//! The flags of `chancery check`: these structs are its help.

use std::path::PathBuf;

use chancery_proto::clients::Clients;
use clap::{Args, ValueEnum};

use super::codes::{self, Weights};
use crate::config::ResourceFlags;
use crate::exit::Failure;

/// Check the xDS resources in a directory, and serve nothing
///
/// Reads DIR as `chancery serve DIR` would, with DIR/chancery.yaml, and prints everything that is
/// wrong with it: files that cannot be used, resources that Envoy would reject because they break a
/// rule of its API, references that lead nowhere, and what gRPC clients refuse. Findings are written
/// to stdout, each with a code, the file, the line and the column. docs/checks.md describes all
/// codes.
#[derive(Args, Clone, Debug)]
#[command(verbatim_doc_comment, after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct CheckArgs {
    /// The directory that holds the resources
    pub(super) dir: PathBuf,

    /// Check for these clients: `envoy=1.36`, `envoy` of no known version, or `grpc`; may be given several
    /// times. Without it, for those that chancery.yaml declares. By those `serve` judges: if it would hold back
    /// what these clients take, that is an error too, declared-clients
    #[arg(long = "for", value_name = "CLIENT", value_delimiter = ',', help_heading = "Resources")]
    clients: Vec<String>,

    /// The format in which findings are printed
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = FindingFormat::Text)]
    #[arg(help_heading = "Output")]
    pub(super) output: FindingFormat,

    /// Count findings with this code, or of this class, as errors; may be given several times. `held` means all
    /// for which `serve` holds a change back
    #[arg(long, value_name = "CODE", value_delimiter = ',', help_heading = "Output")]
    deny: Vec<String>,

    /// Leave out findings with this code, or of this class; may be given several times
    #[arg(long, value_name = "CODE", value_delimiter = ',', help_heading = "Output")]
    allow: Vec<String>,

    /// Leave out all findings but these codes or classes, and errors in files; may be given several
    /// times
    #[arg(long, value_name = "CODE", value_delimiter = ',', help_heading = "Output")]
    only: Vec<String>,

    /// Leave out the findings that are in this file, and name those of it that are gone
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) baseline: Option<PathBuf>,

    /// Write what is found into this file, for --baseline; errors in files are told all the same
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with = "baseline")]
    pub(super) write_baseline: Option<PathBuf>,

    /// Check again when something changes, and print what is new and what is gone, until a signal ends it;
    /// as text only
    #[arg(long, help_heading = "Output", conflicts_with = "write_baseline")]
    pub(super) watch: bool,

    #[command(flatten)]
    pub(super) resources: ResourceFlags,
}

/// The format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FindingFormat {
    /// Several lines for each, with the line of the file, and a line of counts
    Text,
    /// One line with a JSON object for each: {code, severity, file, line, column, …}
    Json,
    /// Annotations of a workflow on GitHub
    Github,
    /// A log of SARIF 2.1.0, as code scanning reads it
    Sarif,
    /// A report of JUnit, as most CI systems read it
    Junit,
}

impl CheckArgs {
    /// The clients to check for, if the flags name some.
    pub(super) fn clients(&self) -> Result<Option<Clients>, Failure> {
        let all = self.clients.iter().map(|client| client.parse::<Clients>());
        let all: Result<Vec<_>, _> = all.collect();
        let all = all.map_err(|why| Failure::misuse(format!("`--for`: {why}")))?;
        Ok(all.into_iter().reduce(Clients::and))
    }

    /// The weights of findings. A code that does not exist is a slip.
    pub(super) fn weights(&self) -> Result<Weights, Failure> {
        if self.watch && self.output != FindingFormat::Text {
            return Err(Failure::misuse("`--watch` prints text alone"));
        }
        let deny = codes::denied(&self.deny);
        let flags = [("--deny", &deny), ("--allow", &self.allow), ("--only", &self.only)];
        for (flag, codes) in flags {
            if let Some(unknown) = codes.iter().find(|code| !codes::is_known(code)) {
                let why = format!("`{flag} {unknown}`: no finding has this code, and no class");
                return Err(Failure::misuse(why));
            }
        }
        let (allow, only) = (self.allow.clone(), self.only.clone());
        Ok(Weights { only, deny, allow })
    }
}

const AFTER_HELP: &str = "\
Examples:
  chancery check examples/quickstart
  chancery check config/ -o json | jq -r 'select(.severity == \"error\") | .file' | sort -u
  chancery check config/ --deny held        # in CI: what `serve` would hold back is an error too
  chancery check config/ --deny shadowed-route --allow grpc
  chancery check config/ --for envoy=1.36 --for grpc
  chancery check config/ --watch            # while you edit
  chancery check config/ -o github          # in a workflow: annotations at the lines

Exit codes:
  0   nothing is wrong, or there are only warnings
  1   there are errors
  2   the directory, chancery.yaml or a descriptor set cannot be read
  64  the command line is wrong";
