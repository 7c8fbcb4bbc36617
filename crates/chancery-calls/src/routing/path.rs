//! Matchers of paths (C-095).

use std::fmt::{self, Display, Formatter};

use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};

use crate::matching::Pattern;

/// A condition on the path of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatcher {
    /// The path is this.
    Exact {
        /// The path.
        path: Box<str>,
        /// True if ASCII letters are compared without their case.
        ignores_case: bool,
    },
    /// The path begins with this; all paths do with nothing.
    Prefix {
        /// The beginning.
        prefix: Box<str>,
        /// True if ASCII letters are compared without their case.
        ignores_case: bool,
    },
    /// The whole path matches the pattern.
    Regex(Pattern),
}

impl PathMatcher {
    /// Returns true if the path matches.
    pub fn matches(&self, path: &str) -> bool {
        let path = path.as_bytes();
        match self {
            Self::Exact { path: exact, ignores_case } => {
                is_same(path, exact.as_bytes(), *ignores_case)
            }
            Self::Prefix { prefix, ignores_case } => {
                let start = path.get(..prefix.len());
                start.is_some_and(|start| is_same(start, prefix.as_bytes(), *ignores_case))
            }
            Self::Regex(pattern) => pattern.matches(path),
        }
    }
}

fn is_same(one: &[u8], other: &[u8], ignores_case: bool) -> bool {
    if ignores_case { one.eq_ignore_ascii_case(other) } else { one == other }
}

/// A sentence about a path that matches.
impl Display for PathMatcher {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (verb, text, ignores_case) = match self {
            Self::Exact { path, ignores_case } => ("is", &**path, *ignores_case),
            Self::Prefix { prefix, .. } if prefix.is_empty() => return f.write_str("any path"),
            Self::Prefix { prefix, ignores_case } => ("begins with", &**prefix, *ignores_case),
            Self::Regex(pattern) => ("matches", pattern.as_str(), false),
        };
        write!(f, "path {verb} `{}`", Printable(cut(text, MAX_NAME_BYTES)))?;
        if ignores_case { f.write_str(" without its case") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(path: &str, ignores_case: bool) -> PathMatcher {
        PathMatcher::Exact { path: path.into(), ignores_case }
    }

    fn prefix(prefix: &str, ignores_case: bool) -> PathMatcher {
        PathMatcher::Prefix { prefix: prefix.into(), ignores_case }
    }

    #[test]
    fn paths_match_by_prefix_exactly_or_by_a_pattern_of_the_whole_path() {
        // C-095
        let regex = |text| PathMatcher::Regex(Pattern::new(text).unwrap());
        for (matcher, good, bad) in [
            (exact("/s/M", false), &["/s/M"][..], &["/s/m", "/s/M2", "/s", ""][..]),
            (exact("/s/M", true), &["/s/M", "/S/m"], &["/s/M2"]),
            (prefix("/s", false), &["/s", "/s/M", "/s2"], &["/S/M", "/", "x/s"]),
            (prefix("/s", true), &["/S/M"], &["/t"]),
            (prefix("", false), &["", "/s/M"], &[]),
            (regex("/s/[MN]"), &["/s/M", "/s/N"], &["/s/MN", "x/s/M", "/S/M"]),
        ] {
            assert!(good.iter().all(|path| matcher.matches(path)), "{matcher}");
            assert!(!bad.iter().any(|path| matcher.matches(path)), "{matcher}");
        }
    }

    #[test]
    fn a_matcher_is_told_in_words() {
        assert_eq!(exact("/s", true).to_string(), "path is `/s` without its case");
        assert_eq!(prefix("/s", false).to_string(), "path begins with `/s`");
        assert_eq!(prefix("", false).to_string(), "any path");
    }
}
