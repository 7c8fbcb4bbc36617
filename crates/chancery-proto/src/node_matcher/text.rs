//! A matcher of texts, as in
//! [`string.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/type/matcher/v3/string.proto).
//!
//! Patterns are compiled for an engine whose time is that of the text, to a bounded size.

use chancery_core::printable::{Printable, cut};
use regex::bytes::Regex;

use super::message::{WireStringMatcher, WireStringPattern};
use crate::rules::compile_whole;

#[derive(Clone, Debug)]
pub(super) struct TextMatcher {
    pattern: TextPattern,
    /// True if ASCII letters are compared without their case; the pattern is in lower case then.
    ignores_case: bool,
}

#[derive(Clone, Debug)]
enum TextPattern {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
    Regex(Regex),
}

impl TextMatcher {
    /// Reads a matcher. The error is the rest of a sentence about it.
    pub(super) fn read(message: &WireStringMatcher) -> Result<Self, String> {
        let ignores_case = message.ignore_case;
        let text = |key: &str, text: &String| match text.as_str() {
            "" => Err(format!("has an empty `{key}`")),
            text if text.len() > MAX_TEXT_BYTES => {
                Err(format!("has a `{key}` of more than {MAX_TEXT_BYTES} bytes"))
            }
            text if ignores_case => Ok(text.to_ascii_lowercase()),
            text => Ok(text.to_owned()),
        };
        let pattern = match &message.pattern {
            // The empty text can be meant exactly, but nothing is said by it in another way.
            Some(WireStringPattern::Exact(exact)) if exact.is_empty() => {
                TextPattern::Exact(String::new())
            }
            Some(WireStringPattern::Exact(it)) => TextPattern::Exact(text("exact", it)?),
            Some(WireStringPattern::Prefix(it)) => TextPattern::Prefix(text("prefix", it)?),
            Some(WireStringPattern::Suffix(it)) => TextPattern::Suffix(text("suffix", it)?),
            Some(WireStringPattern::Contains(it)) => TextPattern::Contains(text("contains", it)?),
            // `ignore_case` does not concern it.
            Some(WireStringPattern::SafeRegex(it)) => TextPattern::Regex(regex(&it.regex)?),
            Some(WireStringPattern::Custom(_)) => {
                return Err("has a `custom` matcher, which is known to Envoy alone".to_owned());
            }
            None => {
                return Err("has none of exact, prefix, suffix, contains, safe_regex".to_owned());
            }
        };
        Ok(Self { pattern, ignores_case })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        if let TextPattern::Regex(regex) = &self.pattern {
            return regex.is_match(text.as_bytes());
        }
        if self.ignores_case {
            return self.has(&text.to_ascii_lowercase());
        }
        self.has(text)
    }

    fn has(&self, text: &str) -> bool {
        match &self.pattern {
            TextPattern::Exact(exact) => text == exact,
            TextPattern::Prefix(prefix) => text.starts_with(prefix.as_str()),
            TextPattern::Suffix(suffix) => text.ends_with(suffix.as_str()),
            TextPattern::Contains(part) => text.contains(part.as_str()),
            TextPattern::Regex(regex) => regex.is_match(text.as_bytes()),
        }
    }
}

/// Compiles a pattern, which has to match the whole of a text, as in Envoy.
fn regex(pattern: &str) -> Result<Regex, String> {
    if pattern.is_empty() {
        return Err("has an empty `safe_regex.regex`".to_owned());
    }
    if pattern.len() > MAX_TEXT_BYTES {
        return Err(format!("has a `safe_regex.regex` of more than {MAX_TEXT_BYTES} bytes"));
    }
    compile_whole(pattern, MAX_REGEX_BYTES).map_err(|why| {
        // The error of the engine draws an arrow below the pattern; its last line says what is wrong.
        let why = why.lines().last().unwrap_or_default();
        let pattern = cut(pattern, SHOWN_BYTES);
        format!("has a `safe_regex` that cannot be used, `{}`: {}", Printable(&pattern), why)
    })
}

/// The bytes of a text or pattern.
const MAX_TEXT_BYTES: usize = 1024;

/// The bytes of a pattern when it is compiled.
const MAX_REGEX_BYTES: usize = 128 * 1024;

/// The bytes of a pattern that an error quotes.
const SHOWN_BYTES: usize = 100;
