//! The `gate` table: what is held back before it is served.
//!
//! Not here: the checks of messages (`chancery_proto::rules`), the judgement of losses (`crate::gate`), and the
//! holding back.

use std::fmt;

use chancery_proto::document::RuleCheck;
use serde::{Deserialize, Deserializer, Serialize};

use super::list;
use super::pattern::Patterns;
use super::units::SpanOrNever;

/// The `gate` table. A change takes effect without a restart.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct GateConfig {
    /// The consequence of a resource that breaks a rule of Envoy's API, so that Envoy would reject
    /// it (S-063). Default: `enforce`. `warn` is for fleets that accept more, as those that are
    /// newer than Chancery or gRPC alone.
    pub(crate) messages: GateMode,
    /// The consequence of a load that takes away much of what the nodes of an audience have.
    /// Default: `enforce`.
    pub(crate) loss: GateMode,
    /// The consequence of a load after which references lead nowhere that did not before. Default:
    /// `enforce`.
    pub(crate) dangling: GateMode,
    /// The share of the clusters, listeners, routes or endpoints of an audience, in percent, above which
    /// their loss counts. Default: 50.
    pub(crate) loss_percent: Percent,
    /// Patterns for the names of endpoint sets that may scale to zero. Default: none.
    #[serde(deserialize_with = "patterns")]
    pub(crate) may_be_empty: Patterns,
    /// The time after which a load passes that is held back, if its content is still the same. Default:
    /// `never`.
    pub(crate) pass_after: SpanOrNever,
    /// The time after the first start for which `enforce` means `warn`, for a fleet that has to get used to it.
    /// Default: `never`. The first start is the first one with the state directory; without one it is the
    /// last one.
    pub(crate) warn_for: SpanOrNever,
}

/// The consequence of something that the gate finds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GateMode {
    /// It is held back: a layer with a broken rule keeps its last good state, and a loss waits until somebody
    /// confirms it.
    #[default]
    Enforce,
    /// It is served, with a warning.
    Warn,
    /// Nobody looks for it.
    Off,
}

impl fmt::Display for GateMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforce",
            Self::Warn => "warn",
            Self::Off => "off",
        })
    }
}

/// A number from 0 to 100.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "u64", into = "u64")]
pub(crate) struct Percent(pub(crate) u64);

/// The error for a number that is no percentage.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no percentage; write a number from 0 to 100")]
pub(crate) struct InvalidPercent(u64);

impl TryFrom<u64> for Percent {
    type Error = InvalidPercent;
    fn try_from(number: u64) -> Result<Self, InvalidPercent> {
        if number <= 100 { Ok(Self(number)) } else { Err(InvalidPercent(number)) }
    }
}

impl From<Percent> for u64 {
    fn from(percent: Percent) -> Self {
        percent.0
    }
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            messages: GateMode::default(),
            loss: GateMode::default(),
            dangling: GateMode::default(),
            loss_percent: Percent(50),
            may_be_empty: Patterns::default(),
            pass_after: SpanOrNever(None),
            warn_for: SpanOrNever(None),
        }
    }
}

impl GateConfig {
    /// The check of the rules of messages.
    pub(crate) fn rules(&self) -> RuleCheck {
        match self.messages {
            GateMode::Enforce => RuleCheck::Fault,
            GateMode::Warn => RuleCheck::Warn,
            GateMode::Off => RuleCheck::Off,
        }
    }
}

/// One pattern, or a list of them, which may be empty.
fn patterns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patterns, D::Error> {
    list::texts::<D, String>(deserializer).map(Patterns::from)
}

#[cfg(test)]
mod tests {
    use chancery_proto::syntax;

    use super::*;

    fn read(text: &str) -> Result<GateConfig, String> {
        syntax::from_yaml(text).map_err(|fault| fault.to_string())
    }

    #[test]
    fn every_key_is_read_and_has_a_default() {
        assert_eq!(read("{}"), Ok(GateConfig::default()));
        let all = read("loss: warn\ndangling: off\nloss-percent: 30\nmay-be-empty: [a, b-*]\npass-after: 1h30m\nwarn-for: 168h\n")
            .unwrap();
        assert_eq!((all.loss, all.loss_percent), (GateMode::Warn, Percent(30)));
        assert_eq!(all.dangling, GateMode::Off);
        assert!(all.may_be_empty.matches("b-1") && !all.may_be_empty.matches("c"));
        assert_eq!(all.pass_after, SpanOrNever(Some(std::time::Duration::from_secs(5400))));
        assert_eq!(all.warn_for, SpanOrNever(Some(std::time::Duration::from_secs(604_800))));
        assert!(read("may-be-empty: a\n").unwrap().may_be_empty.matches("a"));
        assert!(read("may-be-empty: []\n").unwrap().may_be_empty.is_empty());
    }

    #[test]
    fn a_slip_is_told() {
        assert!(read("loss-percent: 101\n").unwrap_err().contains("from 0 to 100"));
        assert!(read("loss: on\n").unwrap_err().contains("unknown value `on`"));
        assert!(read("pass-after: 5\n").unwrap_err().contains("or `never`"));
    }
}
