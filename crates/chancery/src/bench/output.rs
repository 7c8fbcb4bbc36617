//! The output of a run: a table for people, JSON for programs, an exit code for scripts.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use chancery_bench::{Error, Report};
use chancery_core::printable::{PrintForm, printable};

use super::clients::ClientArgs;
use super::drawing;
use crate::exit::Failure;
use crate::stdout;

/// Writes the table, and the chart and the JSON if they are wanted. With JSON on the standard
/// output, the table goes to the standard error.
pub(super) fn write(clients: &ClientArgs, table: &str, reports: &[Report]) -> Result<(), Failure> {
    let to_stdout = clients.json.as_deref() == Some(Path::new("-"));
    let shown = printable(table, PrintForm::Lines);
    match to_stdout {
        true => io::stderr().write_all(shown.as_bytes()).context("cannot write the table")?,
        false => drop(stdout::write(shown.as_bytes())?),
    }
    if let Some(path) = &clients.svg {
        drawing::of_reports(path, reports)?;
    }
    let Some(path) = &clients.json else { return Ok(()) };
    let text = match (clients.streams.len(), reports) {
        (1, [report]) => serde_json::to_string_pretty(report),
        _ => serde_json::to_string_pretty(reports),
    };
    let text = text.context("cannot write the JSON")? + "\n";
    if to_stdout {
        return stdout::write(printable(&text, PrintForm::Json).as_bytes()).map(drop);
    }
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(())
}

/// Options that contradict each other are misuse of the command line; all other errors are failures.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Error::Options(why) = error {
            return Self::misuse(why);
        }
        let hint = error.hint();
        let failure = Self::broken(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// Returns a failure if a run was interrupted or reported errors.
pub(super) fn verdict(reports: &[Report]) -> Result<(), Failure> {
    let mut details = String::new();
    for report in reports {
        for error in report.errors() {
            details.push_str(&format!("with {} streams: {error}\n", report.streams()));
        }
    }
    if reports.iter().any(|report| report.interrupted()) {
        return Err(Failure::negative(anyhow!("interrupted before it was done")).details(details));
    }
    let failed = reports.iter().filter(|report| !report.errors().is_empty()).count();
    match failed {
        0 => Ok(()),
        1 => Err(Failure::negative(anyhow!("1 run did not go as it should")).details(details)),
        many => {
            let error = anyhow!("{many} runs did not go as they should");
            Err(Failure::negative(error).details(details))
        }
    }
}
