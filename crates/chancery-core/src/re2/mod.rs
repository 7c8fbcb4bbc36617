//! Patterns in the syntax of RE2, in which Envoy and gRPC read them, for the crate `regex`.
//!
//! The two differ in many places. In RE2, `\d`, `\w`, `\s` and `\b` are about ASCII, in brackets `[`, `&&`,
//! `~~` and `--` stand for themselves, outside of them so does a `{` without counts; it has `\Q…\E`, `\z`, `\C` and
//! octal numbers, and neither `\<` nor the flag `x`, and repeats nothing twice or more than a thousand times. So a
//! pattern is parsed, in one pass and without recursion, and written anew. Not here: its compilation.

mod class;
mod escape;
mod fault;
mod parser;

pub use self::fault::PatternFault;
use self::parser::Parser;

/// The characters that a pattern may name by their codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    /// Those of Latin-1, as in Envoy.
    Latin1,
    /// Those of Unicode, as in gRPC.
    Unicode,
}

/// The pattern in the syntax of `regex`, which may still find that a class `\p{…}` does not exist, or that
/// the program of the pattern is too large. Groups keep their numbers, and have no names.
///
/// # Errors
///
/// If RE2 refuses the pattern.
///
/// ```
/// use chancery_core::re2::{self, Alphabet, PatternFault};
///
/// let translated = |pattern| re2::translated(pattern, Alphabet::Unicode);
/// assert_eq!(translated(r"^\d[^[]$").as_deref(), Ok(r"^[0-9][^\x{5B}]$"));
/// assert_eq!(translated(r"\Qa.b\E{").as_deref(), Ok(r"a\.b\{"));
/// assert_eq!(translated("a**"), Err(PatternFault::RepeatedTwice));
/// ```
pub fn translated(pattern: &str, alphabet: Alphabet) -> Result<String, PatternFault> {
    Parser::new(pattern, alphabet).translate()
}

#[cfg(test)]
mod tests;
