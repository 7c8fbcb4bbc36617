//! Findings that somebody let pass, and the words for what lets nothing pass.
//!
//! A comment in a file lets a finding at its place pass, and `allow` in `chancery.yaml` all of a code, each
//! with a reason. One that is not needed any more is a finding itself. Not here: the comments, which
//! `chancery-sources` reads, and the flags of one run ([`super::codes::Weights`]).

use std::path::Path;
use std::sync::Arc;

use chancery_core::printable::{MAX_NAME_BYTES, cut};
use chancery_sources::{AllowedPlaces, NeededAllowances};

use super::codes::{self, ALLOW_UNKNOWN, ALLOW_UNUSED};
use super::finding::Finding;
use super::findings::Findings;
use crate::config::{AllowedCodes, FILE};

/// Leaves out what is let pass, and adds what lets nothing pass. If only some of the clients are looked at,
/// nobody knows that of a comment.
pub(super) fn apply(
    allowed: &AllowedCodes,
    comments: &Arc<AllowedPlaces>,
    is_for_all: bool,
    findings: &mut Findings,
) {
    let mut comments = NeededAllowances::new(Arc::clone(comments));
    findings.all.retain(|finding| !lets_pass(&mut comments, finding));
    let mut needed: Vec<&str> = Vec::new();
    findings.all.retain(|finding| {
        let code = allowed.codes().find(|allowed| codes::has(finding.code, allowed));
        let code = code.filter(|_| !codes::is_unusable(finding.code));
        needed.extend(code);
        code.is_none()
    });
    let is_whole = findings.is_whole() && is_for_all;
    for (file, comment, is_needed) in comments.all() {
        let is_needed = is_needed || !is_whole;
        let Some((kind, message)) = allowance_words(&comment.code, is_needed) else { continue };
        let mut finding = Finding::warning(kind, message);
        finding.file = Some(file.display().to_string());
        finding.line = Some(comment.line);
        findings.all.push(finding);
    }
    for code in allowed.codes().filter(|code| is_whole && !needed.contains(code)) {
        let message = format!("`allow` in {FILE} has `{code}`, and nothing is: remove it");
        findings.all.push(Finding::warning(ALLOW_UNUSED, message));
    }
}

/// The code and the words for a comment with this code that lets nothing pass.
pub(crate) fn allowance_words(code: &str, is_needed: bool) -> Option<(&'static str, String)> {
    let shown = cut(code, MAX_NAME_BYTES);
    if !codes::is_known(code) {
        Some((ALLOW_UNKNOWN, format!("no finding has the code `{shown}`, and no class")))
    } else if codes::is_unusable(code) {
        Some((ALLOW_UNKNOWN, format!("`{shown}` cannot be allowed: the file cannot be used")))
    } else {
        let unused = || (ALLOW_UNUSED, format!("nothing here is `{shown}`: remove the comment"));
        (!is_needed).then(unused)
    }
}

/// Returns true if a comment lets the finding pass: for one between resources that at the resource counts, and that at
/// the field, as they do for `serve` and for the gate.
fn lets_pass(comments: &mut NeededAllowances, finding: &Finding) -> bool {
    let file = finding.file.as_deref().filter(|_| !codes::is_unusable(finding.code));
    let lines = [finding.resource_line, finding.line].into_iter().flatten();
    // A comment that lets the same pass twice is needed.
    file.is_some_and(|file| {
        let passes = |line| comments.let_pass(Path::new(file), line, finding.code);
        lines.map(passes).fold(false, |any, passes| any | passes)
    })
}
