//! Durations and sizes as people write them: `15s`, `4MiB`.
//!
//! A bare number is refused for durations (seconds? milliseconds?) and means bytes for sizes.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A length of time: `500ms`, `15s`, `2m`, `1h`, or parts put together as in `1h30m`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "Scalar", into = "String")]
pub(crate) struct Span(pub(crate) Duration);

/// A length of time, or `never`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "Scalar", into = "String")]
pub(crate) struct SpanOrNever(pub(crate) Option<Duration>);

/// A number of bytes: `65536`, `64KiB`, `4MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "Scalar", into = "String")]
pub(crate) struct Size(pub(crate) usize);

/// The error for a text that is no length of time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration; write `500ms`, `15s`, `2m` or `1h30m`")]
pub(crate) struct InvalidSpan(String);

/// The error for a text that is neither a length of time nor `never`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no duration; write `500ms`, `15s`, `2m`, `1h30m` or `never`")]
pub(crate) struct InvalidSpanOrNever(String);

/// The error for a text that is no size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no size; write `65536`, `64KiB`, `4MiB` or `1GiB`")]
pub(crate) struct InvalidSize(String);

/// A text or a number as it is written, so that an error can quote a number without a unit.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a number with a unit")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(text.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar(number.to_string()))
    }
}

impl FromStr for Span {
    type Err = InvalidSpan;
    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        spans(text).map(Self).ok_or_else(|| InvalidSpan(text.to_owned()))
    }
}

impl TryFrom<Scalar> for Span {
    type Error = InvalidSpan;
    fn try_from(Scalar(text): Scalar) -> Result<Self, InvalidSpan> {
        text.parse()
    }
}

impl Display for Span {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_millis();
        if left == 0 {
            return f.write_str("0s");
        }
        for (unit, length) in UNITS {
            if left >= length {
                write!(f, "{}{unit}", left / length)?;
                left %= length;
            }
        }
        Ok(())
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl TryFrom<Scalar> for SpanOrNever {
    type Error = InvalidSpanOrNever;
    fn try_from(Scalar(text): Scalar) -> Result<Self, InvalidSpanOrNever> {
        if text == NEVER {
            return Ok(Self(None));
        }
        spans(&text).map(|span| Self(Some(span))).ok_or(InvalidSpanOrNever(text))
    }
}

impl From<SpanOrNever> for String {
    fn from(span: SpanOrNever) -> Self {
        span.0.map_or_else(|| NEVER.to_owned(), |length| Span(length).to_string())
    }
}

impl FromStr for Size {
    type Err = InvalidSize;
    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let scale = match unit.trim_start() {
            "" | "B" => Some(1),
            "KiB" => Some(1 << 10),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1 << 30),
            _ => None,
        };
        let bytes = number.parse::<usize>().ok().zip(scale).and_then(|(n, by)| n.checked_mul(by));
        bytes.map(Self).ok_or_else(|| InvalidSize(text.to_owned()))
    }
}

impl TryFrom<Scalar> for Size {
    type Error = InvalidSize;
    fn try_from(Scalar(text): Scalar) -> Result<Self, InvalidSize> {
        text.parse()
    }
}

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let scales = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        match scales.iter().find(|(_, by)| self.0 >= *by && self.0.is_multiple_of(*by)) {
            Some((unit, by)) => write!(f, "{}{unit}", self.0 / by),
            None => write!(f, "{}", self.0),
        }
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

/// The sum of all parts, if every part is a number with a unit.
fn spans(text: &str) -> Option<Duration> {
    let mut total: u128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let (_, length) = UNITS.iter().find(|(known, _)| *known == unit)?;
        total = total.checked_add(number.parse::<u128>().ok()?.checked_mul(*length)?)?;
        rest = after;
    }
    let millis = u64::try_from(total).ok()?;
    (!text.is_empty()).then(|| Duration::from_millis(millis))
}

const NEVER: &str = "never";

/// Units of time in milliseconds, longest first.
const UNITS: [(&str, u128); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> Option<u128> {
        text.parse::<Span>().ok().map(|span| span.0.as_millis())
    }

    #[test]
    fn a_duration_is_written_with_its_unit() {
        assert_eq!(millis("500ms"), Some(500));
        assert_eq!(millis("1h30m"), Some(5_400_000));
        assert_eq!(millis("0s"), Some(0));
        for wrong in ["", "15", "s", "15 s", "-1s", "1.5s", "1d", "99999999999999999999h"] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_need_not_happen_is_never() {
        let read = |text: &str| SpanOrNever::try_from(Scalar(text.to_owned())).map(|span| span.0);
        assert_eq!(read("never"), Ok(None));
        assert_eq!(read("1m"), Ok(Some(Duration::from_secs(60))));
        assert!(read("off").is_err());
        assert_eq!(String::from(SpanOrNever(None)), "never");
    }

    #[test]
    fn a_size_is_bytes_or_has_a_binary_unit() {
        let bytes = |text: &str| text.parse::<Size>().ok().map(|size| size.0);
        assert_eq!(bytes("65536"), Some(65536));
        assert_eq!(bytes("4MiB"), Some(4 << 20));
        for wrong in ["", "MiB", "4MB", "-1", "1.5KiB", "99999999999999999999GiB"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_printed_is_what_can_be_read() {
        for text in ["0s", "500ms", "1h30m", "1m1ms"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for text in ["0", "1000", "64KiB", "3MiB", "1GiB"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }
}
