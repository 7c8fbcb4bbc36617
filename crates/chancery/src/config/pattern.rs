//! Patterns for texts that a node states about itself, and for names of resources: `*` stands for any
//! characters or none, `?` for one character, and every other character for itself. Case matters.

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

    /// The first pattern that only one text matches.
    pub(crate) fn exact(&self) -> Option<&str> {
        self.0.iter().map(String::as_str).find(|pattern| !pattern.contains(['*', '?']))
    }

    /// Returns true if any of the patterns matches the whole text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| matches(pattern, text))
    }
}

impl From<Vec<String>> for Patterns {
    fn from(patterns: Vec<String>) -> Self {
        Self(patterns)
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

/// Returns true if the pattern matches the whole text. The pieces between its `*` are looked for one
/// after the other, each at its first place, so that the text is gone through once and not copied.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, others)) = pattern.split_once('*') else {
        return without_start(pattern, text).is_some_and(str::is_empty);
    };
    let (inner, last) = others.rsplit_once('*').unwrap_or(("", others));
    let text = without_start(first, text).and_then(|text| without_end(last, text));
    let mut pieces = inner.split('*').filter(|piece| !piece.is_empty());
    text.is_some_and(|text| pieces.try_fold(text, |text, piece| behind(piece, text)).is_some())
}

/// The text behind a piece that it starts with.
fn without_start<'a>(piece: &str, text: &'a str) -> Option<&'a str> {
    if !piece.contains('?') {
        return text.strip_prefix(piece);
    }
    let mut left = text.chars();
    piece
        .chars()
        .all(|wanted| left.next().is_some_and(|found| admits(wanted, found)))
        .then_some(left.as_str())
}

/// The text before a piece that it ends with.
fn without_end<'a>(piece: &str, text: &'a str) -> Option<&'a str> {
    if !piece.contains('?') {
        return text.strip_suffix(piece);
    }
    let mut left = text.chars();
    let mut wanted = piece.chars().rev();
    wanted
        .all(|wanted| left.next_back().is_some_and(|found| admits(wanted, found)))
        .then_some(left.as_str())
}

/// The text behind the first place of a piece. With a `?` in the piece it takes at most
/// `piece × text` steps.
fn behind<'a>(piece: &str, text: &'a str) -> Option<&'a str> {
    if !piece.contains('?') {
        return text.find(piece).map(|at| &text[at + piece.len()..]);
    }
    text.char_indices().find_map(|(at, _)| without_start(piece, &text[at..]))
}

fn admits(wanted: char, found: char) -> bool {
    wanted == '?' || wanted == found
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

    /// The meaning of a pattern, word for word.
    fn means(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, rest) => rest.is_none(),
            (Some((b'*', others)), rest) => {
                means(others, text) || rest.is_some_and(|(_, behind)| means(pattern, behind))
            }
            (Some((wanted, others)), Some((found, behind))) => {
                (*wanted == b'?' || wanted == found) && means(others, behind)
            }
            (Some(_), None) => false,
        }
    }

    /// All texts of so many of these characters at most.
    fn texts(of: &str, most: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut longest = 0..1;
        for _ in 0..most {
            let longer = all[longest.clone()].iter();
            let longer =
                longer.flat_map(|text| of.chars().map(move |last| format!("{text}{last}")));
            let longer: Vec<_> = longer.collect();
            longest = all.len()..all.len() + longer.len();
            all.extend(longer);
        }
        all
    }

    #[test]
    fn a_pattern_matches_what_it_means() {
        for pattern in texts("ab*?", 5) {
            for text in texts("ab", 5) {
                let expected = means(pattern.as_bytes(), text.as_bytes());
                assert_eq!(matches(&pattern, &text), expected, "`{pattern}` and `{text}`");
            }
        }
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
