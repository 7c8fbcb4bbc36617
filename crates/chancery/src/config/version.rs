//! Ranges of client versions, as in `>=1.36, <1.40`.
//!
//! A version is numbers with dots; what follows a `-` or `+` is not compared, and missing numbers
//! are zero. A number without a sign (`1.36`) means every version that starts with it.

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A range: every bound must hold.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct VersionRange(Vec<Bound>);

/// The error for a text that is no range of versions.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no range of versions; write `1.36`, `>=1.36` or `>=1.36, <1.40`")]
pub(crate) struct InvalidRange(String);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Bound {
    sign: Sign,
    numbers: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    StartsWith,
    Below,
    AtMost,
    Above,
    AtLeast,
}

impl VersionRange {
    /// Returns true if a client's version is in the range. A version that cannot be read is in no
    /// range.
    pub(crate) fn contains(&self, version: &str) -> bool {
        let release = version.split(['-', '+']).next().unwrap_or_default();
        numbers(release).is_some_and(|found| self.0.iter().all(|bound| bound.admits(&found)))
    }
}

impl Bound {
    fn admits(&self, found: &[u32]) -> bool {
        let order = compare(found, &self.numbers);
        match self.sign {
            Sign::StartsWith => found.starts_with(&self.numbers),
            Sign::Below => order == Ordering::Less,
            Sign::AtMost => order != Ordering::Greater,
            Sign::Above => order == Ordering::Greater,
            Sign::AtLeast => order != Ordering::Less,
        }
    }
}

impl FromStr for VersionRange {
    type Err = InvalidRange;
    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let bounds: Option<Vec<_>> = text.split(',').map(|part| bound(part.trim())).collect();
        bounds.map(Self).ok_or_else(|| InvalidRange(text.to_owned()))
    }
}

impl TryFrom<String> for VersionRange {
    type Error = InvalidRange;
    fn try_from(text: String) -> Result<Self, InvalidRange> {
        text.parse()
    }
}

impl Display for VersionRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, Bound { sign, numbers }) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let (sign, _) = SIGNS.iter().find(|(_, known)| known == sign).unwrap_or(&SIGNS[4]);
            let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            write!(f, "{comma}{sign}{}", numbers.join("."))?;
        }
        Ok(())
    }
}

impl From<VersionRange> for String {
    fn from(range: VersionRange) -> Self {
        range.to_string()
    }
}

fn bound(text: &str) -> Option<Bound> {
    let (sign, rest) = SIGNS
        .iter()
        .find_map(|(written, sign)| text.strip_prefix(written).map(|rest| (*sign, rest)))?;
    Some(Bound { sign, numbers: numbers(rest.trim())? })
}

fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

fn compare(one: &[u32], other: &[u32]) -> Ordering {
    let at = |numbers: &[u32], index: usize| numbers.get(index).copied().unwrap_or(0);
    (0..one.len().max(other.len()))
        .map(|index| at(one, index).cmp(&at(other, index)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Longer signs first, so that `>=` is not read as `>`.
const SIGNS: [(&str, Sign); 5] = [
    (">=", Sign::AtLeast),
    ("<=", Sign::AtMost),
    (">", Sign::Above),
    ("<", Sign::Below),
    ("", Sign::StartsWith),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn within(range: &str, version: &str) -> bool {
        range.parse::<VersionRange>().unwrap().contains(version)
    }

    #[test]
    fn a_range_holds_the_versions_between_its_bounds() {
        // S-064
        assert!(within(">=1.36, <1.40", "1.36.0"));
        assert!(within(">=1.36, <1.40", "1.39.3"));
        assert!(!within(">=1.36, <1.40", "1.40.0"));
        assert!(!within(">=1.36", "1.9.9"));
        assert!(within("<=1.36.2", "1.36.2"));
        assert!(!within(">1.36.2", "1.36.2"));
        assert!(within("1.36", "1.36.2"));
        assert!(!within("1.3", "1.36.2"));
        assert!(within(">=1.40", "1.40.0-dev+5fa2"));
    }

    #[test]
    fn a_version_that_cannot_be_read_is_in_no_range() {
        for version in ["", "dev", "1.x", "99999999999.0"] {
            assert!(!within(">=0", version), "{version}");
        }
    }

    #[test]
    fn what_is_printed_is_what_can_be_read() {
        for text in ["1.36", ">=1.36, <1.40", ">1, <=2.0.1"] {
            assert_eq!(text.parse::<VersionRange>().unwrap().to_string(), text);
        }
        for wrong in ["", ">=", "~1.2", ">=1.36 <1.40", "v1"] {
            assert!(wrong.parse::<VersionRange>().is_err(), "{wrong}");
        }
    }
}
