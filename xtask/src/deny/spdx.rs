//! Expressions of licences: `MIT OR (Apache-2.0 WITH LLVM-exception AND BSD-3-Clause)`.
//!
//! `WITH` binds tighter than `AND`, and that tighter than `OR`, as annex D of the SPDX
//! specification has it. A slash is how old manifests write `OR`. `MPL-2.0+` is that version or a
//! later one, so the version itself satisfies it.

/// Returns true if the licences that `is_allowed` accepts satisfy the expression. A licence with an
/// exception is one licence, `id WITH exception`.
pub(super) fn satisfied(
    expression: &str,
    is_allowed: impl Fn(&str) -> bool,
) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut reader =
        ExpressionReader { words: spaced.split_whitespace().collect(), at: 0, is_allowed };
    let found = reader.any()?;
    match reader.next() {
        None => Ok(found),
        Some(word) => Err(format!("`{word}` is not expected")),
    }
}

struct ExpressionReader<'a, F> {
    words: Vec<&'a str>,
    at: usize,
    is_allowed: F,
}

impl<'a, F: Fn(&str) -> bool> ExpressionReader<'a, F> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at).copied();
        self.at += 1;
        word
    }

    /// Takes the next word if it is this one.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.at) == Some(&word);
        self.at += usize::from(is_next);
        is_next
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut found = self.all()?;
        while self.takes("OR") {
            found |= self.all()?;
        }
        Ok(found)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut found = self.one()?;
        while self.takes("AND") {
            found &= self.one()?;
        }
        Ok(found)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.takes("(") {
            let found = self.any()?;
            return if self.takes(")") { Ok(found) } else { Err("`)` is missing".to_owned()) };
        }
        let id = self.id()?;
        let id = id.strip_suffix('+').unwrap_or(id);
        if self.takes("WITH") {
            let exception = self.id()?;
            return Ok((self.is_allowed)(&format!("{id} WITH {exception}")));
        }
        Ok((self.is_allowed)(id))
    }

    fn id(&mut self) -> Result<&'a str, String> {
        match self.next() {
            Some(word) if !["(", ")", "AND", "OR", "WITH"].contains(&word) => Ok(word),
            Some(word) => Err(format!("a licence is expected at `{word}`")),
            None => Err("a licence is expected at the end".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges with `A`, `B`, `X-1.0` and `C WITH E` allowed.
    fn judged(expression: &str) -> Result<bool, String> {
        satisfied(expression, |license| ["A", "B", "X-1.0", "C WITH E"].contains(&license))
    }

    #[test]
    fn expressions_are_satisfied_or_not() {
        for (expression, expected) in [
            ("A", true),
            ("Z", false),
            ("a", false),
            ("A OR Z", true),
            ("Z OR A", true),
            ("Z OR Y", false),
            ("A AND B", true),
            ("A AND Z", false),
            ("Z AND A", false),
            ("A/Z", true),
            ("Z / A", true),
            ("Z/Y", false),
            ("X-1.0+", true),
            ("Z+", false),
            ("C WITH E", true),
            ("C", false),
            ("A WITH E", false),
            ("C WITH F OR A", true),
        ] {
            assert_eq!(judged(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn with_binds_tighter_than_and_and_that_than_or() {
        for (expression, expected) in [
            ("A OR Z AND Z", true),
            ("Z AND Z OR A", true),
            ("(A OR Z) AND Z", false),
            ("Z AND (Z OR A)", false),
            ("(A OR Z) AND B", true),
            ("C WITH E AND A", true),
            ("A AND (A OR Z) AND ((Y OR B))", true),
        ] {
            assert_eq!(judged(expression), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression_is_told() {
        for (expression, part) in [
            ("", "expected at the end"),
            ("A OR", "expected at the end"),
            ("AND A", "expected at `AND`"),
            ("A B", "`B` is not expected"),
            ("A or B", "`or` is not expected"),
            ("(A", "`)` is missing"),
            ("A)", "`)` is not expected"),
            ("A WITH OR", "expected at `OR`"),
        ] {
            let fault = judged(expression).unwrap_err();
            assert!(fault.contains(part), "{expression}: {fault}");
        }
    }
}
