//! Matchers of texts: exact, by a part, or by a pattern (C-096).

use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};
use regex::bytes::{Regex, RegexBuilder};

use super::{MatcherError, Pattern};

/// The form of a matcher, and the text that it looks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TextPattern {
    /// The whole text is this.
    Exact(String),
    /// The text begins with this, which is not empty.
    Prefix(String),
    /// The text ends with this, which is not empty.
    Suffix(String),
    /// The text has this in it, which is not empty.
    Contains(String),
    /// The whole text matches this pattern of RE2.
    Regex(String),
}

/// A matcher of texts.
#[derive(Clone, Debug)]
pub struct TextMatcher {
    pattern: TextPattern,
    ignores_case: bool,
    engine: Engine,
}

/// The part of a matcher that is made once, if its form needs one.
#[derive(Clone, Debug)]
enum Engine {
    None,
    /// A search whose time is that of the text, whatever the part that is looked for.
    Search(Regex),
    Whole(Pattern),
}

impl TextMatcher {
    /// Makes a matcher. The case is that of ASCII letters; a pattern has its own way to ignore it.
    pub fn new(pattern: TextPattern, ignores_case: bool) -> Result<Self, MatcherError> {
        let engine = match &pattern {
            TextPattern::Exact(_) => Engine::None,
            TextPattern::Prefix(text) => not_empty("prefix", text).map(|()| Engine::None)?,
            TextPattern::Suffix(text) => not_empty("suffix", text).map(|()| Engine::None)?,
            TextPattern::Contains(text) => {
                not_empty("contains", text)?;
                Engine::Search(search(text, ignores_case)?)
            }
            TextPattern::Regex(text) => Engine::Whole(Pattern::new(text)?),
        };
        let ignores_case = ignores_case && !matches!(engine, Engine::Whole(_));
        Ok(Self { pattern, ignores_case, engine })
    }

    /// Makes a matcher of one text, which is compared with its case.
    pub fn exact(text: &str) -> Self {
        let pattern = TextPattern::Exact(text.to_owned());
        Self { pattern, ignores_case: false, engine: Engine::None }
    }

    /// Returns the text, if the whole text has to be this one. Its case may still not count.
    pub fn exact_text(&self) -> Option<&str> {
        match &self.pattern {
            TextPattern::Exact(text) => Some(text),
            _ => None,
        }
    }

    /// Returns true if the text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        match (&self.engine, &self.pattern) {
            (Engine::Search(regex), _) => regex.is_match(text),
            (Engine::Whole(pattern), _) => pattern.matches(text),
            (Engine::None, TextPattern::Prefix(prefix)) => {
                text.get(..prefix.len()).is_some_and(|start| self.is_same(start, prefix))
            }
            (Engine::None, TextPattern::Suffix(suffix)) => {
                let start = text.len().checked_sub(suffix.len());
                start.is_some_and(|start| self.is_same(&text[start..], suffix))
            }
            (Engine::None, TextPattern::Exact(exact)) => self.is_same(text, exact),
            (Engine::None, TextPattern::Contains(_) | TextPattern::Regex(_)) => false,
        }
    }

    fn is_same(&self, text: &[u8], expected: &str) -> bool {
        match self.ignores_case {
            true => text.eq_ignore_ascii_case(expected.as_bytes()),
            false => text == expected.as_bytes(),
        }
    }
}

impl PartialEq for TextMatcher {
    fn eq(&self, other: &Self) -> bool {
        (&self.pattern, self.ignores_case) == (&other.pattern, other.ignores_case)
    }
}

impl Eq for TextMatcher {}

impl Hash for TextMatcher {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.pattern, self.ignores_case).hash(state);
    }
}

/// The rest of a sentence about a text that matches.
impl Display for TextMatcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (verb, text) = match &self.pattern {
            TextPattern::Exact(text) => ("is", text),
            TextPattern::Prefix(text) => ("begins with", text),
            TextPattern::Suffix(text) => ("ends with", text),
            TextPattern::Contains(text) => ("contains", text),
            TextPattern::Regex(text) => ("matches", text),
        };
        write!(f, "{verb} `{}`", Printable(cut(text, MAX_NAME_BYTES)))?;
        match self.ignores_case {
            true => f.write_str(" without its case"),
            false => Ok(()),
        }
    }
}

fn not_empty(form: &'static str, text: &str) -> Result<(), MatcherError> {
    if text.is_empty() { Err(MatcherError::EmptyText(form)) } else { Ok(()) }
}

fn search(text: &str, ignores_case: bool) -> Result<Regex, MatcherError> {
    let mut builder = RegexBuilder::new(&regex::escape(text));
    builder.unicode(false).case_insensitive(ignores_case);
    builder.build().map_err(|fault| MatcherError::Pattern {
        pattern: text.to_owned(),
        reason: fault.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::TextPattern::*;
    use super::*;

    fn matcher(form: fn(String) -> TextPattern, text: &str, ignores_case: bool) -> TextMatcher {
        TextMatcher::new(form(text.to_owned()), ignores_case).unwrap()
    }

    #[test]
    fn each_form_matches_what_it_says() {
        // C-096
        for (form, text, good, bad) in [
            (Exact as fn(_) -> _, "ab", &["ab"][..], &["", "a", "abc", "AB"][..]),
            (Exact, "", &[""], &["a"]),
            (Prefix, "ab", &["ab", "abc"], &["", "a", "xab", "Ab"]),
            (Suffix, "ab", &["ab", "xab"], &["", "b", "abx", "aB"]),
            (Contains, "a.b", &["a.b", "xa.by"], &["", "axb", "a.B"]),
            (Contains, "é", &["xéy"], &["e"]),
            (Regex, "a|b+", &["a", "bb"], &["ab", "xa", "B"]),
        ] {
            let matcher = matcher(form, text, false);
            assert!(good.iter().all(|text| matcher.matches(text.as_bytes())), "{matcher}");
            assert!(!bad.iter().any(|text| matcher.matches(text.as_bytes())), "{matcher}");
        }
    }

    #[test]
    fn case_is_ignored_where_it_is_asked_for_and_never_in_a_pattern() {
        // C-096
        for (form, text, good) in [
            (Exact as fn(_) -> _, "aB", "Ab"),
            (Prefix, "aB", "AbX"),
            (Suffix, "aB", "xAB"),
            (Contains, "a.B", "xA.by"),
        ] {
            let matcher = matcher(form, text, true);
            assert!(matcher.matches(good.as_bytes()), "{matcher}");
            assert!(!matcher.matches(b"axb!"), "{matcher}");
        }
        assert!(!matcher(Regex, "ab", true).matches(b"AB"));
        assert_eq!(matcher(Regex, "ab", true), matcher(Regex, "ab", false));
    }

    #[test]
    fn a_part_that_is_empty_is_refused() {
        for (form, name) in
            [(Prefix as fn(_) -> _, "prefix"), (Suffix, "suffix"), (Contains, "contains")]
        {
            let fault = TextMatcher::new(form(String::new()), false);
            assert_eq!(fault, Err(MatcherError::EmptyText(name)));
        }
    }

    #[test]
    fn a_matcher_is_told_in_words() {
        assert_eq!(matcher(Prefix, "a\n", true).to_string(), "begins with `a\\n` without its case");
        assert_eq!(matcher(Regex, "a", true).to_string(), "matches `a`");
    }
}
