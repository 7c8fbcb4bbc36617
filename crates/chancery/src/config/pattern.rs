//! Patterns for texts that a node states about itself: `*` stands for any characters or none, `?`
//! for one character, and every other character for itself. Case matters.

use std::fmt::{self, Formatter};

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// One pattern or several, of which any may match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Patterns(Vec<String>);

impl Patterns {
    /// Returns true if there is no pattern, so that there is no condition.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if any of the patterns matches the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, text))
    }
}

/// Reads one text, or a list of texts. Numbers and truth values are read as they are written.
impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PatternsVisitor)
    }
}

struct PatternsVisitor;

impl<'de> Visitor<'de> for PatternsVisitor {
    type Value = Patterns;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a pattern such as `edge-*`, or a list of patterns")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Patterns, E> {
        Ok(Patterns(vec![text.to_owned()]))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Patterns, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Patterns, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Patterns, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Patterns, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Patterns, A::Error> {
        let mut all = Vec::new();
        while let Some(Patterns(more)) = list.next_element()? {
            all.extend(more);
        }
        if all.is_empty() {
            return Err(A::Error::invalid_value(Unexpected::Seq, &self));
        }
        Ok(Patterns(all))
    }
}

/// Returns true if the pattern matches the whole text. On a mismatch the last `*` takes one
/// character more, so there are at most `pattern × text` steps, whatever text a node sends.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                (p, t) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|left| *left == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_the_whole_text() {
        assert!(matches("edge-1", "edge-1"));
        assert!(!matches("edge", "edge-1"));
        assert!(!matches("Edge", "edge"));
        assert!(matches("", ""));
    }

    #[test]
    fn a_star_takes_any_run_and_a_question_mark_one() {
        assert!(matches("edge-*", "edge-"));
        assert!(matches("*", ""));
        assert!(matches("*-a-*", "x-a-b-a-y"));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-c-b"));
        assert!(matches("z?", "zü"));
        assert!(!matches("z?", "z"));
    }

    #[test]
    fn a_hostile_text_costs_no_more_than_its_length_times_the_pattern() {
        assert!(!matches(&"*a".repeat(100), &"a".repeat(99)));
        assert!(!matches("*a*a*a*a*b", &"a".repeat(10_000)));
    }

    #[test]
    fn one_pattern_needs_no_list() {
        let read = |text: &str| serde_json::from_str::<Patterns>(text);
        assert_eq!(read("\"a\"").unwrap(), read("[\"a\"]").unwrap());
        assert!(read("[\"a\", \"b-*\"]").unwrap().matches("b-1"));
        assert!(read("true").unwrap().matches("true"));
        assert!(read("8").unwrap().matches("8"));
        assert!(read("[]").is_err());
        assert!(read("{}").is_err());
    }
}
