//! The findings as text for people, or as JSON and other formats for programs, and the end of the command.

use std::fmt::Write as _;

use chancery_core::printable::{PrintForm, printable};

use super::codes::Severity;
use super::findings::Findings;
use super::options::FindingFormat;
use super::reports;
use crate::exit::Failure;
use crate::stdout;

/// Prints the findings. Errors are a negative answer, and a directory that cannot be read is none.
pub(super) fn write(format: FindingFormat, findings: &Findings) -> Result<(), Failure> {
    stdout::write(text(format, findings).as_bytes())?;
    verdict(findings)
}

/// The findings in a format, as they are printed.
pub(super) fn text(format: FindingFormat, findings: &Findings) -> String {
    let (text, form) = match format {
        FindingFormat::Text => (as_text(findings), PrintForm::Lines),
        FindingFormat::Json => (as_json(findings), PrintForm::Json),
        FindingFormat::Github => (reports::github(findings), PrintForm::Lines),
        FindingFormat::Sarif => (reports::sarif(findings), PrintForm::Json),
        FindingFormat::Junit => (reports::junit(findings), PrintForm::Lines),
    };
    printable(&text, form).into_owned()
}

/// The end of a command with these findings.
pub(super) fn verdict(findings: &Findings) -> Result<(), Failure> {
    match findings.count(Severity::Error) {
        _ if findings.is_unreadable => Err(Failure::told().breaks()),
        0 => Ok(()),
        _ => Err(Failure::told()),
    }
}

fn as_text(findings: &Findings) -> String {
    let mut text = String::new();
    for finding in &findings.all {
        text += &finding.rendered();
        text += "\n";
    }
    if let Some(line) = findings.more_errors.line("error") {
        let _ = writeln!(text, "and {line}\n");
    }
    if findings.more_warnings > 0 {
        let _ = writeln!(text, "and {}\n", counted(findings.more_warnings, "more warning"));
    }
    text += &counts(findings);
    findings.needs.iter().for_each(|needs| text += &format!("{needs}\n"));
    text
}

/// The line of counts.
pub(super) fn counts(findings: &Findings) -> String {
    let errors = counted(findings.count(Severity::Error), "error");
    let warnings = counted(findings.count(Severity::Warning), "warning");
    match findings.read {
        Some((files, resources)) => {
            let (files, resources) = (counted(files, "file"), counted(resources, "resource"));
            format!("{errors}, {warnings} ({files}, {resources})\n")
        }
        None => format!("{errors}, {warnings} (nothing else was read)\n"),
    }
}

/// The errors alone, as text.
pub(super) fn errors_as_text(mut findings: Findings) -> String {
    findings.all.retain(|finding| finding.severity == Severity::Error);
    findings.all.sort_by(|one, other| one.order().cmp(&other.order()));
    let mut text: String = findings.all.iter().map(|finding| finding.rendered() + "\n").collect();
    if let Some(line) = findings.more_errors.line("error") {
        let _ = writeln!(text, "and {line}\n");
    }
    text
}

fn as_json(findings: &Findings) -> String {
    let lines = findings.all.iter().filter_map(|finding| serde_json::to_string(finding).ok());
    lines.map(|line| line + "\n").collect()
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
