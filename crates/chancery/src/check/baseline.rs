//! A baseline: the findings that a directory had when somebody began to check it. They are not told
//! again, and those that are gone are named.
//!
//! The file has one object of JSON in a line for each finding, sorted. It has no numbers of lines and
//! no indices of lists, so an edit above a finding does not make it a new one; a second finding of the
//! same kind in the same resource does, because it needs a second line. Not here: what findings weigh
//! ([`super::codes`]).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use chancery_core::printable::{MAX_NAME_BYTES, cut};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::codes::{self, BASELINE_UNUSED, Severity, Weights};
use super::finding::Finding;
use super::findings::Findings;
use crate::exit::Failure;

/// The largest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// The most entries without a finding that are told one by one.
const MAX_UNUSED: usize = 100;

/// The words one finding is known by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The path below the directory that is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource_name: Option<String>,
    /// The hash of the field and the sentence.
    hash: String,
}

impl Entry {
    pub(super) fn new(finding: &Finding, dir: &Path) -> Self {
        let said = format!("{}\n{}", without_indices(&finding.field), finding.message);
        Self {
            file: finding.file.as_ref().map(|file| below(dir, file)),
            code: finding.code.to_owned(),
            resource_type: finding.resource_type.clone(),
            resource_name: finding.resource_name.clone(),
            hash: format!("{:016x}", xxh3_64(said.as_bytes())),
        }
    }

    /// The sentence of one that no finding has any more.
    fn unused(&self) -> String {
        let file = self.file.as_deref().unwrap_or("chancery.yaml");
        let file = cut(file, MAX_NAME_BYTES);
        format!("this finding of `{}` in `{file}` is not there any more", self.code)
    }
}

/// The path of a file below the directory.
fn below(dir: &Path, file: &str) -> String {
    let path = Path::new(file);
    path.strip_prefix(dir).unwrap_or(path).display().to_string()
}

/// The path of a field without the numbers in brackets.
fn without_indices(field: &str) -> String {
    let mut text = String::new();
    for piece in field.split_inclusive('[') {
        let index = piece.find(']').filter(|end| {
            text.ends_with('[') && piece[..*end].bytes().all(|byte| byte.is_ascii_digit())
        });
        text.push_str(&piece[index.unwrap_or(0)..]);
    }
    text
}

/// The findings that are not told again.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    path: PathBuf,
    /// The numbers of the lines that have an entry.
    lines: BTreeMap<Entry, Vec<u32>>,
}

impl Baseline {
    /// Reads a file. What it holds must be entries, so that a slip is no finding that comes back.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let mut text = String::new();
        let file =
            File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
        let read = file.with_context(|| format!("cannot read the baseline `{name}`"));
        if read.map_err(Failure::broken)? as u64 > MAX_BYTES {
            let why = anyhow!("the baseline `{name}` has more than {MAX_BYTES} bytes");
            return Err(Failure::broken(why));
        }
        let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let entry = parsed(line).map_err(|why| {
                Failure::broken(anyhow!(
                    "line {number} of the baseline `{name}` is no entry: {why}"
                ))
                .hint("`chancery check --write-baseline` makes the file anew")
            })?;
            lines.entry(entry).or_default().push(number);
        }
        Ok(Self { path: path.to_path_buf(), lines })
    }

    /// Takes away the findings that are in it. What is left of it then is told, if everything was
    /// looked for.
    pub(super) fn apply(mut self, dir: &Path, findings: &mut Findings, told: Option<&Weights>) {
        findings.all.retain(|finding| !self.takes(finding, dir));
        let Some(weights) = told else { return };
        let left = self.lines.into_iter().flat_map(|(entry, lines)| {
            let looked_for = weights.of(&entry.code, Severity::Warning).is_some();
            let lines = if looked_for { lines } else { Vec::new() };
            lines.into_iter().map(move |line| (line, entry.clone()))
        });
        let mut left: Vec<_> = left.collect();
        left.sort_unstable_by_key(|(line, _)| *line);
        let Some(severity) = weights.of(BASELINE_UNUSED, Severity::Warning) else { return };
        findings.more_warnings += left.len().saturating_sub(MAX_UNUSED);
        findings.all.extend(left.into_iter().take(MAX_UNUSED).map(|(line, entry)| {
            let mut finding = Finding::warning(BASELINE_UNUSED, entry.unused());
            finding.severity = severity;
            finding.file = Some(self.path.display().to_string());
            finding.line = Some(line);
            finding.hint = Some("delete this line of the baseline".to_owned());
            finding
        }));
    }

    /// Returns true for a finding that is in it, once for each line.
    fn takes(&mut self, finding: &Finding, dir: &Path) -> bool {
        if codes::is_unusable(finding.code) {
            return false;
        }
        self.lines.get_mut(&Entry::new(finding, dir)).is_some_and(|lines| lines.pop().is_some())
    }
}

fn parsed(line: &str) -> Result<Entry, String> {
    let entry: Entry = serde_json::from_str(line).map_err(|why| why.to_string())?;
    // A code that is gone names nothing that could come back.
    if codes::is_known(&entry.code) {
        Ok(entry)
    } else {
        Err("no finding has this code".to_owned())
    }
}

/// Makes the file of these findings, and takes them away. Errors of what cannot be used stay.
pub(super) fn write(path: &Path, dir: &Path, findings: &mut Findings) -> Result<(), Failure> {
    let (kept, known): (Vec<_>, Vec<_>) =
        findings.all.drain(..).partition(|finding| codes::is_unusable(finding.code));
    findings.all = kept;
    let mut entries: Vec<_> = known.iter().map(|finding| Entry::new(finding, dir)).collect();
    entries.sort_unstable();
    let written = text(&entries).and_then(|text| fs::write(path, text));
    let fault = |why| anyhow!("cannot write the baseline `{}`: {why}", path.display());
    written.map_err(|why: io::Error| Failure::broken(fault(why)))
}

fn text(entries: &[Entry]) -> io::Result<String> {
    let mut text = String::new();
    for entry in entries {
        text += &serde_json::to_string(entry)?;
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_brackets_are_left_out_and_keys_stay() {
        assert_eq!(without_indices("a[0].b[12].c[\"k\"].d"), "a[].b[].c[\"k\"].d");
        assert_eq!(without_indices("[3]x]["), "[]x][");
        assert_eq!(without_indices(""), "");
    }
}
