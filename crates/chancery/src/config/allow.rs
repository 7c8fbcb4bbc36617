//! The `allow` key: codes of findings that nobody wants to hear of, each with a reason.
//!
//! Not here: the codes (`check`), and comments in files, which let a single finding pass (`chancery-sources`).

use std::collections::BTreeMap;

use chancery_sources::{LoadReport, Warning};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::check::codes;

/// The codes and classes that are allowed, with the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct AllowedCodes(BTreeMap<String, String>);

impl AllowedCodes {
    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The codes and classes.
    pub(crate) fn codes(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns true if nobody wants to hear of findings of this code.
    pub(crate) fn allow(&self, code: &str) -> bool {
        !codes::is_unusable(code) && self.codes().any(|allowed| codes::has(code, allowed))
    }

    /// The warnings that somebody wants to hear of.
    pub(crate) fn wanted<'a>(&self, warnings: impl Iterator<Item = &'a Warning>) -> Vec<Warning> {
        warnings.filter(|warning| !self.allow(warning.code)).cloned().collect()
    }

    /// Leaves the warnings out of a report that nobody wants to hear of.
    pub(crate) fn leave_out(&self, report: &mut LoadReport) {
        if self.is_empty() {
            return;
        }
        report.warnings = self.wanted(report.warnings.iter());
        let present = self.wanted(report.present_warnings.iter());
        report.warning_count -= report.present_warnings.len() - present.len();
        report.present_warnings = present.into();
    }
}

/// A mapping of codes to reasons. A code that does not exist is a slip, and a reason is needed.
impl<'de> Deserialize<'de> for AllowedCodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = BTreeMap::<String, String>::deserialize(deserializer)?;
        for (code, reason) in &all {
            let why = if !codes::is_known(code) {
                "no finding has this code, and no class"
            } else if codes::is_unusable(code) {
                "what cannot be used cannot be allowed"
            } else if reason.trim().is_empty() {
                "say why"
            } else {
                continue;
            };
            return Err(D::Error::custom(format!("`{code}`: {why}")));
        }
        Ok(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use chancery_proto::syntax;

    use super::*;

    #[test]
    fn a_code_is_allowed_with_a_reason() {
        let read = |text: &str| syntax::from_yaml::<AllowedCodes>(text);
        let some = read("grpc: there is none\nrule/number-lte: older clients\n").unwrap();
        assert!(some.allow("grpc/ignored") && some.allow("rule/number-lte"));
        assert!(!some.allow("rule/number-lt") && !some.allow("syntax"));
        for (text, told) in [
            ("grcp: x\n", "no finding has this code"),
            ("grpc: ''\n", "say why"),
            ("syntax: x\n", "cannot be allowed"),
        ] {
            let fault = read(text).unwrap_err().to_string();
            assert!(fault.contains(told), "{fault}");
        }
    }
}
