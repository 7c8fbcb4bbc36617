//! The `gate` table: what is held back before it is served.
//!
//! Not here: the checks (`chancery_proto::rules`), and the holding back (`chancery_sources`).

use chancery_proto::document::{Checks, RuleCheck};
use serde::{Deserialize, Serialize};

/// The `gate` table.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct GateConfig {
    /// The consequence of a resource that breaks a rule of Envoy's API, so that Envoy would reject
    /// it (S-063). Default: `enforce`. `warn` is for fleets that accept more, as those that are
    /// newer than Chancery or gRPC alone. A change takes effect without a restart.
    pub(crate) messages: GateMode,
}

/// The consequence of something that a check finds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GateMode {
    /// It is a fault, and the layer that it is in keeps its last good state.
    #[default]
    Enforce,
    /// It is served, with a warning.
    Warn,
    /// Nobody looks for it.
    Off,
}

impl GateConfig {
    /// The checks of the directory source.
    pub(crate) fn checks(self) -> Checks {
        let rules = match self.messages {
            GateMode::Enforce => RuleCheck::Fault,
            GateMode::Warn => RuleCheck::Warn,
            GateMode::Off => RuleCheck::Off,
        };
        Checks { rules }
    }
}
