//! Matchers of metadata, as in
//! [`struct.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/matcher/v3/struct.proto)
//! and
//! [`value.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/matcher/v3/value.proto).

use std::collections::BTreeMap;

use chancery_core::Value;

use super::message::{WireDoublePattern, WireValueMatcher, WireValuePattern};
use super::read::{MatcherFault, Reading, fault};
use super::text::TextMatcher;

/// A matcher of the value at a path of keys.
#[derive(Clone, Debug)]
pub(super) struct MetadataMatcher {
    pub(super) path: Vec<String>,
    pub(super) value: ValueMatcher,
}

#[derive(Clone, Debug)]
pub(super) enum ValueMatcher {
    Null,
    Exactly(f64),
    /// From the first number on, and below the second.
    Between(f64, f64),
    Text(TextMatcher),
    Bool(bool),
    /// True if there has to be a value, false if there must be none.
    Present(bool),
    /// A list in which one value matches.
    OneOf(Box<Self>),
    Any(Vec<Self>),
}

impl MetadataMatcher {
    pub(super) fn matches(&self, metadata: &BTreeMap<String, Value>) -> bool {
        let mut keys = self.path.iter();
        let mut found = keys.next().and_then(|key| metadata.get(key));
        for key in keys {
            found = match found {
                Some(Value::Map(fields)) => fields.get(key),
                _ => None,
            };
        }
        self.value.matches(found)
    }
}

impl ValueMatcher {
    fn matches(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Any(matchers), value) => matchers.iter().any(|it| it.matches(value)),
            (Self::Present(wanted), None) => !wanted,
            // Maps and lists are never present by the documentation, and never absent.
            (Self::Present(_), Some(Value::Map(_) | Value::List(_))) => false,
            (Self::Present(wanted), Some(_)) => *wanted,
            (Self::Null, Some(Value::Null)) => true,
            (Self::Exactly(number), Some(Value::Number(found))) => found == number,
            (Self::Between(from, to), Some(Value::Number(found))) => from <= found && found < to,
            (Self::Text(matcher), Some(Value::Text(text))) => matcher.matches(text),
            (Self::Bool(wanted), Some(Value::Bool(found))) => wanted == found,
            (Self::OneOf(matcher), Some(Value::List(values))) => {
                values.iter().any(|value| matcher.matches(Some(value)))
            }
            _ => false,
        }
    }
}

impl Reading {
    /// Reads a matcher of values that has at most so many others within each other.
    pub(super) fn value(
        &mut self,
        place: &str,
        message: &WireValueMatcher,
        depth: usize,
    ) -> Result<ValueMatcher, MatcherFault> {
        self.count(place)?;
        let Some(depth) = depth.checked_sub(1) else {
            return Err(fault(place, "is nested too deeply"));
        };
        Ok(match &message.pattern {
            Some(WireValuePattern::Null(_)) => ValueMatcher::Null,
            Some(WireValuePattern::Double(double)) => match double.pattern {
                Some(WireDoublePattern::Exact(number)) => ValueMatcher::Exactly(number),
                Some(WireDoublePattern::Range(range)) => {
                    ValueMatcher::Between(range.start, range.end)
                }
                None => return Err(fault(place, "has a `double_match` without a number")),
            },
            Some(WireValuePattern::Text(text)) => {
                ValueMatcher::Text(self.text(&format!("{place}.string_match"), text)?)
            }
            Some(WireValuePattern::Bool(wanted)) => ValueMatcher::Bool(*wanted),
            Some(WireValuePattern::Present(wanted)) => ValueMatcher::Present(*wanted),
            Some(WireValuePattern::List(list)) => {
                let place = format!("{place}.list_match.one_of");
                let Some(one) = &list.one_of else { return Err(fault(&place, "is missing")) };
                ValueMatcher::OneOf(Box::new(self.value(&place, one, depth)?))
            }
            Some(WireValuePattern::Or(any)) => {
                let place = format!("{place}.or_match.value_matchers");
                let matchers = any.value_matchers.iter().enumerate();
                let matchers =
                    matchers.map(|(at, it)| self.value(&format!("{place}[{at}]"), it, depth));
                ValueMatcher::Any(matchers.collect::<Result<_, _>>()?)
            }
            None => return Err(fault(place, "says nothing of the value")),
        })
    }
}
