//! Findings that somebody let pass, and the words for what lets nothing pass.
//!
//! A comment in a file lets a finding at its place pass, and `allow` in `chancery.yaml` all of a code, each
//! with a reason. One that is not needed any more is a finding itself. Not here: the comments, which
//! `chancery-sources` reads, and the flags of one run ([`super::codes::Weights`]).

use std::path::Path;
use std::sync::Arc;

use chancery_core::printable::{MAX_NAME_BYTES, cut};
use chancery_sources::Allowance;

use super::codes::{self, ALLOW_UNKNOWN, ALLOW_UNUSED};
use super::finding::Finding;
use super::findings::Findings;
use crate::config::{AllowedCodes, FILE};

/// Leaves out what is let pass, and adds what lets nothing pass. If only some of the clients are looked at,
/// nobody knows that of a comment.
pub(super) fn apply(
    allowed: &AllowedCodes,
    comments: &[(Arc<Path>, Allowance)],
    is_for_all: bool,
    findings: &mut Findings,
) {
    let mut used: Vec<_> = comments.iter().map(|(_, comment)| comment.is_used).collect();
    findings.all.retain(|finding| !lets_pass(comments, &mut used, finding));
    let mut needed: Vec<&str> = Vec::new();
    findings.all.retain(|finding| {
        let code = allowed.codes().find(|allowed| codes::has(finding.code, allowed));
        let code = code.filter(|_| !codes::is_unusable(finding.code));
        needed.extend(code);
        code.is_none()
    });
    let is_whole = findings.is_whole() && is_for_all;
    for ((file, comment), used) in comments.iter().zip(used) {
        let code = cut(&comment.code, MAX_NAME_BYTES);
        let (kind, message) = if !codes::is_known(&comment.code) {
            (ALLOW_UNKNOWN, format!("no finding has the code `{code}`, and no class"))
        } else if codes::is_unusable(&comment.code) {
            (ALLOW_UNKNOWN, format!("`{code}` cannot be allowed: the file cannot be used"))
        } else if !used && is_whole {
            (ALLOW_UNUSED, format!("nothing here is `{code}`: remove the comment"))
        } else {
            continue;
        };
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

/// Returns true if a comment lets the finding pass.
fn lets_pass(comments: &[(Arc<Path>, Allowance)], used: &mut [bool], finding: &Finding) -> bool {
    let place = finding.file.as_deref().zip(finding.line);
    let Some((file, line)) = place.filter(|_| !codes::is_unusable(finding.code)) else {
        return false;
    };
    let mut passes = false;
    for ((path, comment), used) in comments.iter().zip(used) {
        if comment.lets_pass(line, finding.code) && path.as_os_str() == file {
            *used = true;
            passes = true;
        }
    }
    passes
}
