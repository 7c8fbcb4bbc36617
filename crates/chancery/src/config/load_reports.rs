//! The `load-reports` table: how often clients report their calls, and in which detail.
//!
//! Not here: what is kept of reports (`chancery_core::server::load`), and who may look (`admin`).

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use chancery_catalog::Lineage;
use chancery_server::{LoadInterval, LoadReporting};
use serde::{Deserialize, Serialize};

use super::groups::GroupName;
use super::units::{InvalidSpan, Span};

/// The `load-reports` table. A change takes effect without a restart.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct LoadReportsTable {
    /// The time between two reports of a client, or `off`. Default: 10s.
    pub(crate) interval: Reporting,
    /// True if Envoys are to report the calls to single endpoints too. Default: false.
    pub(crate) endpoints: bool,
    /// The same for the clients of a group and of those that extend it, by the name of the group. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) groups: BTreeMap<GroupName, Reporting>,
}

/// The time between two reports, or none at all.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Reporting(Option<LoadInterval>);

/// The error for a text that says neither how often nor `off`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidReporting {
    #[error("{0}, or `off`")]
    NoSpan(InvalidSpan),
    #[error("`{0}` is too short or too long for an interval; write `1s` to `1h`, or `off`")]
    NoInterval(Span),
}

impl LoadReportsTable {
    /// The reports of the clients of a group, or of those in none. The interval that is said of the nearest group
    /// that it extends holds for it too.
    pub(crate) fn reporting(
        &self,
        group: Option<&str>,
        lineage: &Lineage,
    ) -> Option<LoadReporting> {
        let said = |name: &str| {
            let mut all = self.groups.iter();
            all.find(|(group, _)| group.as_str() == name).map(|(_, reporting)| reporting.0)
        };
        let of_group = group.and_then(|group| {
            said(group).or_else(|| lineage.ancestors(group).find_map(|below| said(below)))
        });
        let interval = of_group.unwrap_or(self.interval.0)?;
        Some(LoadReporting { interval, by_endpoint: self.endpoints })
    }
}

impl Default for Reporting {
    fn default() -> Self {
        Self(Some(LoadInterval::default()))
    }
}

impl TryFrom<String> for Reporting {
    type Error = InvalidReporting;
    fn try_from(text: String) -> Result<Self, InvalidReporting> {
        if text == OFF {
            return Ok(Self(None));
        }
        let Span(time) = Span::from_str(&text).map_err(InvalidReporting::NoSpan)?;
        let interval = LoadInterval::new(time);
        interval.map(|it| Self(Some(it))).map_err(|_| InvalidReporting::NoInterval(Span(time)))
    }
}

impl From<Reporting> for String {
    fn from(Reporting(interval): Reporting) -> Self {
        let text = |time: Duration| Span(time).to_string();
        interval.map_or_else(|| OFF.to_owned(), |interval| text(interval.time()))
    }
}

const OFF: &str = "off";

#[cfg(test)]
mod tests {
    use chancery_proto::syntax;

    use super::*;

    fn read(text: &str) -> Result<LoadReportsTable, String> {
        syntax::from_yaml(text).map_err(|fault| fault.to_string())
    }

    fn seconds(seconds: u64) -> Option<LoadInterval> {
        LoadInterval::new(Duration::from_secs(seconds)).ok()
    }

    #[test]
    fn the_nearest_group_says_how_often() {
        let lineage = Lineage::new([("canary", "edge"), ("edge", "all")]).unwrap();
        let table = read("interval: 20s\ngroups: {edge: 1m, back: off}\n").unwrap();
        let reporting = |group| table.reporting(group, &lineage);
        let interval = |group| reporting(group).map(|it| it.interval);
        assert_eq!(interval(None), seconds(20));
        assert_eq!(interval(Some("all")), seconds(20));
        assert_eq!((interval(Some("edge")), interval(Some("canary"))), (seconds(60), seconds(60)));
        assert_eq!(interval(Some("back")), None);
        let usual = LoadReportsTable::default().reporting(None, &lineage);
        assert_eq!(usual, Some(LoadReporting::default()));
        assert_eq!(usual.map(|it| it.interval), seconds(10));
        assert_eq!(read("interval: off\n").unwrap().reporting(None, &lineage), None);
        let table = read("endpoints: true\n").unwrap();
        assert!(table.reporting(Some("edge"), &lineage).unwrap().by_endpoint);
    }

    #[test]
    fn an_interval_is_from_a_second_to_an_hour() {
        // S-131
        for right in ["1s", "1h", "90s"] {
            assert!(read(&format!("interval: {right}\n")).is_ok(), "{right}");
        }
        for (wrong, told) in
            [("0s", "too short"), ("999ms", "too short"), ("61m", "too long"), ("soon", "or `off`")]
        {
            let fault = read(&format!("groups: {{a: {wrong}}}\n")).unwrap_err();
            assert!(fault.contains(told), "{fault}");
        }
    }
}
