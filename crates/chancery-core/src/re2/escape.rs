//! Escapes: single characters, the sets of Perl, properties of Unicode, and quoted text.

use super::parser::{ALL, Parser};
use super::{Alphabet, PatternFault};

impl Parser<'_> {
    /// The rest of an escape outside of brackets.
    pub(super) fn escape(&mut self) -> Result<(), PatternFault> {
        let text = match self.rest.next().ok_or(PatternFault::TrailingBackslash)? {
            'A' => r"\A",
            'z' => r"\z",
            'b' => r"(?-u:\b)",
            'B' => r"(?-u:\B)",
            'C' => "(?s-u:.)",
            'Q' => return self.quoted(),
            kind @ ('p' | 'P') => {
                self.property(kind)?;
                ""
            }
            other => match perl_set(other) {
                Some(set) => set,
                None => {
                    let code = self.character(other)?;
                    self.code(code)?;
                    ""
                }
            },
        };
        self.out.push_str(text);
        self.one(1);
        Ok(())
    }

    /// Text that stands for itself, up to `\E` or the end.
    fn quoted(&mut self) -> Result<(), PatternFault> {
        while let Some(character) = self.rest.next() {
            if character == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return Ok(());
            }
            self.literal(character);
        }
        Ok(())
    }

    /// The name of a group of characters, as in `\pL` and `\p{Greek}`. Which names there are depends on
    /// the version of Unicode.
    pub(super) fn property(&mut self, kind: char) -> Result<(), PatternFault> {
        let mut name = self.rest.next().ok_or(PatternFault::Class)?.to_string();
        if name == "{" {
            name.clear();
            loop {
                match self.rest.next().ok_or(PatternFault::Class)? {
                    '}' => break,
                    character => name.push(character),
                }
            }
        }
        let (is_without, name) = match name.strip_prefix('^') {
            Some(name) => (true, name),
            None => (false, name.as_str()),
        };
        // RE2 has categories by their short names, and scripts, with their capitals.
        let is_name = name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.chars().all(|character| character.is_ascii_alphabetic() || character == '_');
        if !is_name {
            return Err(PatternFault::Class);
        }
        self.large_set(ALL / 8)?;
        let kind = if (kind == 'P') == is_without { 'p' } else { 'P' };
        let of = if name.len() <= 2 || name == "Any" { "" } else { "Script=" };
        self.out += &format!(r"\{kind}{{{of}{name}}}");
        Ok(())
    }

    /// The rest of an escape that stands for one character.
    pub(super) fn character(&mut self, first: char) -> Result<u32, PatternFault> {
        match first {
            '1'..='7' if !matches!(self.rest.peek(), Some('0'..='7')) => Err(PatternFault::Escape),
            '0'..='7' => {
                let mut code = first.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let digit = self.rest.peek().and_then(|next| next.to_digit(8));
                    let Some(digit) = digit else { break };
                    self.rest.next();
                    code = code * 8 + digit;
                }
                (code <= self.last_code()).then_some(code).ok_or(PatternFault::Escape)
            }
            'x' => self.hexadecimal(),
            'a' => Ok(7),
            'f' => Ok(12),
            'n' => Ok(10),
            'r' => Ok(13),
            't' => Ok(9),
            'v' => Ok(11),
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => Ok(other.into()),
            _ => Err(PatternFault::Escape),
        }
    }

    fn hexadecimal(&mut self) -> Result<u32, PatternFault> {
        let last = self.last_code();
        let mut digit = || self.rest.next().ok_or(PatternFault::Escape);
        let value = |digit: char| digit.to_digit(16).ok_or(PatternFault::Escape);
        let first = digit()?;
        if first != '{' {
            return Ok(value(first)? * 16 + value(digit()?)?);
        }
        let mut code = value(digit()?)?;
        loop {
            match digit()? {
                '}' => return Ok(code),
                next => code = code * 16 + value(next)?,
            }
            if code > last {
                return Err(PatternFault::Escape);
            }
        }
    }

    /// The greatest code of a character.
    fn last_code(&self) -> u32 {
        match self.alphabet {
            Alphabet::Latin1 => 0xff,
            Alphabet::Unicode => u32::from(char::MAX),
        }
    }

    /// Writes a character by its code. Half of a pair of UTF-16 is none in UTF-8.
    pub(super) fn code(&mut self, code: u32) -> Result<(), PatternFault> {
        let character = char::from_u32(code).ok_or(PatternFault::Escape)?;
        match character.is_ascii_alphanumeric() {
            true => self.out.push(character),
            false => self.out += &format!(r"\x{{{code:X}}}"),
        }
        Ok(())
    }
}

/// A set of Perl, which is one of ASCII.
pub(super) fn perl_set(character: char) -> Option<&'static str> {
    Some(match character {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t\n\x0c\r ]",
        'S' => r"[^\t\n\x0c\r ]",
        _ => return None,
    })
}
