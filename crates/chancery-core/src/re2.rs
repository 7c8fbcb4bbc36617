//! Patterns in the syntax of RE2, in which Envoy and gRPC read them, for the crate `regex`.
//!
//! The two differ in a few places: in RE2, `\d`, `\w`, `\s` and `\b` are about ASCII, and in brackets
//! `[`, `&&` and `~~` stand for themselves. A pattern with `--` in brackets cannot be translated. Not here:
//! the check that RE2 would take a pattern, and its compilation.

/// The pattern in the syntax of `regex`; `None` if that has no way to say it.
///
/// ```
/// use chancery_core::re2;
///
/// assert_eq!(re2::translated(r"^\d[^[]$").as_deref(), Some(r"^[0-9][^\[]$"));
/// assert_eq!(re2::translated("[+--]"), None);
/// ```
pub fn translated(pattern: &str) -> Option<String> {
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
