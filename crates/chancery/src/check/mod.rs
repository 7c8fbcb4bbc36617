//! `chancery check`: reads a directory as `serve` would, serves nothing, and tells everything that is
//! wrong with it at once.
//!
//! The directory is loaded by the code of `serve`, with the same options, limits and checks. What is found has
//! a code, and the code says what it weighs ([`codes`]). Not here: the rules (`chancery-proto`), and
//! the reading of files (`chancery-sources`).

mod allowances;
mod baseline;
pub(crate) mod codes;
mod declared;
mod fields;
mod finding;
mod findings;
mod kinds;
mod load;
mod options;
mod output;
mod reports;
mod watch;

use chancery_proto::clients::Clients;

pub(crate) use self::allowances::allowance_words;
use self::baseline::Baseline;
use self::codes::Weights;
use self::findings::Findings;
pub(crate) use self::load::LoadedDirectory;
use self::load::NotLoaded;
pub(crate) use self::options::CheckArgs;
use crate::exit::Failure;

/// Runs the command.
pub(crate) fn run(flags: &CheckArgs) -> Result<(), Failure> {
    let weights = flags.weights()?;
    let baseline = flags.baseline.as_deref().map(Baseline::read).transpose()?;
    let clients = flags.clients()?;
    let check = || check(flags, clients, &weights, baseline.clone());
    match flags.watch {
        true => watch::run(flags, check),
        false => output::write(flags.output, &check()?),
    }
}

/// Checks the directory once.
fn check(
    flags: &CheckArgs,
    clients: Option<Clients>,
    weights: &Weights,
    baseline: Option<Baseline>,
) -> Result<Findings, Failure> {
    let loaded = match LoadedDirectory::load(&flags.resources.of_serve(&flags.dir), clients) {
        Ok(loaded) => loaded,
        Err(NotLoaded::Config(fault)) => return Ok(Findings::of_config(&fault).weighed(weights)),
        Err(NotLoaded::Failed(failure)) => return Err(failure),
    };
    let LoadedDirectory { config, schema, catalog, report } = loaded;
    let mut findings = Findings::of_load(&report);
    findings.add_rules(&schema);
    let fields = findings.add_references(&config, catalog.clone(), &schema);
    fields.place(&schema, &config.source(&flags.dir), &mut findings.all);
    findings.add_kinds(&config, &schema, &catalog);
    findings.add_certificates(&schema, catalog.clone());
    findings.add_needs(&catalog);
    findings.add_groups(&config, catalog);
    let is_for_all = clients.is_none();
    allowances::apply(&config.allow, &report.allowances, is_for_all, &mut findings);
    if clients.is_some()
        && let Ok(declared) = LoadedDirectory::load(&flags.resources.of_serve(&flags.dir), None)
    {
        findings.add_declared(&declared, weights);
    }
    let is_whole = findings.is_whole();
    let mut findings = findings.weighed(weights);
    if let Some(baseline) = baseline {
        baseline.apply(&flags.dir, &mut findings, is_whole.then_some(weights));
    }
    if let Some(path) = &flags.write_baseline {
        baseline::write(path, &flags.dir, &mut findings)?;
    }
    Ok(findings)
}
