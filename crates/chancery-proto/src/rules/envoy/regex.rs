//! The syntax of RE2, in which Envoy reads patterns: a pattern that RE2 cannot parse is found, in one
//! pass and without a stack.
//!
//! A pattern that is refused here is refused by RE2 (`re2/parse.cc`, with the flags of `LikePerl` and the
//! characters of Latin-1, as Envoy 1.40 uses it). Not here: how large the program of a pattern may be, which
//! Envoy bounds too.

use std::iter::Peekable;
use std::str::Chars;

/// The reason for which RE2 cannot parse a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternFault {
    MissingParenthesis,
    UnexpectedParenthesis,
    MissingBracket,
    NothingToRepeat,
    RepeatedTwice,
    RepeatSize,
    Escape,
    TrailingBackslash,
    Group,
    Class,
}

impl PatternFault {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::MissingParenthesis => "a `(` has no `)`",
            Self::UnexpectedParenthesis => "a `)` has no `(`",
            Self::MissingBracket => "a `[` has no `]`",
            Self::NothingToRepeat => "`*`, `+`, `?` or `{…}` has nothing before it to repeat",
            Self::RepeatedTwice => "something is repeated twice: put it into `(?:…)`",
            Self::RepeatSize => {
                "something is repeated more than 1000 times, or `{m,n}` has an m above n"
            }
            Self::Escape => {
                "RE2 does not know one of the escapes (it has no `\\1`, and no `\\Z` but `\\z`)"
            }
            Self::TrailingBackslash => "it ends with a `\\`",
            Self::Group => {
                "RE2 does not know one of the groups `(?…` (it has no lookahead or lookbehind)"
            }
            Self::Class => "a range in `[…]` ends before it begins, or a `[:…:]` is unknown",
        }
    }
}

/// Parses a pattern, and forgets what it means.
pub(super) fn check(pattern: &str) -> Result<(), PatternFault> {
    let mut parser = Parser {
        rest: pattern.chars().peekable(),
        groups: Vec::new(),
        group: Group::default(),
        was_repeated: false,
    };
    while parser.item()? {}
    match parser.groups.is_empty() {
        true => Ok(()),
        false => Err(PatternFault::MissingParenthesis),
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    /// The groups around the present one.
    groups: Vec<Group>,
    group: Group,
    /// True if the last item was a repetition.
    was_repeated: bool,
}

#[derive(Default)]
struct Group {
    /// The times that the last part repeats something in it; `None` if there is nothing to repeat.
    last: Option<u32>,
    /// The most times that any part repeats something in it.
    most: u32,
}

impl Group {
    fn push(&mut self, times: u32) {
        self.last = Some(times);
        self.most = self.most.max(times);
    }
}

impl Parser<'_> {
    /// Parses the next item. Returns false at the end.
    fn item(&mut self) -> Result<bool, PatternFault> {
        let Some(character) = self.rest.next() else { return Ok(false) };
        let was_repeated = std::mem::take(&mut self.was_repeated);
        match character {
            '(' => self.open()?,
            ')' => {
                let around = self.groups.pop().ok_or(PatternFault::UnexpectedParenthesis)?;
                let inner = std::mem::replace(&mut self.group, around);
                self.group.push(inner.most.max(1));
            }
            '|' => self.group.last = None,
            '[' => {
                self.class()?;
                self.group.push(1);
            }
            '*' | '+' | '?' => self.repeat(was_repeated, 0, 0)?,
            '{' => match self.counts() {
                Some((least, most)) => self.repeat(was_repeated, least, most)?,
                None => self.group.push(1),
            },
            '\\' => self.escape()?,
            _ => self.group.push(1),
        }
        Ok(true)
    }

    /// Takes note of a repetition: of so many times at least, and at most if there is a bound.
    fn repeat(&mut self, was_repeated: bool, least: u32, most: u32) -> Result<(), PatternFault> {
        if least > MOST_TIMES || most > MOST_TIMES || (most > 0 && least > most) {
            return Err(PatternFault::RepeatSize);
        }
        let inner = self.group.last.ok_or(PatternFault::NothingToRepeat)?;
        self.rest.next_if_eq(&'?');
        if was_repeated {
            return Err(PatternFault::RepeatedTwice);
        }
        let times = least.max(most).max(1).saturating_mul(inner);
        if least.max(most) >= 2 && times > MOST_TIMES {
            return Err(PatternFault::RepeatSize);
        }
        self.group.push(times);
        self.was_repeated = true;
        Ok(())
    }

    /// The counts after a `{`; `None` if it stands for itself. A missing bound is 0.
    fn counts(&mut self) -> Option<(u32, u32)> {
        let mut ahead = self.rest.clone();
        let least = number(&mut ahead)?;
        let most = match ahead.next()? {
            '}' => least,
            ',' if ahead.next_if_eq(&'}').is_some() => 0,
            ',' => {
                let most = number(&mut ahead)?;
                ahead.next_if_eq(&'}')?;
                // A bound of 0 is one, and less than any other count.
                if most == 0 && least > 0 { MOST_TIMES + 1 } else { most }
            }
            _ => return None,
        };
        self.rest = ahead;
        Some((least, most))
    }

    /// The beginning of a group, or flags.
    fn open(&mut self) -> Result<(), PatternFault> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.enter();
            return Ok(());
        }
        let is_named = match self.rest.peek() {
            Some('P') => self.rest.next().is_some(),
            other => other == Some(&'<'),
        };
        if is_named {
            return self.named();
        }
        let (mut is_negated, mut is_flagged) = (false, true);
        loop {
            match self.rest.next().ok_or(PatternFault::Group)? {
                'i' | 'm' | 's' | 'U' => is_flagged = true,
                '-' if !is_negated => (is_negated, is_flagged) = (true, false),
                ':' if is_flagged => {
                    self.enter();
                    return Ok(());
                }
                ')' if is_flagged => return Ok(()),
                _ => return Err(PatternFault::Group),
            }
        }
    }

    fn named(&mut self) -> Result<(), PatternFault> {
        self.rest.next_if_eq(&'<').ok_or(PatternFault::Group)?;
        let mut length = 0;
        loop {
            match self.rest.next().ok_or(PatternFault::Group)? {
                '>' if length > 0 => break,
                character if character.is_alphanumeric() || character == '_' => length += 1,
                // RE2 takes a few more characters of Unicode than these.
                character if !character.is_ascii() => length += 1,
                _ => return Err(PatternFault::Group),
            }
        }
        self.enter();
        Ok(())
    }

    fn enter(&mut self) {
        self.groups.push(std::mem::take(&mut self.group));
    }

    /// The rest of an escape outside of brackets.
    fn escape(&mut self) -> Result<(), PatternFault> {
        match self.rest.next().ok_or(PatternFault::TrailingBackslash)? {
            'A' | 'z' | 'b' | 'B' | 'C' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' => {}
            'Q' => return self.quoted(),
            kind @ ('p' | 'P') => self.property(kind)?,
            character => {
                self.character(character)?;
            }
        }
        self.group.push(1);
        Ok(())
    }

    /// Text that stands for itself, up to `\E` or the end.
    fn quoted(&mut self) -> Result<(), PatternFault> {
        while let Some(character) = self.rest.next() {
            if character == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return Ok(());
            }
            self.group.push(1);
        }
        Ok(())
    }

    /// The name of a group of characters, as in `\pL` and `\p{Greek}`. Which names there are depends on
    /// the version of Unicode.
    fn property(&mut self, _kind: char) -> Result<(), PatternFault> {
        if self.rest.next().ok_or(PatternFault::Class)? == '{' {
            self.rest.find(|character| *character == '}').ok_or(PatternFault::Class)?;
        }
        Ok(())
    }

    /// The rest of an escape that stands for one character.
    fn character(&mut self, first: char) -> Result<u32, PatternFault> {
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
                Ok(code)
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
            if code > LAST_CHARACTER {
                return Err(PatternFault::Escape);
            }
        }
    }

    /// The rest of a class in brackets.
    fn class(&mut self) -> Result<(), PatternFault> {
        self.rest.next_if_eq(&'^');
        let mut is_first = true;
        loop {
            let next = *self.rest.peek().ok_or(PatternFault::MissingBracket)?;
            if next == ']' && !is_first {
                self.rest.next();
                return Ok(());
            }
            is_first = false;
            if self.named_class()? {
                continue;
            }
            let least = self.class_character()?;
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && ahead.peek().is_some_and(|next| *next != ']') {
                self.rest = ahead;
                if self.class_character()? < least {
                    return Err(PatternFault::Class);
                }
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
                ahead.nth(name.chars().count() + 1);
                self.rest = ahead;
                Ok(true)
            }
            (Some('\\'), Some('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                self.rest = ahead;
                Ok(true)
            }
            (Some('\\'), Some(kind @ ('p' | 'P'))) => {
                self.rest = ahead;
                self.property(kind)?;
                Ok(true)
            }
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

/// A number without leading zeros, of eight digits at most.
fn number(ahead: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut digits = String::new();
    while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
        digits.push(digit);
        if digits.len() > 8 {
            return None;
        }
    }
    let has_zeros = digits.len() > 1 && digits.starts_with('0');
    if has_zeros { None } else { digits.parse().ok() }
}

const MOST_TIMES: u32 = 1_000;
const LAST_CHARACTER: u32 = 0xff;
const CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];
/// More characters than `^` and the longest of these names have.
const LONGEST_CLASS: usize = 16;

#[cfg(test)]
mod tests {
    use super::PatternFault::*;
    use super::*;

    #[test]
    fn patterns_that_envoy_1_40_takes_are_none_of_ours() {
        let good = [
            "",
            "/a/.*",
            "a|b|",
            "(a|b)+?",
            "a{2}",
            "a{2,}",
            "a{0,3}",
            "a{,5}",
            "a{01}",
            "a{",
            "{",
            "x{a}",
            r"a\_b",
            r"\Qa(*\E+",
            r"\pZ\p{Greek}\p{^Lu}",
            "^*",
            "(?)a",
            "(?i-s:a)",
            "(?i)a",
            "[]a]",
            "[^]a]",
            r"\10",
            r"\x41\x{ff}",
            "[--a]",
            "[a-b-c]",
            "[a-]",
            r"[\d-z]",
            r"[\]\-\x41]",
            "(?P<n>a)(?P<n>b)",
            "(?<n>a)",
            r"\C",
            "[[:^alpha:][:digit:]]",
            "[[=a=]]",
            "(a{10}){100}",
            "]",
            "}",
            "a]b",
            r"\.\/\-",
            r"^/v[0-9]+(\.[0-9]+)?/.*$",
            r"\A\bé+\z",
            "[é-ü]",
        ];
        for pattern in good {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_envoy_1_40_refuses_are_found() {
        let bad = [
            ("a(b", MissingParenthesis),
            ("a)", UnexpectedParenthesis),
            ("*a", NothingToRepeat),
            ("(a|*)", NothingToRepeat),
            ("(?i)*", NothingToRepeat),
            ("a**", RepeatedTwice),
            ("a*??", RepeatedTwice),
            ("a*{2}", RepeatedTwice),
            ("a{1001}", RepeatSize),
            ("a{100000}", RepeatSize),
            ("a{2,1}", RepeatSize),
            ("a{1,0}", RepeatSize),
            ("(a{1000}){1000}", RepeatSize),
            ("(a{10}){101}", RepeatSize),
            (r"(a)\1", Escape),
            (r"a\Z", Escape),
            (r"[a-\d]", Escape),
            (r"[\b]", Escape),
            (r"\x4", Escape),
            (r"\x{10FFFF}", Escape),
            ("\\é", Escape),
            ("a\\", TrailingBackslash),
            ("(?=a)b", Group),
            ("(?<=a)b", Group),
            ("(?!a)", Group),
            ("(?-)a", Group),
            ("(?P<n-x>a)", Group),
            ("[z-a]", Class),
            ("[[:nope:]]", Class),
            ("[a", MissingBracket),
            ("[[:alpha:]", MissingBracket),
        ];
        for (pattern, fault) in bad {
            assert_eq!(check(pattern), Err(fault), "{pattern}");
        }
    }

    #[test]
    fn long_patterns_cost_their_length() {
        let groups = 100_000;
        let nested = "(".repeat(groups) + &")".repeat(groups);
        assert_eq!(check(&nested), Ok(()));
        assert_eq!(check(&"[[:".repeat(groups)), Err(MissingBracket));
        assert_eq!(check(&"{1".repeat(groups)), Ok(()));
    }
}
