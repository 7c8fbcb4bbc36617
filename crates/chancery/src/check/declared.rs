//! A check for other clients than those that the directory declares says what that leaves out: `serve` judges by the
//! clients that are declared. Not here: the clients (`config::clients`).

use std::collections::HashSet;

use super::allowances;
use super::codes::{DECLARED_CLIENTS, Severity, Weights};
use super::finding::Finding;
use super::findings::Findings;
use super::load::LoadedDirectory;
use crate::config::{FILE, GateMode};

impl Findings {
    /// Adds an error if `serve` would hold back messages of the directory, loaded for the clients that it declares, which
    /// are no errors here.
    pub(super) fn add_declared(&mut self, declared: &LoadedDirectory, weights: &Weights) {
        let LoadedDirectory { config, report, .. } = declared;
        if config.gate.messages != GateMode::Enforce {
            return;
        }
        let mut others = Self::of_load(report);
        allowances::apply(&config.allow, &report.allowances, true, &mut others);
        // A warning that the flags deny is none to `serve`.
        let others = others.weighed(&Weights { deny: Vec::new(), ..weights.clone() });
        let (theirs, ours) = (others.count(Severity::Error), self.count(Severity::Error));
        let known: HashSet<_> = self.all.iter().collect();
        let is_new = |finding: &&Finding| !known.contains(finding);
        let errors = others.all.iter().filter(|finding| finding.severity == Severity::Error);
        let count = errors.filter(is_new).count().max(theirs.saturating_sub(ours));
        if count > 0 {
            let errors = if count == 1 { "1 error".into() } else { format!("{count} errors") };
            let mut finding = Finding::warning(
                DECLARED_CLIENTS,
                format!(
                    "`chancery serve` holds back {errors} that these clients do not mind: it judges by the clients \
                     that {FILE} declares, or else for Envoy"
                ),
            );
            finding.severity = Severity::Error;
            finding.hint = Some("`chancery check` without `--for` shows them".to_owned());
            self.all.push(finding);
        }
    }
}
