//! The findings in the formats of other programs: annotations of GitHub, SARIF and JUnit.
//!
//! They say the same as the text, without the lines of files. Not here: what is found.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::codes::Severity;
use super::finding::Finding;
use super::findings::Findings;

/// Commands of a workflow, one line for each finding, of which GitHub makes annotations.
pub(super) fn github(findings: &Findings) -> String {
    let mut text = String::new();
    for finding in &findings.all {
        let word = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let place = [
            finding.file.as_ref().map(|file| format!("file={},", property(file))),
            finding.line.map(|line| format!("line={line},")),
            finding.column.map(|column| format!("col={column},")),
        ];
        let place: String = place.into_iter().flatten().collect();
        let title = property(finding.code);
        let _ = writeln!(text, "::{word} {place}title={title}::{}", data(&sentence(finding)));
    }
    for (word, more) in not_described(findings) {
        let _ = writeln!(text, "::{word}::and {more} more");
    }
    text
}

/// Text as GitHub reads it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// A log of SARIF 2.1.0 with one run.
pub(super) fn sarif(findings: &Findings) -> String {
    let codes: BTreeSet<_> = findings.all.iter().map(|finding| finding.code).collect();
    let rules: Vec<_> = codes.into_iter().map(|code| json!({ "id": code })).collect();
    let results: Vec<_> = findings.all.iter().map(sarif_result).collect();
    let notes: Vec<_> = not_described(findings)
        .map(|(level, more)| {
            json!({ "level": level, "message": { "text": format!("and {more} more") } })
        })
        .collect();
    let log = json!({
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{
            "tool": { "driver": {
                "name": "chancery check",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "results": results,
            "invocations": [{
                "executionSuccessful": !findings.is_unreadable,
                "toolExecutionNotifications": notes,
            }],
        }],
    });
    log.to_string() + "\n"
}

fn sarif_result(finding: &Finding) -> Value {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let mut result = json!({
        "ruleId": finding.code,
        "level": level,
        "message": { "text": sentence(finding) },
    });
    if let Some(file) = &finding.file {
        let mut place = json!({ "artifactLocation": { "uri": uri(file) } });
        if let Some(line) = finding.line {
            place["region"] =
                json!({ "startLine": line, "startColumn": finding.column.unwrap_or(1) });
        }
        result["locations"] = json!([{ "physicalLocation": place }]);
    }
    result
}

/// A path as a reference of a URI.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(byte.into());
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

/// A report of JUnit: a case for each finding, of which errors have failed; or one that has passed.
pub(super) fn junit(findings: &Findings) -> String {
    let mut cases = String::new();
    for finding in &findings.all {
        let place = finding.file.as_deref().unwrap_or("chancery.yaml");
        let line = finding.line.map(|line| format!(":{line}")).unwrap_or_default();
        let (name, class) = (xml(&format!("{place}{line}")), xml(finding.code));
        let text = xml(&sentence(finding));
        let _ = match finding.severity {
            Severity::Error => writeln!(
                cases,
                "    <testcase name=\"{name}\" classname=\"{class}\">\n      <failure \
                 type=\"{class}\" message=\"{text}\"/>\n    </testcase>"
            ),
            Severity::Warning => writeln!(
                cases,
                "    <testcase name=\"{name}\" classname=\"{class}\">\n      \
                 <system-out>{text}</system-out>\n    </testcase>"
            ),
        };
    }
    for (level, more) in not_described(findings) {
        let failure = if level == "error" { "<failure message=\"not described\"/>" } else { "" };
        let _ = writeln!(
            cases,
            "    <testcase name=\"and {more} more\" classname=\"{level}\">{failure}</testcase>"
        );
    }
    let more = not_described(findings).count();
    let failures = findings.all.iter().filter(|it| it.severity == Severity::Error).count()
        + not_described(findings).filter(|(level, _)| *level == "error").count();
    let mut tests = findings.all.len() + more;
    if tests == 0 {
        tests = 1;
        cases =
            "    <testcase name=\"nothing is wrong\" classname=\"chancery check\"/>\n".to_owned();
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"chancery check\" \
         tests=\"{tests}\" failures=\"{failures}\">\n{cases}  </testsuite>\n</testsuites>\n"
    )
}

/// Text within XML. Characters that XML cannot have are left out.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(' '),
            control if control.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

/// The finding in one sentence: its field, what is wrong, and the hint.
pub(super) fn sentence(finding: &Finding) -> String {
    let field = match finding.field.as_str() {
        "" => String::new(),
        field => format!("{field}: "),
    };
    let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{field}{}{hint}", finding.message)
}

/// The numbers of errors and of warnings that nobody described.
fn not_described(findings: &Findings) -> impl Iterator<Item = (&'static str, usize)> {
    let more = [("error", findings.more_errors.total()), ("warning", findings.more_warnings)];
    more.into_iter().filter(|(_, more)| *more > 0)
}
