//! The rules of texts and of bytes.
//!
//! The values that rules compare with are those of the descriptors, so a sentence may show them. It
//! never shows the text itself.

use regex::bytes::Regex;

use super::formats::{Format, HeaderForm};
use super::lengths::{LengthNames, Lengths};
use super::limits::listed;
use super::name::RuleName;

/// The rules of a text. Lengths are in characters, or in bytes where they say so.
#[derive(Debug, Default)]
pub(super) struct TextRules {
    pub(super) constant: Option<String>,
    pub(super) one_of: Vec<String>,
    pub(super) none_of: Vec<String>,
    pub(super) characters: Lengths,
    pub(super) bytes: Lengths,
    pub(super) prefix: Option<String>,
    pub(super) suffix: Option<String>,
    pub(super) contains: Option<String>,
    pub(super) not_contains: Option<String>,
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) header: Option<HeaderForm>,
    pub(super) format: Option<Format>,
    /// True if the empty text is no value.
    pub(super) ignore_empty: bool,
}

/// The rules of bytes.
#[derive(Debug, Default)]
pub(super) struct BytesRules {
    pub(super) constant: Option<Vec<u8>>,
    pub(super) one_of: Vec<Vec<u8>>,
    pub(super) none_of: Vec<Vec<u8>>,
    pub(super) lengths: Lengths,
    pub(super) prefix: Option<Vec<u8>>,
    pub(super) suffix: Option<Vec<u8>>,
    /// A part, and the search for it.
    pub(super) contains: Option<(Vec<u8>, Regex)>,
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) format: Option<Format>,
    /// True if no bytes are no value.
    pub(super) ignore_empty: bool,
}

const CHARACTERS: LengthNames = LengthNames {
    exact: RuleName::STRING_LEN,
    least: RuleName::STRING_MIN_LEN,
    most: RuleName::STRING_MAX_LEN,
};

const TEXT_BYTES: LengthNames = LengthNames {
    exact: RuleName::STRING_LEN_BYTES,
    least: RuleName::STRING_MIN_BYTES,
    most: RuleName::STRING_MAX_BYTES,
};

const BYTES: LengthNames = LengthNames {
    exact: RuleName::BYTES_LEN,
    least: RuleName::BYTES_MIN_LEN,
    most: RuleName::BYTES_MAX_LEN,
};

impl TextRules {
    pub(super) fn judge(&self, text: &str, broken: &mut dyn FnMut(RuleName)) {
        if self.ignore_empty && text.is_empty() {
            return;
        }
        let mut rule = |is_broken: bool, name| {
            if is_broken {
                broken(name);
            }
        };
        rule(self.constant.as_deref().is_some_and(|it| it != text), RuleName::STRING_CONST);
        let in_list = |list: &[String]| list.iter().any(|it| it == text);
        if !self.one_of.is_empty() {
            rule(!in_list(&self.one_of), RuleName::STRING_IN);
        } else {
            rule(in_list(&self.none_of), RuleName::STRING_NOT_IN);
        }
        let has = |part: &Option<String>, test: fn(&str, &str) -> bool| {
            part.as_deref().is_none_or(|part| test(text, part))
        };
        rule(!has(&self.prefix, |text, part| text.starts_with(part)), RuleName::STRING_PREFIX);
        rule(!has(&self.suffix, |text, part| text.ends_with(part)), RuleName::STRING_SUFFIX);
        rule(!has(&self.contains, |text, part| text.contains(part)), RuleName::STRING_CONTAINS);
        rule(
            !has(&self.not_contains, |text, part| !text.contains(part)),
            RuleName::STRING_NOT_CONTAINS,
        );
        rule(self.format.is_some_and(|it| !it.matches(text)), RuleName::STRING_FORMAT);
        rule(self.header.is_some_and(|it| !it.matches(text)), RuleName::STRING_WELL_KNOWN_REGEX);
        let pattern = self.pattern.as_ref();
        rule(
            pattern.is_some_and(|(_, pattern)| !pattern.is_match(text.as_bytes())),
            RuleName::STRING_PATTERN,
        );
        if !self.characters.is_none() {
            self.characters.judge(text.chars().count(), &CHARACTERS, broken);
        }
        self.bytes.judge(text.len(), &TEXT_BYTES, broken);
    }

    pub(super) fn describe(&self, rule: RuleName) -> String {
        let quoted = |part: &Option<String>| quoted(part.as_deref().unwrap_or_default());
        match rule {
            RuleName::STRING_CONST => format!("must be {}", quoted(&self.constant)),
            RuleName::STRING_IN => format!("must be {}", list(&self.one_of)),
            RuleName::STRING_NOT_IN => format!("must not be {}", list(&self.none_of)),
            RuleName::STRING_PREFIX => format!("must begin with {}", quoted(&self.prefix)),
            RuleName::STRING_SUFFIX => format!("must end with {}", quoted(&self.suffix)),
            RuleName::STRING_CONTAINS => format!("must contain {}", quoted(&self.contains)),
            RuleName::STRING_NOT_CONTAINS => {
                format!("must not contain {}", quoted(&self.not_contains))
            }
            RuleName::STRING_FORMAT => {
                format!("must be {}", self.format.map_or("", Format::described))
            }
            RuleName::STRING_WELL_KNOWN_REGEX => {
                self.header.map_or("", HeaderForm::described).to_owned()
            }
            RuleName::STRING_PATTERN => pattern(self.pattern.as_ref()),
            RuleName::STRING_LEN_BYTES
            | RuleName::STRING_MIN_BYTES
            | RuleName::STRING_MAX_BYTES => self.bytes.describe("byte", "bytes"),
            _ => self.characters.describe("character", "characters"),
        }
    }
}

impl BytesRules {
    pub(super) fn judge(&self, bytes: &[u8], broken: &mut dyn FnMut(RuleName)) {
        if self.ignore_empty && bytes.is_empty() {
            return;
        }
        let mut rule = |is_broken: bool, name| {
            if is_broken {
                broken(name);
            }
        };
        let in_list = |list: &[Vec<u8>]| list.iter().any(|it| it == bytes);
        rule(self.constant.as_deref().is_some_and(|it| it != bytes), RuleName::BYTES_CONST);
        if !self.one_of.is_empty() {
            rule(!in_list(&self.one_of), RuleName::BYTES_IN);
        } else {
            rule(in_list(&self.none_of), RuleName::BYTES_NOT_IN);
        }
        let has = |part: &Option<Vec<u8>>, test: fn(&[u8], &[u8]) -> bool| {
            part.as_deref().is_none_or(|part| test(bytes, part))
        };
        rule(!has(&self.prefix, |bytes, part| bytes.starts_with(part)), RuleName::BYTES_PREFIX);
        rule(!has(&self.suffix, |bytes, part| bytes.ends_with(part)), RuleName::BYTES_SUFFIX);
        let lacks = |part: &Option<(_, Regex)>| {
            part.as_ref().is_some_and(|(_, search)| !search.is_match(bytes))
        };
        rule(lacks(&self.contains), RuleName::BYTES_CONTAINS);
        rule(self.format.is_some_and(|it| !it.matches_bytes(bytes)), RuleName::BYTES_FORMAT);
        let pattern = self.pattern.as_ref();
        rule(pattern.is_some_and(|(_, it)| !it.is_match(bytes)), RuleName::BYTES_PATTERN);
        self.lengths.judge(bytes.len(), &BYTES, broken);
    }

    pub(super) fn describe(&self, rule: RuleName) -> String {
        let shown = |part: &Option<Vec<u8>>| escaped(part.as_deref().unwrap_or_default());
        let all = |list: &[Vec<u8>]| listed(list.iter().map(|it| escaped(it)));
        match rule {
            RuleName::BYTES_CONST => format!("must be {}", shown(&self.constant)),
            RuleName::BYTES_IN => format!("must be {}", all(&self.one_of)),
            RuleName::BYTES_NOT_IN => format!("must not be {}", all(&self.none_of)),
            RuleName::BYTES_PREFIX => format!("must begin with {}", shown(&self.prefix)),
            RuleName::BYTES_SUFFIX => format!("must end with {}", shown(&self.suffix)),
            RuleName::BYTES_CONTAINS => {
                let part = self.contains.as_ref().map(|(part, _)| part.as_slice());
                format!("must contain {}", escaped(part.unwrap_or_default()))
            }
            RuleName::BYTES_FORMAT => {
                format!("must be the bytes of {}", self.format.map_or("", Format::described))
            }
            RuleName::BYTES_PATTERN => pattern(self.pattern.as_ref()),
            _ => self.lengths.describe("byte", "bytes"),
        }
    }
}

fn pattern(pattern: Option<&(String, Regex)>) -> String {
    let source = pattern.map_or("", |(source, _)| source);
    format!("must match the pattern {}", quoted(source))
}

fn list(texts: &[String]) -> String {
    listed(texts.iter().map(|text| quoted(text)))
}

fn quoted(text: &str) -> String {
    format!("`{}`", text.escape_debug())
}

fn escaped(bytes: &[u8]) -> String {
    format!("`{}`", bytes.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::super::pattern::literal;
    use super::*;

    fn broken(rules: &TextRules, text: &str) -> Vec<String> {
        let mut all = Vec::new();
        rules.judge(text, &mut |rule| all.push(format!("{rule}: {}", rules.describe(rule))));
        all
    }

    #[test]
    fn a_length_is_counted_in_characters_or_in_bytes() {
        let lengths = Lengths { most: Some(2), ..Lengths::default() };
        let rules = TextRules { characters: lengths, ..TextRules::default() };
        assert_eq!(broken(&rules, "ää"), [""; 0]);
        assert_eq!(broken(&rules, "äää"), ["string.max_len: must have at most 2 characters"]);
        let rules = TextRules { bytes: lengths, ..TextRules::default() };
        assert_eq!(broken(&rules, "ää"), ["string.max_bytes: must have at most 2 bytes"]);
    }

    #[test]
    fn lengths_are_told_in_words() {
        let of = |least, most| Lengths { exact: None, least, most }.describe("item", "items");
        assert_eq!(of(Some(1), None), "must not be empty");
        assert_eq!(of(Some(2), None), "must have at least 2 items");
        assert_eq!(of(Some(1), Some(1)), "must have 1 item");
        assert_eq!(of(Some(1), Some(3)), "must have 1 to 3 items");
        assert_eq!(of(None, Some(1)), "must have at most 1 item");
    }

    #[test]
    fn each_rule_of_a_text_is_told() {
        let text = |text: &str| Some(text.to_owned());
        let rules = TextRules {
            prefix: text("/a"),
            suffix: text("/"),
            contains: text("x"),
            not_contains: text("y"),
            one_of: vec!["a".to_owned(), "b".to_owned()],
            header: Some(HeaderForm::Loose),
            format: Some(Format::Ip),
            pattern: Some(("^z".to_owned(), Regex::new("^z").unwrap())),
            ..TextRules::default()
        };
        assert_eq!(
            broken(&rules, "y\n"),
            [
                "string.in: must be `a` or `b`",
                "string.prefix: must begin with `/a`",
                "string.suffix: must end with `/`",
                "string.contains: must contain `x`",
                "string.not_contains: must not contain `y`",
                "string.format: must be an IP address",
                "string.well_known_regex: must have no line break and no NUL",
                "string.pattern: must match the pattern `^z`",
            ]
        );
        let empty = TextRules { ignore_empty: true, ..rules };
        assert_eq!(broken(&empty, ""), [""; 0]);
    }

    #[test]
    fn each_rule_of_bytes_is_told() {
        let bytes = |bytes: &[u8]| Some(bytes.to_vec());
        let rules = BytesRules {
            constant: bytes(b"\0"),
            none_of: vec![b"y".to_vec()],
            prefix: bytes(b"p"),
            suffix: bytes(b"s"),
            contains: Some((b"\xffc".to_vec(), literal(b"\xffc").unwrap())),
            format: Some(Format::Ipv4),
            pattern: Some(("^z".to_owned(), Regex::new("^z").unwrap())),
            lengths: Lengths { least: Some(2), ..Lengths::default() },
            ..BytesRules::default()
        };
        let mut all = Vec::new();
        rules.judge(b"y", &mut |rule| all.push(rules.describe(rule)));
        assert_eq!(
            all,
            [
                r"must be `\x00`",
                "must not be `y`",
                "must begin with `p`",
                "must end with `s`",
                r"must contain `\xffc`",
                "must be the bytes of an IPv4 address",
                "must match the pattern `^z`",
                "must have at least 2 bytes",
            ]
        );
    }
}
