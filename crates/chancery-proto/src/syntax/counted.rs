//! The input of the scanner of YAML, which counts the tokens that the scanner makes of a text.
//!
//! The scanner keeps the tokens of a flow collection (`[…]`, `{…}`) until it knows whether the
//! collection is a key, so one call of the parser may keep a token for each byte of a text. Only the
//! scanner itself knows which bracket belongs to a collection, and which one to a text, a comment or
//! a name. So the count is made where it reads, and not by another reading of the same text. After
//! too many tokens in one call the text ends for the scanner.
//!
//! Not here: the fault of such a text (`flow`), and the size of the tree (`tree_size`).

use std::cell::Cell;

use saphyr_parser::input::SkipTabs;
use saphyr_parser::{Input, StrInput};

/// The tokens that the scanner has made in one call of the parser.
pub(super) struct TokenCount {
    count: Cell<usize>,
    most: usize,
}

impl TokenCount {
    /// No tokens, of so many at most.
    pub(super) fn of_at_most(most: usize) -> Self {
        Self { count: Cell::new(0), most }
    }

    /// Forgets the tokens of the last call, which the parser hands out before it asks for others.
    pub(super) fn start_again(&self) {
        self.count.set(0);
    }

    /// Returns true if the text has ended because of its tokens.
    pub(super) fn is_exceeded(&self) -> bool {
        self.count.get() > self.most
    }
}

/// The text that the scanner reads.
pub(super) struct CountedInput<'a, 'c> {
    text: StrInput<'a>,
    tokens: &'c TokenCount,
}

impl<'a, 'c> CountedInput<'a, 'c> {
    pub(super) fn new(text: &'a str, tokens: &'c TokenCount) -> Self {
        Self { text: StrInput::new(text), tokens }
    }
}

/// Passes calls on to the text.
macro_rules! passed_on {
    ($(fn $name:ident(&self $(, $argument:ident: $kind:ty)*) -> $result:ty;)*) => {$(
        #[inline]
        fn $name(&self $(, $argument: $kind)*) -> $result {
            self.text.$name($($argument),*)
        }
    )*};
    ($(fn $name:ident(&mut self $(, $argument:ident: $kind:ty)*) -> $result:ty;)*) => {$(
        #[inline]
        fn $name(&mut self $(, $argument: $kind)*) -> $result {
            self.text.$name($($argument),*)
        }
    )*};
}

impl Input for CountedInput<'_, '_> {
    #[inline]
    fn lookahead(&mut self, count: usize) {
        if self.tokens.is_exceeded() {
            self.text = StrInput::new("");
        }
        self.text.lookahead(count);
    }

    /// The scanner asks once for each token, and nowhere else, whether a byte order mark comes.
    #[inline]
    fn next_char_is(&self, character: char) -> bool {
        if character == '\u{feff}' {
            self.tokens.count.set(self.tokens.count.get() + 1);
        }
        self.text.next_char_is(character)
    }

    passed_on! {
        fn raw_read_ch(&mut self) -> char;
        fn raw_read_non_breakz_ch(&mut self) -> Option<char>;
        fn skip(&mut self) -> ();
        fn skip_n(&mut self, count: usize) -> ();
        fn skip_ws_to_eol(&mut self, tabs: SkipTabs) -> (usize, Result<SkipTabs, &'static str>);
        fn skip_while_non_breakz(&mut self) -> usize;
        fn skip_while_blank(&mut self) -> usize;
        fn fetch_while_is_alpha(&mut self, out: &mut String) -> usize;
        fn fetch_while_is_yaml_non_space(&mut self, out: &mut String) -> usize;
    }

    passed_on! {
        fn buflen(&self) -> usize;
        fn bufmaxlen(&self) -> usize;
        fn buf_is_empty(&self) -> bool;
        fn peek(&self) -> char;
        fn peek_nth(&self, n: usize) -> char;
        fn peek_opt(&self) -> Option<char>;
        fn nth_char_is(&self, n: usize, character: char) -> bool;
        fn next_2_are(&self, first: char, second: char) -> bool;
        fn next_3_are(&self, first: char, second: char, third: char) -> bool;
        fn next_is_document_indicator(&self) -> bool;
        fn next_is_document_start(&self) -> bool;
        fn next_is_document_end(&self) -> bool;
        fn next_can_be_plain_scalar(&self, in_flow: bool) -> bool;
        fn next_is_blank_or_break(&self) -> bool;
        fn next_is_blank_or_breakz(&self) -> bool;
        fn next_is_blank(&self) -> bool;
        fn next_is_break(&self) -> bool;
        fn next_is_breakz(&self) -> bool;
        fn next_is_z(&self) -> bool;
        fn next_is_flow(&self) -> bool;
        fn next_is_digit(&self) -> bool;
        fn next_is_alpha(&self) -> bool;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use saphyr_parser::{Event, Parser};

    use super::*;

    /// The calls of the parser that made tokens: their number, and the texts and aliases that came
    /// out until tokens were made again.
    fn calls(text: &str, most: usize) -> Vec<(usize, usize)> {
        let tokens = TokenCount::of_at_most(most);
        let mut parser = Parser::new(CountedInput::new(text, &tokens));
        let mut calls = vec![(0, 0)];
        while let Some(Ok((event, _))) = parser.next_event() {
            let made = tokens.count.get();
            if made > 0 {
                calls.push((made, 0));
            }
            let has_token = match &event {
                Event::Scalar(text, ..) => !text.is_empty(),
                Event::Alias(_) => true,
                _ => false,
            };
            if let Some((_, texts)) = calls.last_mut() {
                *texts += usize::from(has_token);
            }
            if tokens.is_exceeded() {
                break;
            }
            tokens.start_again();
        }
        calls
    }

    /// The tokens of the call with the most.
    fn most_at_once(text: &str) -> usize {
        calls(text, usize::MAX).into_iter().map(|(made, _)| made).max().unwrap_or(0)
    }

    #[test]
    fn the_marks_in_texts_comments_and_names_are_no_tokens() {
        for text in [
            "- [a, b, c]\n",
            "- ['],', \",]\\\"]\", c]\n",
            "- [a, # ], ]\n  b, c]\n",
            "- [a, ---,\n  c]\n",
            "[\na,\n---x,\n...x\n]\n",
        ] {
            assert_eq!(most_at_once(text), 7, "{text}");
        }
    }

    #[test]
    fn a_text_outside_of_a_flow_collection_is_one_token() {
        let marks = "[ { , : ' # ] }\n  ";
        for text in [
            format!("a: |\n  {}\n", marks.repeat(100)),
            format!("a: \"{}\"\n", marks.repeat(100)),
            format!("a: {}\n", "x ] , } [ ".repeat(100)),
            format!("# {}\na: b\n", "[ { ".repeat(100)),
            format!("a:\n{}", "  - {b: [1, 2], c: 'x ['}\n".repeat(100)),
        ] {
            assert!(most_at_once(&text) < 20, "{text}");
        }
    }

    /// A mark of YAML, or something that stands between marks.
    fn mark() -> impl Strategy<Value = &'static str> {
        proptest::sample::select(vec![
            "[", "]", "{", "}", ",", ", ", ":", ": ", "? ", "- ", "#", " #", "'", "\"", "\\", "\n",
            "\n  ", "\r", "\t", " ", "a", "0", "&a ", "*a ", "! ", "!!x ", "|\n ", ">-\n", "---",
            "\n---\n", "\n...\n", "%", "\u{feff}", "é",
        ])
    }

    /// A value in a flow collection. Its texts and comments have marks in them.
    fn value() -> impl Strategy<Value = String> {
        let text = proptest::sample::select(vec![
            "a",
            "-1",
            "b c",
            "---x",
            "d'e\"",
            "&k f",
            "!t g",
            "'h ], '",
            "\"{ \\\" ,\"",
            "i # ]\n ",
            "j #[\n #,\n ",
            "''",
            "? k",
            "l: m",
            "n\n  o",
            "",
        ]);
        text.prop_map(str::to_owned).prop_recursive(4, 40, 6, |inner| {
            let entry = |value: &String| format!("'k:,': {value}");
            let entries = move |values: Vec<String>| values.iter().map(entry).collect::<Vec<_>>();
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(|values| format!("[{}]", values.join(","))),
                vec(inner, 0..6).prop_map(move |all| format!("{{{}}}", entries(all).join(",\n "))),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_call_hands_out_more_texts_than_tokens(
            head in proptest::sample::select(vec!["", "# [\n", "a: b\nc:\n ", "- - ", "--- &a\n"]),
            values in vec(value(), 1..4),
            marks in vec(mark(), 0..3),
            last in value(),
        ) {
            let text = format!("{head}[{}, {}{last}]\n", values.join(", "), marks.concat());
            for (made, texts) in calls(&text, usize::MAX) {
                prop_assert!(texts <= made, "{made} tokens, {texts} texts: {text:?}");
            }
        }

        #[test]
        fn a_text_may_end_anywhere(
            marks in vec(mark(), 0..60),
            value in value(),
            most in 0..20usize,
        ) {
            for text in [format!("[{}", marks.concat()), format!("- {value}\n")] {
                for (made, _) in calls(&text, most) {
                    prop_assert!(made <= most + 1, "{made} tokens: {text:?}");
                }
            }
        }
    }
}
