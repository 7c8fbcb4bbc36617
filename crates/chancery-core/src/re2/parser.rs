//! The items of a pattern: groups, alternatives and repetitions. Not here: escapes and classes.
//!
//! RE2 refuses what is refused here (`re2/parse.cc`, with the flags of `LikePerl`, as Envoy 1.40 uses it), but for a few
//! things that nobody writes: a repetition that only flags part from another one, half of a pair of UTF-16, and more
//! sets of Unicode than are worth their costs. A repetition after an empty `\Q\E`, or after flags with a `U`, is one of
//! the part before in both, and may be refused here or choose another length.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use super::{Alphabet, PatternFault};

/// A parser, and what it has written so far.
pub(super) struct Parser<'a> {
    pub(super) rest: Peekable<Chars<'a>>,
    pub(super) alphabet: Alphabet,
    pub(super) out: String,
    /// The groups around the present one.
    groups: Vec<Group>,
    group: Group,
    /// True if the last item was a repetition.
    was_repeated: bool,
    /// The flags that are set or not from the next part on. A repetition is still one of the part before.
    flags: Flags,
    /// The number of characters in the large sets so far.
    covered: u32,
}

/// Flags that are set, or are not any more.
type Flags = BTreeMap<char, bool>;

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

impl<'a> Parser<'a> {
    pub(super) fn new(pattern: &'a str, alphabet: Alphabet) -> Self {
        Self {
            rest: pattern.chars().peekable(),
            alphabet,
            out: String::with_capacity(pattern.len()),
            groups: Vec::new(),
            group: Group::default(),
            was_repeated: false,
            flags: Flags::new(),
            covered: 0,
        }
    }

    pub(super) fn translate(mut self) -> Result<String, PatternFault> {
        while self.item()? {}
        match self.groups.is_empty() {
            true => Ok(self.out),
            false => Err(PatternFault::MissingParenthesis),
        }
    }

    /// Parses the next item. Returns false at the end.
    fn item(&mut self) -> Result<bool, PatternFault> {
        let Some(character) = self.rest.next() else { return Ok(false) };
        let was_repeated = std::mem::take(&mut self.was_repeated);
        match character {
            '(' => self.open(was_repeated)?,
            ')' => {
                let around = self.groups.pop().ok_or(PatternFault::UnexpectedParenthesis)?;
                let inner = std::mem::replace(&mut self.group, around);
                self.flags.clear();
                self.out.push(')');
                self.one(inner.most.max(1));
            }
            '|' => {
                self.out.push('|');
                self.group.last = None;
            }
            '[' => {
                self.write_flags();
                self.class()?;
                self.one(1);
            }
            '*' | '+' | '?' => self.repeat(was_repeated, 0, 0, &character.to_string())?,
            '{' => match self.counts() {
                Some((least, most, text)) => self.repeat(was_repeated, least, most, &text)?,
                None => self.literal('{'),
            },
            '\\' => {
                self.write_flags();
                self.escape()?;
            }
            '.' | '^' | '$' => {
                self.write_flags();
                self.out.push(character);
                self.one(1);
            }
            _ => self.literal(character),
        }
        Ok(true)
    }

    /// Takes note of a set of thousands of characters, whose compilation may look at each of them.
    pub(super) fn large_set(&mut self, characters: u32) -> Result<(), PatternFault> {
        self.covered = self.covered.saturating_add(characters);
        let is_allowed = self.alphabet == Alphabet::Latin1 || self.covered <= MOST_COVERED;
        is_allowed.then_some(()).ok_or(PatternFault::TooLarge)
    }

    /// Takes note of a part that may be repeated.
    pub(super) fn one(&mut self, times: u32) {
        self.group.push(times);
    }

    /// Writes a character that stands for itself.
    pub(super) fn literal(&mut self, character: char) {
        self.write_flags();
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            self.out.push('\\');
        }
        self.out.push(character);
        self.one(1);
    }

    /// Writes a repetition: of so many times at least, and at most if there is a bound.
    fn repeat(
        &mut self,
        was_repeated: bool,
        least: u32,
        most: u32,
        text: &str,
    ) -> Result<(), PatternFault> {
        if least > MOST_TIMES || most > MOST_TIMES || (most > 0 && least > most) {
            return Err(PatternFault::RepeatSize);
        }
        let inner = self.group.last.ok_or(PatternFault::NothingToRepeat)?;
        self.out.push_str(text);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
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

    /// The counts after a `{`, and their text; `None` if it stands for itself. A missing bound is 0.
    fn counts(&mut self) -> Option<(u32, u32, String)> {
        let mut ahead = self.rest.clone();
        let least = number(&mut ahead)?;
        let (most, text) = match ahead.next()? {
            '}' => (least, format!("{{{least}}}")),
            ',' if ahead.next_if_eq(&'}').is_some() => (0, format!("{{{least},}}")),
            ',' => {
                let most = number(&mut ahead)?;
                ahead.next_if_eq(&'}')?;
                // A bound of 0 is one, and less than any other count.
                let bound = if most == 0 && least > 0 { MOST_TIMES + 1 } else { most };
                (bound, format!("{{{least},{most}}}"))
            }
            _ => return None,
        };
        self.rest = ahead;
        Some((least, most, text))
    }

    /// The beginning of a group, or flags, after which a repetition is still one of the part before.
    fn open(&mut self, was_repeated: bool) -> Result<(), PatternFault> {
        if self.rest.next_if_eq(&'?').is_none() {
            self.enter("(");
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
        let mut flags = Flags::new();
        loop {
            match self.rest.next().ok_or(PatternFault::Group)? {
                flag @ ('i' | 'm' | 's' | 'U') => {
                    is_flagged = true;
                    flags.insert(flag, !is_negated);
                }
                '-' if !is_negated => (is_negated, is_flagged) = (true, false),
                ':' if is_flagged => {
                    self.enter(&format!("(?{}:", written(&flags)));
                    return Ok(());
                }
                ')' if is_flagged => {
                    self.flags.append(&mut flags);
                    // RE2 would repeat twice here what it repeats twice nowhere else. Nobody means that.
                    self.was_repeated = was_repeated;
                    return Ok(());
                }
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
        self.enter("(");
        Ok(())
    }

    /// Writes the flags for what comes.
    fn write_flags(&mut self) {
        if !self.flags.is_empty() {
            self.out += &format!("(?{})", written(&std::mem::take(&mut self.flags)));
        }
    }

    fn enter(&mut self, text: &str) {
        self.write_flags();
        self.out.push_str(text);
        self.groups.push(std::mem::take(&mut self.group));
    }
}

/// Flags that are on, and those that are off after a `-`.
fn written(flags: &Flags) -> String {
    let all =
        |is_on: bool| flags.iter().filter(move |(_, on)| **on == is_on).map(|(flag, _)| *flag);
    let off: String = all(false).collect();
    let dash = if off.is_empty() { "" } else { "-" };
    all(true).chain(dash.chars()).chain(off.chars()).collect()
}

/// A number without leading zeros, of nine digits at most.
fn number(ahead: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut digits = String::new();
    while let Some(digit) = ahead.next_if(char::is_ascii_digit) {
        digits.push(digit);
        if digits.len() > 9 {
            return None;
        }
    }
    let has_zeros = digits.len() > 1 && digits.starts_with('0');
    if has_zeros { None } else { digits.parse().ok() }
}

const MOST_TIMES: u32 = 1_000;
/// All characters of Unicode four times, or its largest property 32 times: more than an honest pattern has.
const MOST_COVERED: u32 = 4 * ALL;
/// The number of all codes of Unicode.
pub(super) const ALL: u32 = 0x11_0000;
