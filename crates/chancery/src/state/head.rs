//! The head of a state: what the daemon knows of it, and where its pieces begin.
//!
//! It is a line with a digest, and JSON. A head of another program, or with one bit that is another, is
//! refused as a whole.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_catalog::{Layer, PieceId};
use chancery_core::printable::Printable;
use serde::{Deserialize, Serialize};

use crate::gate::{GateMemory, KeptAudience};

/// All that the daemon keeps beside the states of the catalog.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Head {
    /// The version of the program that wrote it.
    pub(super) program: String,
    /// The directory that was served, as text.
    pub(super) served: String,
    /// The piece that leads to all others.
    pub(super) root: String,
    /// The seconds since 1970 at which it was written.
    pub(super) written: u64,
    /// The seconds since 1970 at which a state was kept here for the first time.
    pub(super) begun: u64,
    #[serde(flatten)]
    pub(super) daemon: DaemonMemory,
}

/// The part of it that other parts of the daemon know.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct DaemonMemory {
    /// The layers that had faults, and since when.
    pub(crate) faulty: Vec<KeptLayer>,
    pub(crate) gate: GateMemory,
    /// The text of `chancery.yaml` that could be used last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<String>,
    /// The rules of groups in force, if others wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<KeptRules>,
}

/// Rules of groups that are in force, and the moves of nodes for which others wait.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KeptRules {
    /// The keys of `chancery.yaml` that were in force.
    pub(crate) in_force: serde_json::Value,
    /// The keys that wait.
    pub(crate) wanted: serde_json::Value,
    pub(crate) moves: Vec<KeptMove>,
}

/// Nodes that would move.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct KeptMove {
    pub(crate) from: KeptAudience,
    /// `None` if they would be refused.
    pub(crate) to: Option<KeptAudience>,
    pub(crate) count: usize,
    /// The first of their ids.
    pub(crate) first: Vec<String>,
}

/// A layer that keeps its last good state because of faults.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptLayer {
    layer: KeptAudience,
    /// The seconds since 1970.
    since: u64,
}

/// The error for bytes that are no head.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoHead {
    #[error("its head is damaged")]
    Damaged,
    #[error("its head is not of this version of the program: {0}")]
    Foreign(String),
    #[error("it is of the directory `{}`", Printable(.0))]
    OfAnother(String),
}

impl Head {
    /// The bytes of the head.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let text = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = format!("{MAGIC} {}\n", PieceId::of(&text)).into_bytes();
        bytes.extend(text);
        bytes
    }

    /// Reads a head of the state of this directory.
    pub(super) fn read(bytes: &[u8], served: &Path) -> Result<Self, NoHead> {
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let text = bytes.get(line.len() + 1..).unwrap_or_default();
        if line != format!("{MAGIC} {}", PieceId::of(text)).as_bytes() {
            return Err(NoHead::Damaged);
        }
        let head: Self =
            serde_json::from_slice(text).map_err(|error| NoHead::Foreign(error.to_string()))?;
        if head.served != served.to_string_lossy() {
            return Err(NoHead::OfAnother(head.served));
        }
        Ok(head)
    }
}

impl KeptLayer {
    pub(crate) fn new(layer: &Layer, since: SystemTime) -> Self {
        let text = |name: &std::sync::Arc<str>| Some(std::sync::Arc::clone(name));
        let (group, node) = match layer {
            Layer::Base => (None, None),
            Layer::Group(name) => (text(name), None),
            Layer::Node(id) => (None, text(id)),
        };
        let layer = (&chancery_catalog::Audience::of(group, node)).into();
        Self { layer, since: seconds(since) }
    }

    /// The layer.
    pub(crate) fn layer(&self) -> Layer {
        let audience = chancery_catalog::Audience::from(&self.layer);
        match (audience.group, audience.node) {
            (_, Some(id)) => Layer::Node(id),
            (Some(name), None) => Layer::Group(name),
            (None, None) => Layer::Base,
        }
    }

    /// The time.
    pub(crate) fn since(&self) -> SystemTime {
        time(self.since)
    }
}

/// The time that is so many seconds after 1970.
pub(super) fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH)
}

/// The seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A time in seconds since 1970 as people and programs read it: `2026-11-25T22:10:00Z`.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the day that some of them have more is their last one.
    let days = days.saturating_add(719_468);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, from_march) = (day - (153 * month + 2) / 5 + 1, month);
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

const MAGIC: &str = "chancery state 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_utc() {
        for (seconds, told) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), told);
        }
        utc(u64::MAX);
    }

    #[test]
    fn a_head_that_is_damaged_is_none() {
        let head = Head {
            program: "1".to_owned(),
            served: "/dir".into(),
            root: "0".to_owned(),
            written: 1,
            begun: 1,
            daemon: DaemonMemory {
                faulty: vec![KeptLayer::new(&Layer::Group("g".into()), UNIX_EPOCH)],
                ..DaemonMemory::default()
            },
        };
        let (bytes, dir) = (head.to_bytes(), Path::new("/dir"));
        assert_eq!(Head::read(&bytes, dir), Ok(head.clone()));
        assert_eq!(head.daemon.faulty[0].layer(), Layer::Group("g".into()));
        let other = Head::read(&bytes, Path::new("/other"));
        assert_eq!(other, Err(NoHead::OfAnother("/dir".into())));
        for at in 0..bytes.len() {
            assert_eq!(Head::read(&bytes[..at], dir), Err(NoHead::Damaged), "{at}");
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert_eq!(Head::read(&bad, dir), Err(NoHead::Damaged), "{at}");
        }
        let text = b"{}";
        let foreign = [format!("{MAGIC} {}\n", PieceId::of(text)).as_bytes(), text].concat();
        assert!(matches!(Head::read(&foreign, dir), Err(NoHead::Foreign(_))));
    }
}
