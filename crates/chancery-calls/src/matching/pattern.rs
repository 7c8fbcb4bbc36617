//! Patterns of RE2 that a whole text has to match, and rewriting by patterns.
//!
//! The engine's time is that of the text, whatever the pattern. Patterns are over bytes, because the value
//! of a header need not be UTF-8.

use std::borrow::Cow;

use chancery_core::printable::{MAX_NAME_BYTES, cut};
use chancery_core::re2::{self, Alphabet};
use regex::bytes::{Captures, Regex, RegexBuilder, Replacer};

use super::MatcherError;

/// The bytes of a pattern.
const MAX_LENGTH: usize = 16 << 10;
/// The bytes that a compiled pattern may take. The engine's own default, which no honest pattern reaches.
const MAX_SIZE: usize = 10 << 20;

/// A pattern that the whole of a text has to match (C-095, C-096).
#[derive(Clone, Debug)]
pub struct Pattern {
    source: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    pub fn new(source: &str) -> Result<Self, MatcherError> {
        let regex = compile(source, |translated| format!(r"\A(?:{translated})\z"))?;
        Ok(Self { source: source.into(), regex })
    }

    /// The text that the pattern was made of.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Returns true if the whole text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

/// A pattern and a text: each place that the pattern matches is replaced by the text (C-104).
///
/// In the text, `\0` is the place itself, `\1` to `\9` are groups of the pattern, and `\\` is a backslash.
#[derive(Clone, Debug)]
pub struct Rewrite {
    source: Box<str>,
    substitution: Box<str>,
    regex: Regex,
}

impl Rewrite {
    /// Compiles a pattern, and checks the substitution.
    pub fn new(pattern: &str, substitution: &str) -> Result<Self, MatcherError> {
        let regex = compile(pattern, |translated| translated)?;
        let groups = regex.captures_len() - 1;
        if !is_substitution(substitution, groups) {
            let substitution = substitution.to_owned();
            return Err(MatcherError::Substitution { substitution, groups });
        }
        Ok(Self { source: pattern.into(), substitution: substitution.into(), regex })
    }

    /// The text after all replacements.
    pub fn apply<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        self.regex.replace_all(text, Substitution(&self.substitution))
    }
}

impl PartialEq for Rewrite {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, &self.substitution) == (&other.source, &other.substitution)
    }
}

impl Eq for Rewrite {}

/// A substitution in the notation of RE2, where the engine's own is another one.
struct Substitution<'s>(&'s str);

impl Replacer for Substitution<'_> {
    fn replace_append(&mut self, captures: &Captures<'_>, out: &mut Vec<u8>) {
        let mut bytes = self.0.bytes();
        while let Some(byte) = bytes.next() {
            match (byte, byte == b'\\') {
                (_, true) => match bytes.next() {
                    Some(digit @ b'0'..=b'9') => {
                        let group = captures.get(usize::from(digit - b'0'));
                        out.extend(group.map_or(&b""[..], |group| group.as_bytes()));
                    }
                    other => out.extend(other),
                },
                (byte, false) => out.push(byte),
            }
        }
    }
}

fn is_substitution(text: &str, groups: usize) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            continue;
        }
        match bytes.next() {
            Some(b'\\') => {}
            Some(digit @ b'0'..=b'9') if usize::from(digit - b'0') <= groups => {}
            _ => return false,
        }
    }
    true
}

/// Compiles a pattern, or what is made of it in the syntax of the engine.
fn compile(pattern: &str, make: impl Fn(String) -> String) -> Result<Regex, MatcherError> {
    if pattern.len() > MAX_LENGTH {
        let pattern = cut(pattern, MAX_NAME_BYTES).into_owned();
        let reason = format!("it is longer than {MAX_LENGTH} bytes");
        return Err(MatcherError::Pattern { pattern, reason });
    }
    let error = |reason: &str| MatcherError::Pattern {
        pattern: pattern.to_owned(),
        reason: reason.to_owned(),
    };
    let translated =
        re2::translated(pattern, Alphabet::Unicode).map_err(|fault| error(fault.text()))?;
    let mut builder = RegexBuilder::new(&make(translated));
    builder.size_limit(MAX_SIZE).nest_limit(100);
    builder.build().map_err(|fault| match fault {
        regex::Error::CompiledTooBig(_) => error("its program is too large"),
        // The last line has the reason, and those before it the pattern as the engine has it.
        other => {
            let text = other.to_string();
            let reason = text.lines().next_back().unwrap_or_default();
            error(reason.strip_prefix("error: ").unwrap_or(reason))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_text_has_to_match() {
        // C-095
        let pattern = Pattern::new("/a|/ab").unwrap();
        for (text, matches) in
            [("/a", true), ("/ab", true), ("/abc", false), ("x/a", false), ("/a\n", false)]
        {
            assert_eq!(pattern.matches(text.as_bytes()), matches, "{text:?}");
        }
        assert!(Pattern::new("").unwrap().matches(b""));
    }

    #[test]
    fn a_pattern_that_is_none_is_refused() {
        for bad in ["(", "a)|(b", r"(?=a)", "a**", "(?x)a", r"\p{Nothing}", "(?:a{1000}){1000}"] {
            assert!(matches!(Pattern::new(bad), Err(MatcherError::Pattern { .. })), "{bad}");
        }
    }

    #[test]
    fn a_value_that_is_not_text_is_matched_by_its_bytes() {
        assert!(Pattern::new("a.*").unwrap().matches("aé".as_bytes()));
        assert!(!Pattern::new("a").unwrap().matches(b"a\xff"));
    }

    #[test]
    fn the_syntax_is_that_of_re2() {
        // C-095, C-096
        for (pattern, good, bad) in [
            ("(?i)v1", &["v1", "V1"][..], &["w1"][..]),
            ("(?i)[U-W]1", &["v1", "V1"], &["x1"]),
            ("(?i:a)b", &["Ab", "ab"], &["aB"]),
            ("(?ii-i)a", &["a"], &["A"]),
            ("(?i)é", &["É"], &["e"]),
            (r"(?i)\w", &["K", "\u{212a}", "\u{17f}"], &["é"]),
            ("(?s).", &["\n"], &[""]),
            (r"\pL\p{Ll}\p{^Greek}\P{Greek}", &["Äbcd"], &["aBcd", "abcα"]),
            (r"\076\x3d\x{10FFFF}", &[">=\u{10FFFF}"], &[">="]),
            (r"\Qa.*\E+", &["a.*", "a.**"], &["abc"]),
            (r"a\z", &["a"], &["az"]),
            ("a{,2}{", &["a{,2}{"], &["aa{"]),
            (r"\<*\>", &["<<>", ">"], &["a"]),
            (r"\b{start}", &[], &["start", "{start}"]),
            ("[a-z--b][+--]", &["a,", "--", "b-"], &["a*"]),
            ("(?P<n>a)(?<n>b)", &["ab"], &["a"]),
            (r"\C\C", &["é"], &["e"]),
            ("(?)a|(?:)b", &["a", "b"], &["ab"]),
            ("a(?i)+b|c", &["aaB", "C"], &["A"]),
            ("(?:a(?i))b", &["ab"], &["aB"]),
        ] {
            let regex = Pattern::new(pattern).unwrap();
            for text in good {
                assert!(regex.matches(text.as_bytes()), "{pattern} {text:?}");
            }
            for text in bad {
                assert!(!regex.matches(text.as_bytes()), "{pattern} {text:?}");
            }
        }
        let why = |pattern: &str| Pattern::new(pattern).unwrap_err().to_string();
        assert!(why(&"a".repeat(20_000)).ends_with("it is longer than 16384 bytes"));
        assert!(why("a**").ends_with("something is repeated twice: put it into `(?:…)`"));
        assert!(why(r"\p{Nothing}").ends_with("cannot be used: Unicode property value not found"));
    }

    #[test]
    fn a_rewrite_replaces_every_place() {
        for (pattern, substitution, text, expected) in [
            ("a+", "x", "baac", "bxc"),
            ("a*", "x", "baac", "xbxcx"),
            (r"(\d+)-(\d+)", r"\2.\1", "1-2 30-40", "2.1 40.30"),
            (r"/[^/]*$", "", "/a/b/c", "/a/b"),
            ("b", r"<\0\\>", "abc", r"a<b\>c"),
            ("b", "$0", "abc", "a$0c"),
            ("(x)?b", r"[\1]", "abc", "a[]c"),
        ] {
            let rewrite = Rewrite::new(pattern, substitution).unwrap();
            assert_eq!(rewrite.apply(text.as_bytes()), expected.as_bytes(), "{pattern}");
        }
    }

    #[test]
    fn a_substitution_that_means_nothing_is_refused() {
        for bad in [r"\1", r"\", r"\n", r"a\x41"] {
            let fault = Rewrite::new("a", bad).unwrap_err();
            assert!(matches!(fault, MatcherError::Substitution { groups: 0, .. }), "{bad}");
        }
        let text = Rewrite::new("(a)", r"\2").unwrap_err().to_string();
        let part = r"the substitution `\2` may have no other escapes than `\\` and `\0` to `\1`, ";
        assert_eq!(text, format!("{part}as the pattern has no others"));
    }
}
