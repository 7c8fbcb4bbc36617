//! The resources that clients say they run: an Envoy by its admin port, any other client by CSDS.
//!
//! ```text
//!   --envoy: [http] -> [envoy] --+
//!                                +--> [report]: clients with their resources --> [output]
//!   --csds: chancery-client -----+
//! ```
//!
//! They are shown beside what the server sent, if it can be asked (`compare`).
//!
//! Whoever is asked may say anything, so an answer is bounded in bytes and in time, only names, versions
//! and errors of it are kept, and no body of a resource is. Not here: what a server knows of them (`admin::status`).

mod compare;
mod csds;
mod envoy;
mod http;
mod options;
mod output;
mod report;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;

pub(crate) use self::options::RunningArgs;
use self::options::Source;
use self::report::RunningClient;
use super::StatusFormat;
use crate::admin_client::AdminArgs;
use crate::ask::tls_hint;
use crate::exit::Failure;
use crate::stdout;

/// Shows what the named program runs, beside what the server with this admin interface sent to it.
///
/// # Errors
/// If it cannot be asked, and as a negative answer if something does not run as it was sent.
pub(crate) fn run(
    args: &RunningArgs,
    admin: &AdminArgs,
    format: StatusFormat,
) -> Result<(), Failure> {
    let mut clients = ask(args)?;
    if !admin.admin.is_off() {
        let server = admin.client()?.within(SERVER_TIME);
        if let Err(why) = compare::compare(&server, &mut clients) {
            // It goes to stderr, because a program may read stdout.
            write!(io::stderr(), "not compared with what was sent:\n{why}").ok();
        }
    }
    let text = match format {
        StatusFormat::Table => output::tables(&clients),
        StatusFormat::Json => output::json(&clients),
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
    match args.source()? {
        Source::Envoy(address) => {
            runtime.block_on(envoy::ask(&address, &args.limits())).map_err(Failure::broken)
        }
        Source::Csds(address) => {
            let asked = runtime.block_on(csds::ask(&args.tls.server(&address)?, &args.limits()));
            asked.map_err(|error| {
                let hint = tls_hint(args.tls.is_secure(), &format!("{error:#}"));
                let failure = Failure::broken(error);
                match hint {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            })
        }
    }
}

/// The time of the server to tell what it sent.
const SERVER_TIME: Duration = Duration::from_secs(10);
