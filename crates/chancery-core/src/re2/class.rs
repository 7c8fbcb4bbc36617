//! Classes in brackets.

use super::PatternFault;
use super::escape::perl_set;
use super::parser::{ALL, Parser};

impl Parser<'_> {
    /// The rest of a class in brackets.
    pub(super) fn class(&mut self) -> Result<(), PatternFault> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let next = *self.rest.peek().ok_or(PatternFault::MissingBracket)?;
            if next == ']' && !is_first {
                self.rest.next();
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            if self.named_class()? {
                continue;
            }
            let least = self.class_character()?;
            self.code(least)?;
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && ahead.peek().is_some_and(|next| *next != ']') {
                self.rest = ahead;
                let most = self.class_character()?;
                if most < least {
                    return Err(PatternFault::Class);
                }
                if most - least > MOST_IN_SMALL {
                    self.large_set(most - least)?;
                }
                self.out.push('-');
                self.code(most)?;
            }
        }
    }

    /// Parses `[:alpha:]`, `\d` or `\pL`, if one is next.
    fn named_class(&mut self) -> Result<bool, PatternFault> {
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('['), Some(':')) => {
                let text: String = ahead.clone().take(LONGEST_CLASS).collect();
                let Some((name, _)) = text.split_once(":]") else { return Ok(false) };
                if !CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(PatternFault::Class);
                }
                if name.starts_with('^') {
                    self.large_set(ALL)?;
                }
                self.out += &format!("[:{name}:]");
                ahead.nth(name.chars().count() + 1);
                self.rest = ahead;
                Ok(true)
            }
            (Some('\\'), Some(kind @ ('p' | 'P'))) => {
                self.rest = ahead;
                self.property(kind)?;
                Ok(true)
            }
            (Some('\\'), Some(other)) => match perl_set(other) {
                Some(set) => {
                    if other.is_ascii_uppercase() {
                        self.large_set(ALL)?;
                    }
                    self.out.push_str(set);
                    self.rest = ahead;
                    Ok(true)
                }
                None => Ok(false),
            },
            _ => Ok(false),
        }
    }

    fn class_character(&mut self) -> Result<u32, PatternFault> {
        match self.rest.next().ok_or(PatternFault::MissingBracket)? {
            '\\' => {
                let first = self.rest.next().ok_or(PatternFault::TrailingBackslash)?;
                self.character(first)
            }
            character => Ok(character.into()),
        }
    }
}

const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];
/// The characters of a range that is looked at without a thought.
const MOST_IN_SMALL: u32 = 1_000;
/// More characters than `^` and the longest of these names have.
const LONGEST_CLASS: usize = 16;
