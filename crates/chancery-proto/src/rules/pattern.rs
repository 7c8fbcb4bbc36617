//! Patterns in the syntax of RE2, with the crate `regex`.
//!
//! A pattern that cannot be translated is an error, which the caller reports.
//!
//! Generated Go code looks for a pattern anywhere in a text, and C++ code wants the whole text to
//! match it. All patterns of Envoy's API begin with `^` and end with `$`, so that the two agree.

use chancery_core::re2::{self, Alphabet, PatternFault};
use regex::bytes::{Regex, RegexBuilder};

/// Compiles a pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = re2::translated(pattern, Alphabet::Unicode).map_err(PatternFault::text)?;
    let mut builder = RegexBuilder::new(&translated);
    // A pattern of a descriptor set that somebody else wrote costs no more than this.
    builder.size_limit(MAX_SIZE).nest_limit(100);
    builder.build().map_err(|error| error.to_string())
}

/// Compiles a pattern of a peer that the whole of a text has to match, to so many bytes at most.
pub(crate) fn compile_whole(pattern: &str, max_size: usize) -> Result<Regex, String> {
    let translated = re2::translated(pattern, Alphabet::Unicode).map_err(PatternFault::text)?;
    let mut builder = RegexBuilder::new(&format!(r"\A(?:{translated})\z"));
    builder.size_limit(max_size).dfa_size_limit(max_size).nest_limit(100);
    builder.build().map_err(|error| error.to_string())
}

const MAX_SIZE: usize = 1 << 20;

/// Compiles a text that stands for itself.
pub(super) fn literal(bytes: &[u8]) -> Result<Regex, String> {
    let pattern: String = bytes.iter().map(|byte| format!(r"\x{byte:02x}")).collect();
    let mut builder = RegexBuilder::new(&pattern);
    builder.unicode(false).size_limit(MAX_SIZE).build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_is_that_of_re2() {
        for (pattern, good, bad) in [
            (r"^\d+$", &["12"][..], &["", "\u{661}"][..]),
            (r"^[\d\-_]*$", &["", "1-_"], &["a"]),
            (r"^[^[/]+$", &["a"], &["[", "a/"]),
            (r"^[]a]$", &["]", "a"], &["b"]),
            (r"^[a&&b~~c]+$", &["a&b~c"], &["d"]),
            (r"^[[:alpha:]_]+$", &["ab_"], &["1"]),
            (r"^\w\W$", &["a-", "aé"], &["éa"]),
            (r"^.$", &["é"], &["ab", "\n"]),
            ("^[^\u{0}-\u{8}\u{a}]*$", &["", "a\t"], &["\n"]),
        ] {
            let regex = compile(pattern).unwrap();
            assert!(good.iter().all(|text| regex.is_match(text.as_bytes())), "{pattern}");
            assert!(!bad.iter().any(|text| regex.is_match(text.as_bytes())), "{pattern}");
        }
        assert!(compile(r"(a").is_err() && compile(r"a{1000}{1000}{1000}").is_err());
        assert!(compile("^[+--]$").is_ok() && compile("^--[a-]$").is_ok());
    }

    #[test]
    fn the_bound_on_sets_is_none_of_grpc() {
        let many = r"\pL".repeat(33);
        assert!(compile(&many).is_err());
        assert!(crate::rules::is_pattern(&many) && !crate::rules::is_pattern("a**"));
    }

    #[test]
    fn a_literal_stands_for_its_bytes() {
        let found = |part: &[u8], bytes| literal(part).unwrap().is_match(bytes);
        assert!(found(b"\xffc\n", b"a\xffc\nb") && found(b"", b"a") && found(b".*", b"a.*"));
        assert!(!found(b"\xffc", b"a\xff") && !found(b".", b"a") && !found(b"A", b"a"));
    }
}
