//! The findings of the checks, and their report.

use anyhow::{Result, bail};

/// The result of a check at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A fault, which fails the run.
    Fault(String),
    /// A note, which fails nothing.
    Note(String),
}

/// Prints all findings; faults are an error.
pub(crate) fn report(check: &str, findings: &[Finding]) -> Result<()> {
    let mut faults = 0;
    for finding in findings {
        match finding {
            Finding::Note(text) => println!("note: {text}"),
            Finding::Fault(text) => {
                faults += 1;
                println!("fault: {text}");
            }
        }
    }
    if faults > 0 {
        bail!("{check} found {faults} faults");
    }
    Ok(())
}
