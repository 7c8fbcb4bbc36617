//! The codes of findings, and what each weighs. `docs/checks.md` describes all of them.
//!
//! A code is stable, because people switch findings off by it and programs sort by it. The part
//! before a `/` is its class.

use chancery_proto::rules::RuleName;
use serde::Serialize;

use crate::certificates::{CUT, EXPIRED, EXPIRES_SOON, OTHER_KEY};
use crate::serve::{
    DANGLING_REFERENCE, DUPLICATES, FILTER_TYPE, NOTHING_TO_REMOVE, SECRET_KIND, UNAPPLIED,
    UNUSED_RESOURCE,
};

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Hash)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// It is not served, or Envoy rejects it.
    Error,
    /// It is served, and somebody may want it otherwise.
    Warning,
}

/// The codes that are counted as errors, or left out, whatever they are by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Weights {
    /// If there are any, all others are left out but errors in files, behind which any may be.
    pub(super) only: Vec<String>,
    pub(super) deny: Vec<String>,
    pub(super) allow: Vec<String>,
}

/// The codes of errors that are no rules of messages.
pub(super) const ERRORS: [&str; 17] = [
    "config",
    "syntax",
    "unknown-field",
    "unknown-type",
    "wrong-value",
    "wrong-message",
    "wrong-resource",
    "duplicate-name",
    "node-value",
    "directory",
    "file/emptied",
    "file/unreadable",
    "file/symlink",
    "file/not-regular",
    "file/name",
    "file/limit",
    "file/parser",
];

/// The codes of errors that several resources make together: each of them can be used.
pub(super) const ERRORS_TOGETHER: [&str; 5] =
    [DUPLICATES[0], DUPLICATES[1], UNAPPLIED, SECRET_KIND, FILTER_TYPE];

/// The code of the error that a check for some clients leaves out what `serve` would hold back for others.
pub(super) const DECLARED_CLIENTS: &str = "declared-clients";

/// The codes of warnings that are no rules of messages.
pub(super) const WARNINGS: [&str; 32] = [
    EXPIRED,
    EXPIRES_SOON,
    OTHER_KEY,
    CUT,
    DANGLING_REFERENCE,
    UNUSED_RESOURCE,
    NOTHING_TO_REMOVE,
    GROUP_WITHOUT_FILES,
    UNSUPPORTED_RULE,
    BASELINE_UNUSED,
    ALLOW_UNUSED,
    ALLOW_UNKNOWN,
    "allow/malformed",
    "no-http-filter",
    "endpoint-port",
    "no-filters",
    "no-tls-inspector",
    "no-route-name",
    "no-authorization-server",
    "shadowed-route",
    "duplicate-endpoint",
    "duplicate-host",
    "aggregate-cycle",
    "aggregate-nested",
    "vhds/host-name",
    "secret/outside-sds",
    "file/empty",
    "file/ignored",
    "file/misplaced",
    "directory/empty",
    "directory/moving",
    "watch",
];

/// The name for all findings for which the gate holds a change back that brings them, as far as they are warnings
/// here: a directory alone does not show what was there before.
const HELD: &str = "held";

/// These findings. That a certificate has expired is not one of them, because the clock makes that of what was good.
const HELD_CODES: [&str; 11] = [
    DANGLING_REFERENCE,
    OTHER_KEY,
    CUT,
    "aggregate-cycle",
    "aggregate-nested",
    "no-http-filter",
    "endpoint-port",
    "no-filters",
    "no-tls-inspector",
    "no-route-name",
    "no-authorization-server",
];

pub(super) const BASELINE_UNUSED: &str = "baseline/unused";
pub(super) const ALLOW_UNUSED: &str = "allow/unused";
pub(super) const ALLOW_UNKNOWN: &str = "allow/unknown-code";
pub(crate) const GROUP_WITHOUT_FILES: &str = "group-without-files";
pub(crate) const UNSUPPORTED_RULE: &str = "unsupported-rule";

/// All codes.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    let rules = RuleName::ALL.iter().map(|rule| rule.code());
    let together = ERRORS_TOGETHER.into_iter().chain([DECLARED_CLIENTS]);
    ERRORS.into_iter().chain(together).chain(WARNINGS).chain(rules)
}

/// Returns true for a code or a class.
pub(crate) fn is_known(code: &str) -> bool {
    all().any(|known| has(known, code))
}

/// The codes that are denied, with those of `held` in its place.
pub(super) fn denied(codes: &[String]) -> Vec<String> {
    let one = |code: &String| match code.as_str() {
        HELD => HELD_CODES.map(str::to_owned).to_vec(),
        _ => vec![code.clone()],
    };
    codes.iter().flat_map(one).collect()
}

/// Returns true for errors of what cannot be used, in which nobody knows what else is wrong.
pub(crate) fn is_unusable(code: &str) -> bool {
    ERRORS.contains(&code)
}

/// Returns true if the code of a finding is this one, or of this class.
pub(crate) fn has(code: &str, wanted: &str) -> bool {
    code == wanted || code.split_once('/').is_some_and(|(class, _)| class == wanted)
}

impl Weights {
    /// The weight of a finding, or `None` if it is left out.
    pub(super) fn of(&self, code: &str, severity: Severity) -> Option<Severity> {
        let is_in = |codes: &[String]| codes.iter().any(|wanted| has(code, wanted));
        if !self.only.is_empty() && !is_in(&self.only) && !is_unusable(code) {
            return None;
        }
        // The one who denies a class and allows one code of it means the code.
        let exact = |codes: &[String]| codes.iter().any(|wanted| wanted == code);
        match (is_in(&self.allow), is_in(&self.deny)) {
            (true, true) if exact(&self.deny) && !exact(&self.allow) => Some(Severity::Error),
            (true, _) => None,
            (false, true) => Some(Severity::Error),
            (false, false) => Some(severity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_can_be_denied_or_allowed_alone_or_with_its_class() {
        let of = |deny: &[&str], allow: &[&str], code| {
            let own = |codes: &[&str]| codes.iter().map(|code| (*code).to_owned()).collect();
            let (deny, allow) = (own(deny), own(allow));
            Weights { deny, allow, ..Weights::default() }.of(code, Severity::Warning)
        };
        assert_eq!(of(&[], &[], "grpc"), Some(Severity::Warning));
        assert_eq!(of(&["file"], &[], "file/empty"), Some(Severity::Error));
        assert_eq!(of(&["file"], &["file/empty"], "file/empty"), None);
        assert_eq!(of(&["file/empty"], &["file"], "file/empty"), Some(Severity::Error));
        assert_eq!(of(&[], &["grpc"], "grpc"), None);
    }

    #[test]
    fn only_leaves_out_other_codes_but_no_errors_in_files() {
        let weights = Weights { only: vec!["rule".to_owned()], ..Weights::default() };
        assert_eq!(weights.of("rule/duration-gt", Severity::Error), Some(Severity::Error));
        assert_eq!(weights.of("grpc", Severity::Warning), None);
        assert_eq!(weights.of("syntax", Severity::Error), Some(Severity::Error));
    }

    #[test]
    fn codes_are_known_and_unique() {
        assert!(is_known("grpc") && is_known("rule") && is_known("rule/string-min-len"));
        assert!(!is_known("rules") && !is_known(""));
        assert!(denied(&[HELD.to_owned()]).iter().all(|code| WARNINGS.contains(&code.as_str())));
        let codes: std::collections::BTreeSet<_> = all().collect();
        assert_eq!(codes.len(), all().count());
    }

    #[test]
    fn every_code_is_documented() {
        let page = include_str!("../../../../docs/checks.md");
        for code in all() {
            assert!(page.contains(&format!("`{code}`")), "{code}");
        }
    }
}
