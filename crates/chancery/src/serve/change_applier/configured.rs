//! A changed `chancery.yaml`: its settings and the rules of its groups come into force, as far as they may.
//!
//! Not here: the file itself (`config::file`), and the moves of nodes (`rules`).

use tracing::{error, info, warn};

use super::super::gate;
use super::super::grouping::Grouping;
use super::super::rules::{self, Belonging, WantedRules};
use super::{ApplierState, ChangeApplier};
use crate::config::{Config, ConfigChange, ExternalNames, FILE};

impl ChangeApplier {
    /// Takes a changed `chancery.yaml`, as far as it can be used.
    pub(super) fn configured(&self, state: &mut ApplierState, changed: ConfigChange) {
        match changed {
            ConfigChange::Usable { config, restart } => {
                state.config_fault = None;
                let is_missing = state.file.is_missing();
                if !restart.is_empty() {
                    warn!(keys = restart.join(", "), "a restart brings these keys into force");
                }
                state.references.set_external(ExternalNames::new(&config));
                state.references.set_allowed(&config.allow);
                state.references.set_clients(&config);
                state.allowed.clone_from(&config.allow);
                let are_settings_same = self.gate.has_settings(&config);
                if self.gate.configure(&config) {
                    state.is_gate_changed = true;
                }
                if !are_settings_same {
                    gate::say_mode(&config.gate, self.gate.warns_for());
                    state.only_warns = self.gate.warns_for().is_some();
                }
                let are_in_force = self.regroup(state, &config);
                match (is_missing, are_in_force) {
                    (true, true) => warn!("chancery.yaml is gone; the defaults are in force"),
                    (false, true) => info!(
                        "chancery.yaml changed; its groups, external names and gate are in force"
                    ),
                    (true, false) => warn!(
                        "chancery.yaml is gone; the defaults are in force, and the rules of groups wait"
                    ),
                    (false, false) => warn!(
                        "chancery.yaml changed; its external names and gate are in force, and the \
                         rules of its groups wait"
                    ),
                }
                state.seen_grpc.set_config(&config);
                self.check(&state.seen_grpc);
            }
            ConfigChange::Unusable(invalid) => {
                let finding = invalid.finding();
                match finding.hint() {
                    None => {
                        error!("chancery.yaml cannot be used, what was in force stays: {finding}")
                    }
                    Some(hint) => {
                        error!(
                            hint,
                            "chancery.yaml cannot be used, what was in force stays: {finding}"
                        );
                    }
                }
                state.config_fault = Some(finding);
            }
        }
        self.metrics.config(state.config_fault.is_some());
    }

    /// Takes over which groups extend others, and the rules. Nobody is shown one without the other: a node that
    /// moves to a group which extends another would see base alone. Returns true if no rules wait.
    fn regroup(&self, state: &mut ApplierState, config: &Config) -> bool {
        let (catalog, belonging) = (self.audiences.catalog(), rules::belonging(&self.audiences));
        let lineage = config.groups.lineage();
        rules::say_lineage(&catalog.lineage(), lineage);
        let revision = catalog.extend(lineage.clone(), FILE);
        state.rules = Some(WantedRules::new(Grouping::new(config)));
        let are_in_force = self.apply_rules_to(state, belonging);
        if let Some(revision) = revision {
            self.admin.status.changes.note(&revision);
            self.audiences.follow(&revision);
        }
        are_in_force
    }

    /// Puts rules in force that are not, unless the gate holds the moves of nodes back. Returns true if none wait.
    pub(super) fn apply_rules(&self, state: &mut ApplierState) -> bool {
        match state.rules {
            Some(_) => self.apply_rules_to(state, rules::belonging(&self.audiences)),
            None => true,
        }
    }

    fn apply_rules_to(&self, state: &mut ApplierState, belonging: Belonging) -> bool {
        let Some(mut rules) = state.rules.take() else { return true };
        if *rules.grouping() == *self.audiences.assignment() {
            return self.gate.lets_move(&[]);
        }
        let moves = rules.moves(&self.audiences, belonging);
        let pass = self.gate.lets_move(&moves);
        if pass {
            rules::say(&moves);
            self.audiences.assign(rules.grouping().clone());
            state.is_unruled_stale = true;
        } else {
            state.rules = Some(rules);
        }
        pass
    }
}
