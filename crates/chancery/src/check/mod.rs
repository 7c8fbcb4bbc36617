//! `chancery check`: reads a directory as `serve` would, serves nothing, and tells everything that is
//! wrong with it at once.
//!
//! The directory is loaded by the code of `serve`, with the same options, limits and checks. What is found has
//! a code, and the code says what it weighs ([`codes`]). Not here: the rules (`chancery-proto`), and
//! the reading of files (`chancery-sources`).

mod baseline;
mod codes;
mod finding;
mod findings;
mod options;
mod output;
mod reports;

use chancery_sources::Directory;

use self::baseline::Baseline;
use self::findings::Findings;
pub(crate) use self::options::CheckArgs;
use crate::config::{self, FileContent, InvalidConfig};
use crate::exit::Failure;
use crate::serve::{exists, schema};

/// Runs the command.
pub(crate) fn run(flags: &CheckArgs) -> Result<(), Failure> {
    let weights = flags.weights()?;
    exists(&flags.dir)?;
    let baseline = flags.baseline.as_deref().map(Baseline::read).transpose()?;
    let content = FileContent::read(&flags.dir);
    let config = match config::parsed(&flags.serve_flags(), &content) {
        Ok(config) => config,
        // Without it, nobody knows which files are resources.
        Err(InvalidConfig::Broken(broken)) => {
            return output::write(flags.output, Findings::of_config(&broken).weighed(&weights));
        }
        Err(unreadable) => return Err(unreadable.into()),
    };
    let schema = schema(&config.descriptor_sets)?;
    let mut source = config.source(&flags.dir);
    // Nothing is served, so whatever else is wrong with the layer is told too.
    source.hold_violations = false;
    let mut directory = Directory::new(source, schema.clone());
    let report = directory.load();
    let mut findings = Findings::of_load(&report);
    findings.add_rules(&schema);
    findings.add_references(&config, directory.catalog());
    findings.add_groups(&config, directory.catalog());
    let is_whole = findings.is_whole();
    let mut findings = findings.weighed(&weights);
    if let Some(baseline) = baseline {
        baseline.apply(&flags.dir, &mut findings, is_whole.then_some(&weights));
    }
    if let Some(path) = &flags.write_baseline {
        baseline::write(path, &flags.dir, &mut findings)?;
    }
    output::write(flags.output, findings)
}
