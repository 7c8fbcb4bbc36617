//! Matchers of headers (C-096).
//!
//! A matcher is asked about a value and not about metadata, because a call that begins and one that arrives
//! do not see the same headers. Routes and RBAC share it (C-129).

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

use super::{HeaderKey, TextMatcher};

/// A condition on one header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderMatcher {
    /// The header.
    pub key: HeaderKey,
    /// The condition on its value.
    pub rule: HeaderRule,
    /// True if a value that does not fulfil the condition matches instead.
    pub is_inverted: bool,
}

/// A condition on the value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderRule {
    /// The value is a text that matches.
    Text(TextMatcher),
    /// The value is a number in decimal notation within the range.
    Range(Range<i64>),
    /// The header is there, or is not there if this is false. An empty value is one.
    Present(bool),
}

impl HeaderMatcher {
    /// Returns true if the header matches; an absent one has no value.
    ///
    /// An absent header matches only if absence is asked for: inversion is about the comparison, and there
    /// is nothing to compare.
    pub fn matches(&self, value: Option<&[u8]>) -> bool {
        let is_fulfilled = match (&self.rule, value) {
            (HeaderRule::Present(is_wanted), value) => value.is_some() == *is_wanted,
            (_, None) => return false,
            (HeaderRule::Text(matcher), Some(value)) => matcher.matches(value),
            (HeaderRule::Range(range), Some(value)) => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                number.is_some_and(|number| range.contains(&number))
            }
        };
        is_fulfilled != self.is_inverted
    }
}

/// A sentence about a header that matches.
impl Display for HeaderMatcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "header `{}` ", Printable(cut(self.key.as_str(), MAX_NAME_BYTES)))?;
        match &self.rule {
            HeaderRule::Present(is_wanted) if *is_wanted == self.is_inverted => {
                return f.write_str("is absent");
            }
            HeaderRule::Present(_) => return f.write_str("is present"),
            HeaderRule::Text(matcher) => write!(f, "{matcher}")?,
            HeaderRule::Range(range) => {
                write!(f, "is a number from {} to below {}", range.start, range.end)?;
            }
        }
        if self.is_inverted { f.write_str(", inverted") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TextPattern;
    use super::*;

    fn matches(rule: &HeaderRule, is_inverted: bool, value: Option<&str>) -> bool {
        let key = HeaderKey::new("h");
        let matcher = HeaderMatcher { key, rule: rule.clone(), is_inverted };
        matcher.matches(value.map(str::as_bytes))
    }

    fn text(pattern: TextPattern) -> HeaderRule {
        HeaderRule::Text(TextMatcher::new(pattern, false).unwrap())
    }

    #[test]
    fn every_form_has_its_inversion() {
        // C-096
        for (rule, good, bad) in [
            (text(TextPattern::Exact("ab".into())), "ab", "b"),
            (text(TextPattern::Exact("1,2".into())), "1,2", "1"),
            (text(TextPattern::Prefix("a".into())), "ab", "b"),
            (text(TextPattern::Suffix("b".into())), "ab", "a"),
            (text(TextPattern::Contains("b".into())), "abc", "ac"),
            (text(TextPattern::Regex("a+".into())), "aa", "aab"),
            (HeaderRule::Range(-5..5), "-5", "5"),
            (HeaderRule::Range(0..10), "9", "x"),
            (HeaderRule::Range(0..10), "+3", "1,2"),
            (HeaderRule::Range(0..10), "0", "99999999999999999999"),
        ] {
            assert!(matches(&rule, false, Some(good)), "{rule:?}");
            assert!(!matches(&rule, false, Some(bad)), "{rule:?}");
            assert!(!matches(&rule, true, Some(good)), "{rule:?}");
            assert!(matches(&rule, true, Some(bad)), "{rule:?}");
        }
    }

    #[test]
    fn an_absent_header_fails_every_matcher_but_presence() {
        // C-096
        for rule in [text(TextPattern::Exact(String::new())), HeaderRule::Range(0..10)] {
            assert!(!matches(&rule, false, None) && !matches(&rule, true, None), "{rule:?}");
        }
        for (is_wanted, is_inverted, if_there) in
            [(true, false, true), (true, true, false), (false, false, false), (false, true, true)]
        {
            let rule = HeaderRule::Present(is_wanted);
            assert_eq!(matches(&rule, is_inverted, Some("")), if_there);
            assert_eq!(matches(&rule, is_inverted, None), !if_there);
        }
    }

    #[test]
    fn a_matcher_is_told_in_words() {
        let told = |rule, is_inverted| {
            HeaderMatcher { key: HeaderKey::new("H"), rule, is_inverted }.to_string()
        };
        assert_eq!(told(HeaderRule::Present(true), true), "header `h` is absent");
        assert_eq!(told(HeaderRule::Present(false), true), "header `h` is present");
        let range = told(HeaderRule::Range(1..3), true);
        assert_eq!(range, "header `h` is a number from 1 to below 3, inverted");
    }
}
