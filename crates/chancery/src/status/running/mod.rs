//! The resources that clients say they run: an Envoy by its admin port, any other client by CSDS.
//!
//! ```text
//!   --envoy: [http] -> [envoy] --+
//!                                +--> [report]: clients with their resources --> [output]
//!   --csds: chancery-client -----+
//! ```
//!
//! Whoever is asked may say anything, so an answer is bounded in bytes and in time, only names, versions
//! and errors of it are kept, and no body of a resource is. Not here: what a server sent to them.

mod csds;
mod envoy;
mod http;
mod options;
mod output;
mod report;

use anyhow::Context;

use self::options::Source;
pub(crate) use self::options::{RunningArgs, RunningFormat};
use self::report::RunningClient;
use crate::exit::Failure;
use crate::stdout;

/// Shows what the named program runs.
///
/// # Errors
/// If it cannot be asked, and as a negative answer if it rejected something.
pub(crate) fn run(args: &RunningArgs, format: RunningFormat) -> Result<(), Failure> {
    let clients = ask(args)?;
    let text = match format {
        RunningFormat::Table => output::table(&clients),
        RunningFormat::Json => output::json(&clients),
    };
    stdout::write(text.as_bytes())?;
    match clients.iter().any(RunningClient::has_errors) {
        true => Err(Failure::told()),
        false => Ok(()),
    }
}

/// Asks the named program.
fn ask(args: &RunningArgs) -> Result<Vec<RunningClient>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start")?;
    let asked = match args.source()? {
        Source::Envoy(address) => runtime.block_on(envoy::ask(&address, &args.limits())),
        Source::Csds(address) => runtime.block_on(csds::ask(&address, &args.limits())),
    };
    asked.map_err(Failure::broken)
}
