//! The reasons for which RE2 refuses a pattern.

/// The reason for which RE2 cannot parse a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternFault {
    /// A group is not closed.
    MissingParenthesis,
    /// A group is closed that was not opened.
    UnexpectedParenthesis,
    /// A class is not closed.
    MissingBracket,
    /// There is nothing to repeat.
    NothingToRepeat,
    /// A repetition is repeated.
    RepeatedTwice,
    /// Something is repeated too often, or a range of counts is empty.
    RepeatSize,
    /// There is no such escape.
    Escape,
    /// The pattern ends within an escape.
    TrailingBackslash,
    /// There is no such kind of group.
    Group,
    /// A range in a class is empty, or there is no such class.
    Class,
    /// The sets of the pattern have too many characters of Unicode, each of which costs when it is compiled. RE2
    /// has no such bound.
    TooLarge,
}

impl PatternFault {
    /// The reason in words.
    pub fn text(self) -> &'static str {
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
            Self::TooLarge => "its sets have too many characters of Unicode",
            Self::Class => "a range in `[…]` ends before it begins, or a `[:…:]` is unknown",
        }
    }
}
