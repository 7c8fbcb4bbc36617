//! Texts of others, in a form that can be printed: in log lines, on terminals, in statuses.
//!
//! A name or a message from a peer or a file may contain characters that give a terminal orders,
//! that begin a new line, or that show something else than what is there: the control characters of
//! C0 and C1, line and paragraph separators, those that set the direction of text, and those that
//! nobody sees. All that is printed passes one of these functions, which escape them, and [`cut`]
//! where a peer chooses the length. Not here: quotes and backslashes, which are the business of a
//! notation.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write};

/// The bytes of a message of a peer that are printed: of an error, a status, a reason.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// The bytes of a name of a peer that are printed: a node id, a version, a nonce, a type.
pub const MAX_NAME_BYTES: usize = 256;

/// The notation of a text, and with it that of escaped characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintForm {
    /// One line for people: `\n`, `\u{202e}`.
    Line,
    /// Several lines for people. Line feeds and tabs stay.
    Lines,
    /// JSON: `\n` and `\u202e`. Only strings contain such characters, so JSON stays the same JSON.
    /// Line feeds stay, which JSON has between its tokens.
    Json,
}

/// A value whose text is escaped as it is printed.
///
/// ```
/// use chancery_core::printable::Printable;
///
/// assert_eq!(format!("node {}", Printable("a\u{1b}[31m\nb")), "node a\\u{1b}[31m\\nb");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

/// A writer that escapes what is written through it.
#[derive(Debug)]
pub struct EscapingWriter<'w, W: ?Sized> {
    form: PrintForm,
    to: &'w mut W,
}

/// Returns true if the character can be printed as it is.
pub fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    let at = |&(first, last): &(char, char)| first <= character && character <= last;
    !UNPRINTABLE.iter().any(at)
}

/// The text in this form.
///
/// ```
/// use chancery_core::printable::{PrintForm, printable};
///
/// assert_eq!(printable("a\u{85}b\n", PrintForm::Lines), "a\\u{85}b\n");
/// assert_eq!(printable("{\"a\": \"\u{202e}\"}", PrintForm::Json), "{\"a\": \"\\u202e\"}");
/// ```
pub fn printable(text: &str, form: PrintForm) -> Cow<'_, str> {
    if text.chars().all(|character| form.keeps(character)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    EscapingWriter::new(form, &mut out).write_str(text).ok(); // It is a string.
    Cow::Owned(out)
}

/// The beginning of a text that is longer than `most` bytes, with its length; otherwise the text.
///
/// ```
/// use chancery_core::printable::cut;
///
/// assert_eq!(cut("short", 5), "short");
/// assert_eq!(cut("longer", 5), "longe… (6 bytes)");
/// ```
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let shown = &text[..text.floor_char_boundary(most)];
    Cow::Owned(format!("{shown}… ({} bytes)", text.len()))
}

impl PrintForm {
    fn keeps(self, character: char) -> bool {
        match character {
            '\n' => self != Self::Line,
            '\t' => self == Self::Lines,
            _ => is_printable(character),
        }
    }

    fn escape(self, character: char, to: &mut (impl Write + ?Sized)) -> fmt::Result {
        match (self, character) {
            (_, '\n' | '\r' | '\t') | (Self::Line | Self::Lines, _) => {
                write!(to, "{}", character.escape_default())
            }
            (Self::Json, _) => {
                let mut units = [0; 2];
                let mut units = character.encode_utf16(&mut units).iter();
                units.try_for_each(|unit| write!(to, "\\u{unit:04x}"))
            }
        }
    }
}

impl<'w, W: Write + ?Sized> EscapingWriter<'w, W> {
    /// Creates a writer that passes text on in this form.
    pub fn new(form: PrintForm, to: &'w mut W) -> Self {
        Self { form, to }
    }
}

impl<W: Write + ?Sized> Write for EscapingWriter<'_, W> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        while let Some(at) = text.find(|character| !self.form.keeps(character)) {
            self.to.write_str(&text[..at])?;
            let mut rest = text[at..].chars();
            if let Some(character) = rest.next() {
                self.form.escape(character, self.to)?;
            }
            text = rest.as_str();
        }
        self.to.write_str(text)
    }
}

impl<T: Display> Display for Printable<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(EscapingWriter::new(PrintForm::Line, f), "{}", self.0)
    }
}

/// The characters beyond ASCII that are escaped, in ranges: controls, separators of lines, marks of
/// direction, and characters without width that only hide in a text. The selectors of the forms of
/// emoji and the marks of scripts stay, because names have them.
const UNPRINTABLE: [(char, char); 17] = [
    ('\u{80}', '\u{9f}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Texts in which the characters in question are not rare.
    fn texts() -> impl Strategy<Value = String> {
        let odd = UNPRINTABLE.map(|(first, _)| first);
        let odd = proptest::sample::select(odd.to_vec());
        let control = proptest::char::range('\0', '\u{a0}');
        let one = prop_oneof![any::<char>(), odd, control];
        proptest::collection::vec(one, 0..40).prop_map(|all| all.into_iter().collect())
    }

    #[test]
    fn what_gives_orders_hides_or_turns_a_text_is_escaped() {
        for bad in "\u{1b}\u{7}\u{7f}\u{9b}\u{85}\u{200b}\u{200d}\u{2028}\u{2029}\u{feff}\u{ad}\
                    \u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\
                    \u{2068}\u{2069}\u{61c}\u{e0041}\0"
            .chars()
        {
            assert!(!is_printable(bad), "{bad:?}");
        }
        for good in "aZ~ ä字ש\u{a0}\u{301}🦀\u{fe0f}\"\\".chars() {
            assert!(is_printable(good), "{good:?}");
        }
        let odd = "a\u{1b}[31mb\nc\u{9b}\u{e0041}";
        assert_eq!(printable(odd, PrintForm::Line), "a\\u{1b}[31mb\\nc\\u{9b}\\u{e0041}");
        assert_eq!(printable(odd, PrintForm::Json), "a\\u001b[31mb\nc\\u009b\\udb40\\udc41");
    }

    #[test]
    fn a_cut_text_keeps_whole_characters() {
        assert_eq!(cut("aä", 2), "a… (3 bytes)");
        assert_eq!(cut("", 0), "");
    }

    proptest! {
        #[test]
        fn nothing_unprintable_is_left(text in texts()) {
            let line = printable(&text, PrintForm::Line);
            prop_assert!(line.chars().all(is_printable), "{line:?}");
            let lines = printable(&text, PrintForm::Lines);
            prop_assert!(lines.chars().all(|it| it == '\n' || it == '\t' || is_printable(it)));
            prop_assert_eq!(Printable(&text).to_string(), line);
            prop_assert_eq!(printable(&lines, PrintForm::Lines), &*lines);
        }
    }
}
