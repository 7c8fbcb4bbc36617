//! Patterns in the syntax of RE2, with the crate `regex`.
//!
//! The two differ in a few places: in RE2, `\d`, `\w`, `\s` and `\b` are about ASCII, and in brackets
//! `[`, `&&` and `~~` stand for themselves. A pattern that cannot be translated is an error, which
//! the caller reports: one with `--` in brackets is.
//!
//! Generated Go code looks for a pattern anywhere in a text, and C++ code wants the whole text to
//! match it. All patterns of Envoy's API begin with `^` and end with `$`, so that the two agree.

use regex::bytes::{Regex, RegexBuilder};

/// Compiles a pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = translated(pattern).ok_or("`--` in brackets")?;
    let mut builder = RegexBuilder::new(&translated);
    // A pattern of a descriptor set that somebody else wrote costs no more than this.
    builder.size_limit(MAX_SIZE).nest_limit(100);
    builder.build().map_err(|error| error.to_string())
}

/// Compiles a pattern of a peer that the whole of a text has to match, to so many bytes at most.
pub(crate) fn compile_whole(pattern: &str, max_size: usize) -> Result<Regex, String> {
    let translated = translated(pattern).ok_or("`--` in brackets")?;
    let build = |pattern: &str| {
        let mut builder = RegexBuilder::new(pattern);
        builder.size_limit(max_size).dfa_size_limit(max_size).nest_limit(100);
        builder.build().map_err(|error| error.to_string())
    };
    // A pattern that is none by itself may be one in the group: `a)|(b`.
    build(&translated)?;
    build(&format!(r"\A(?:{translated})\z"))
}

const MAX_SIZE: usize = 1 << 20;

/// Compiles a text that stands for itself.
pub(super) fn literal(bytes: &[u8]) -> Result<Regex, String> {
    let pattern: String = bytes.iter().map(|byte| format!(r"\x{byte:02x}")).collect();
    let mut builder = RegexBuilder::new(&pattern);
    builder.unicode(false).size_limit(MAX_SIZE).build().map_err(|error| error.to_string())
}

/// The pattern in the syntax of `regex`; `None` if that has no way to say it.
fn translated(pattern: &str) -> Option<String> {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    // The number of characters of the class so far, if the place is in one.
    let mut class: Option<usize> = None;
    while let Some(character) = rest.next() {
        match (character, class) {
            ('\\', _) => {
                escape(rest.next(), class.is_some(), &mut out);
                class = class.map(|read| read + 1);
            }
            ('[', None) => {
                out.push('[');
                if rest.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                class = Some(0);
            }
            // The first one stands for itself.
            (']', Some(0)) => {
                out.push_str(r"\]");
                class = Some(1);
            }
            (']', Some(_)) => {
                out.push(']');
                class = None;
            }
            ('[', Some(read)) => {
                if rest.peek() == Some(&':') {
                    out.push('[');
                    for named in rest.by_ref() {
                        out.push(named);
                        if named == ']' {
                            break;
                        }
                    }
                } else {
                    out.push_str(r"\[");
                }
                class = Some(read + 1);
            }
            // Here it is a difference of two sets, and a range that begins or ends with it in RE2.
            ('-', Some(_)) if rest.peek() == Some(&'-') => return None,
            ('&' | '~', Some(read)) => {
                out.push('\\');
                out.push(character);
                class = Some(read + 1);
            }
            (other, read) => {
                out.push(other);
                class = read.map(|read| read + 1);
            }
        }
    }
    Some(out)
}

fn escape(character: Option<char>, in_class: bool, out: &mut String) {
    let set = match character {
        Some('d') => "0-9",
        Some('D') => "^0-9",
        Some('w') => "0-9A-Za-z_",
        Some('W') => "^0-9A-Za-z_",
        Some('s') => r"\t\n\x0c\r ",
        Some('S') => r"^\t\n\x0c\r ",
        Some(boundary @ ('b' | 'B')) if !in_class => {
            out.push_str(r"(?-u:\");
            out.push(boundary);
            out.push(')');
            return;
        }
        other => {
            out.push('\\');
            out.extend(other);
            return;
        }
    };
    out.push('[');
    out.push_str(set);
    out.push(']');
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
        assert!(compile("^[+--]$").is_err() && compile("^--[a-]$").is_ok());
    }

    #[test]
    fn a_literal_stands_for_its_bytes() {
        let found = |part: &[u8], bytes| literal(part).unwrap().is_match(bytes);
        assert!(found(b"\xffc\n", b"a\xffc\nb") && found(b"", b"a") && found(b".*", b"a.*"));
        assert!(!found(b"\xffc", b"a\xff") && !found(b".", b"a") && !found(b"A", b"a"));
    }
}
