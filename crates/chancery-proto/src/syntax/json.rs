//! The reader of JSON, by JSON's own rules ([RFC 8259](https://www.rfc-editor.org/rfc/rfc8259)).
//!
//! Nearly all JSON is YAML, but not all: tabs, escaped surrogates and long keys differ. And a JSON
//! file with a comment, which YAML would accept, would be refused by every other reader.

use std::borrow::Cow;

use super::FaultList;
use super::nested::{NestedReader, ReadResult, ReaderState};
use super::path::PathStep;
use super::tree::{KeyIndex, MapEntry, TreeNode, TreeValue, duplicate_key};
use super::yaml::Documents;

/// Reads the one value of a text. A text of only white space has none.
pub(crate) fn read(text: &str) -> Documents<'_> {
    let mut reader = JsonReader { state: ReaderState::new(text), faults: FaultList::default() };
    match reader.document() {
        Ok(root) => Documents { roots: root.into_iter().collect(), faults: reader.faults },
        Err(fault) => {
            reader.faults.push(|| *fault);
            Documents { roots: Vec::new(), faults: reader.faults }
        }
    }
}

struct JsonReader<'a> {
    state: ReaderState<'a>,
    faults: FaultList,
}

impl<'a> NestedReader<'a> for JsonReader<'a> {
    const INVALID: &'static str = "no JSON";
    const ENDS: &'static str = "no JSON: the text ends";

    fn state(&mut self) -> &mut ReaderState<'a> {
        &mut self.state
    }

    fn skip_blanks(&mut self) {
        self.state.cursor.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    fn value(&mut self) -> ReadResult<TreeNode<'a>> {
        let position = self.state.cursor.position();
        let value = match self.state.cursor.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"') => TreeValue::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => TreeValue::Number(self.number()?.into()),
            Some(b'a'..=b'z') => self.literal()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(TreeNode::new(value, position))
    }
}

impl<'a> JsonReader<'a> {
    fn document(&mut self) -> ReadResult<Option<TreeNode<'a>>> {
        self.skip_blanks();
        if self.state.cursor.peek().is_none() {
            return Ok(None);
        }
        let root = self.value()?;
        self.skip_blanks();
        match self.state.cursor.peek() {
            None => Ok(Some(root)),
            Some(_) => Err(self.unexpected("the end of the file")),
        }
    }

    fn object(&mut self) -> ReadResult<TreeValue<'a>> {
        let mut entries = Vec::new();
        let mut index = KeyIndex::default();
        self.skip_blanks();
        if self.state.cursor.eat(b'}') {
            return Ok(TreeValue::Mapping(entries));
        }
        loop {
            self.skip_blanks();
            let entry = self.entry()?;
            self.state.grow(KeyIndex::size_of_entry(&entries))?;
            match index.first_place(&entries, &entry.key) {
                None => entries.push(entry),
                Some(first) => {
                    let path = &self.state.path;
                    self.faults.push(|| {
                        let fault = duplicate_key(&entry.key, first, entry.key_position);
                        fault.under(path.text_with(&entry.key))
                    });
                }
            }
            if !self.has_more(b'}', "`,` or `}`")? {
                return Ok(TreeValue::Mapping(entries));
            }
        }
    }

    fn entry(&mut self) -> ReadResult<MapEntry<'a>> {
        let key_position = self.state.cursor.position();
        if self.state.cursor.peek() != Some(b'"') {
            return Err(self.unexpected("a key in double quotes"));
        }
        let key = self.string()?;
        self.skip_blanks();
        if !self.state.cursor.eat(b':') {
            return Err(self.unexpected("`:`"));
        }
        self.skip_blanks();
        // The path borrows keys, and a key with escapes is not borrowed; such keys are not names of
        // fields.
        let borrowed = if let Cow::Borrowed(key) = &key { key } else { "…" };
        self.state.path.push(PathStep::Field(borrowed));
        let node = self.value()?;
        self.state.path.pop();
        Ok(MapEntry { key, key_position, node })
    }

    fn literal(&mut self) -> ReadResult<TreeValue<'a>> {
        let rest = self.state.cursor.rest();
        let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric());
        let word = &rest[..end.unwrap_or(rest.len())];
        let value = match word {
            "null" => TreeValue::Null,
            "true" => TreeValue::Bool(true),
            "false" => TreeValue::Bool(false),
            _ => return Err(self.unexpected("a value")),
        };
        self.state.cursor.take(word.len());
        Ok(value)
    }

    fn number(&mut self) -> ReadResult<&'a str> {
        let start = self.state.cursor.rest();
        self.state.cursor.eat(b'-');
        if !self.state.cursor.eat(b'0') {
            self.digits()?;
        }
        if self.state.cursor.eat(b'.') {
            self.digits()?;
        }
        if self.state.cursor.eat(b'e') || self.state.cursor.eat(b'E') {
            let _sign = self.state.cursor.eat(b'+') || self.state.cursor.eat(b'-');
            self.digits()?;
        }
        match self.state.cursor.peek() {
            Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'_') => {
                Err(self.unexpected("the end of a number"))
            }
            _ => Ok(&start[..start.len() - self.state.cursor.rest().len()]),
        }
    }

    fn digits(&mut self) -> ReadResult<()> {
        let digits = self.state.cursor.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() { Err(self.unexpected("a digit")) } else { Ok(()) }
    }

    /// Reads a string from its first quote on. It is copied only if it has escapes.
    fn string(&mut self) -> ReadResult<Cow<'a, str>> {
        self.state.cursor.take(1);
        let mut text = Cow::Borrowed("");
        loop {
            let run = self.state.cursor.take_while(|b| b != b'"' && b != b'\\' && b >= b' ');
            if text.is_empty() {
                text = Cow::Borrowed(run);
            } else {
                text.to_mut().push_str(run);
            }
            match self.state.cursor.peek() {
                Some(b'"') => {
                    self.state.cursor.take(1);
                    return Ok(text);
                }
                Some(b'\\') => {
                    let character = self.escape()?;
                    text.to_mut().push(character);
                }
                _ => return Err(self.unexpected("`\"` at the end of a string")),
            }
        }
    }

    fn escape(&mut self) -> ReadResult<char> {
        self.state.cursor.take(1);
        let character = match self.state.cursor.peek() {
            Some(b'u') => return self.unicode(),
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            _ => return Err(self.unexpected("an escape that JSON knows")),
        };
        self.state.cursor.take(1);
        Ok(character)
    }

    /// Reads `u` and four hexadecimal digits, and a second escape for a character beyond the first
    /// plane.
    fn unicode(&mut self) -> ReadResult<char> {
        let high = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&high) && self.state.cursor.eat(b'\\') {
            let low = if self.state.cursor.peek() == Some(b'u') { self.hex4()? } else { 0 };
            let pair = (0xdc00..0xe000).contains(&low);
            pair.then(|| 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
        } else {
            Some(high)
        };
        code.and_then(char::from_u32)
            .ok_or_else(|| self.state.fault("no JSON: half of a surrogate pair is no character"))
    }

    /// Reads the four digits behind the next `u`.
    fn hex4(&mut self) -> ReadResult<u32> {
        self.state.cursor.take(1);
        let digits = self.state.cursor.rest().get(..4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.unexpected("four hexadecimal digits after `\\u`"))?;
        self.state.cursor.take(4);
        Ok(code)
    }
}
