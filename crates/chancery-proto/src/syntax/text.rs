//! The reader of protobuf text
//! ([specification](https://protobuf.dev/reference/protobuf/textformat-spec/)).
//!
//! A key stands in a mapping as often as in the text, because repeated fields are written so. An
//! expanded `Any` keeps the brackets of its type in the key. Whole numbers become decimal and
//! floats lose their `f`, so that they can be read like numbers of YAML.

use std::borrow::Cow;

use super::FaultList;
use super::nested::{NestedReader, ReadResult, ReaderState};
use super::path::PathStep;
use super::scalar;
use super::tree::{MapEntry, TreeNode, TreeValue};
use super::tree_size::ENTRY;
use super::yaml::Documents;

/// Reads the one message of a text. A text of only comments has none.
pub(crate) fn read(text: &str) -> Documents<'_> {
    let mut reader = TextReader { state: ReaderState::new(text) };
    reader.skip_blanks();
    if reader.state.cursor.peek().is_none() {
        return Documents::default();
    }
    let position = reader.state.cursor.position();
    match reader.fields(None) {
        Ok(root) => {
            Documents { roots: vec![TreeNode::new(root, position)], faults: FaultList::default() }
        }
        Err(fault) => Documents { roots: Vec::new(), faults: (*fault).into() },
    }
}

struct TextReader<'a> {
    state: ReaderState<'a>,
}

impl<'a> NestedReader<'a> for TextReader<'a> {
    const INVALID: &'static str = "no protobuf text";
    const ENDS: &'static str = "no protobuf text: it ends";

    fn state(&mut self) -> &mut ReaderState<'a> {
        &mut self.state
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        loop {
            self.state
                .cursor
                .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | 0x0b..=b'\r'));
            if !self.state.cursor.eat(b'#') {
                return;
            }
            self.state.cursor.take_while(|byte| byte != b'\n');
        }
    }

    fn value(&mut self) -> ReadResult<TreeNode<'a>> {
        let position = self.state.cursor.position();
        let value = match self.state.cursor.peek() {
            Some(b'{') => self.nested(|reader| reader.fields(Some(b'}')))?,
            Some(b'<') => self.nested(|reader| reader.fields(Some(b'>')))?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"' | b'\'') => self.strings()?,
            Some(b'-' | b'.' | b'0'..=b'9') => self.number()?,
            Some(byte) if is_word(byte) => TreeValue::Word(self.state.cursor.take_while(is_word)),
            _ => return Err(self.unexpected("a value")),
        };
        Ok(TreeNode::new(value, position))
    }
}

impl<'a> TextReader<'a> {
    /// Reads fields up to the end of their message. The outermost message ends with the text.
    fn fields(&mut self, end: Option<u8>) -> ReadResult<TreeValue<'a>> {
        let mut entries = Vec::new();
        loop {
            self.skip_blanks();
            match (self.state.cursor.peek(), end) {
                (None, None) => return Ok(TreeValue::Mapping(entries)),
                (next @ Some(byte), _) if next == end => {
                    self.state.cursor.eat(byte);
                    return Ok(TreeValue::Mapping(entries));
                }
                _ => {
                    entries.push(self.field()?);
                    self.state.grow(ENTRY)?;
                }
            }
        }
    }

    fn field(&mut self) -> ReadResult<MapEntry<'a>> {
        let key_position = self.state.cursor.position();
        let key = self.name()?;
        self.state.path.push(PathStep::Field(key));
        self.skip_blanks();
        let colon = self.state.cursor.eat(b':');
        self.skip_blanks();
        if !colon && !matches!(self.state.cursor.peek(), Some(b'{' | b'<')) {
            return Err(self.unexpected("`:` or `{`"));
        }
        let node = self.value()?;
        self.state.path.pop();
        self.skip_blanks();
        let _separator = self.state.cursor.eat(b',') || self.state.cursor.eat(b';');
        Ok(MapEntry { key: Cow::Borrowed(key), key_position, node })
    }

    /// Reads `name`, or `[type.googleapis.com/message]`.
    fn name(&mut self) -> ReadResult<&'a str> {
        let start = self.state.cursor.rest();
        if self.state.cursor.eat(b'[') {
            self.state.cursor.take_while(|b| b.is_ascii_alphanumeric() || b"._/-%".contains(&b));
            if !self.state.cursor.eat(b']') {
                return Err(self.unexpected("`]`"));
            }
        } else {
            self.state.cursor.take_while(is_word);
        }
        let name = &start[..start.len() - self.state.cursor.rest().len()];
        if name.is_empty() { Err(self.unexpected("the name of a field")) } else { Ok(name) }
    }

    fn number(&mut self) -> ReadResult<TreeValue<'a>> {
        let negative = self.state.cursor.eat(b'-');
        if negative {
            self.skip_blanks();
        }
        let token = self.number_token();
        let sign = if negative { "-" } else { "" };
        if matches!(token, "inf" | "infinity" | "nan") {
            let special = if token == "nan" { ".nan" } else { ".inf" };
            return Ok(TreeValue::Number(format!("{sign}{special}").into()));
        }
        match decimal(token) {
            Some(Cow::Borrowed(digits)) if !negative => Ok(TreeValue::Number(digits.into())),
            Some(digits) => Ok(TreeValue::Number(format!("{sign}{digits}").into())),
            None => {
                Err(self.state.fault(format!("no protobuf text: `{sign}{token}` is no number")))
            }
        }
    }

    fn number_token(&mut self) -> &'a str {
        let start = self.state.cursor.rest();
        let hex = start.starts_with("0x") || start.starts_with("0X");
        self.state.cursor.take_while(|byte| is_word(byte) || byte == b'.');
        let so_far = &start[..start.len() - self.state.cursor.rest().len()];
        if !hex && so_far.ends_with(['e', 'E']) {
            let _sign = self.state.cursor.eat(b'-') || self.state.cursor.eat(b'+');
            self.state.cursor.take_while(is_word);
        }
        &start[..start.len() - self.state.cursor.rest().len()]
    }

    /// Reads strings; neighbouring strings are one.
    fn strings(&mut self) -> ReadResult<TreeValue<'a>> {
        let mut whole: Option<Cow<'a, [u8]>> = None;
        while let Some(quote @ (b'"' | b'\'')) = self.state.cursor.peek() {
            let part = self.string(quote)?;
            whole = Some(match whole {
                None => part,
                Some(mut whole) => {
                    whole.to_mut().extend_from_slice(&part);
                    whole
                }
            });
            self.skip_blanks();
        }
        Ok(match whole.unwrap_or_default() {
            Cow::Borrowed(bytes) => match str::from_utf8(bytes) {
                Ok(text) => TreeValue::Text(text.into()),
                Err(_) => TreeValue::Bytes(bytes.to_vec()),
            },
            Cow::Owned(bytes) => match String::from_utf8(bytes) {
                Ok(text) => TreeValue::Text(text.into()),
                Err(error) => TreeValue::Bytes(error.into_bytes()),
            },
        })
    }

    fn string(&mut self, quote: u8) -> ReadResult<Cow<'a, [u8]>> {
        self.state.cursor.take(1);
        let mut bytes = Cow::Borrowed(&b""[..]);
        loop {
            let run =
                self.state.cursor.take_while(|b| b != quote && !matches!(b, b'\\' | b'\n' | 0));
            if bytes.is_empty() {
                bytes = Cow::Borrowed(run.as_bytes());
            } else {
                bytes.to_mut().extend_from_slice(run.as_bytes());
            }
            match self.state.cursor.peek() {
                Some(byte) if byte == quote => {
                    self.state.cursor.take(1);
                    return Ok(bytes);
                }
                Some(b'\\') => self.escape(bytes.to_mut())?,
                _ => return Err(self.unexpected("a quote at the end of a string")),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> ReadResult<()> {
        self.state.cursor.take(1);
        let byte = match self.state.cursor.peek() {
            Some(b'0'..=b'7') => return self.code(bytes, 3, 8),
            Some(b'x' | b'X') => {
                self.state.cursor.take(1);
                return self.code(bytes, 2, 16);
            }
            Some(b'u') => return self.unicode(bytes, 4),
            Some(b'U') => return self.unicode(bytes, 8),
            Some(b'a') => 0x07,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'v') => 0x0b,
            Some(plain @ (b'?' | b'\\' | b'\'' | b'"')) => plain,
            _ => return Err(self.unexpected("an escape that protobuf text knows")),
        };
        self.state.cursor.take(1);
        bytes.push(byte);
        Ok(())
    }

    /// Reads up to `longest` digits, which are the code of one byte.
    fn code(&mut self, bytes: &mut Vec<u8>, longest: usize, radix: u32) -> ReadResult<()> {
        let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
        let length = self.state.cursor.rest().bytes().take(longest).take_while(is_digit).count();
        match u8::from_str_radix(&self.state.cursor.rest()[..length], radix) {
            Ok(byte) => {
                self.state.cursor.take(length);
                bytes.push(byte);
                Ok(())
            }
            Err(_) => Err(self.unexpected("the code of a byte")),
        }
    }

    /// Reads exactly `length` digits, which are the code of a character.
    fn unicode(&mut self, bytes: &mut Vec<u8>, length: usize) -> ReadResult<()> {
        self.state.cursor.take(1);
        let digits = self.state.cursor.rest().get(..length);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let Some(character) = code.and_then(char::from_u32) else {
            return Err(self.unexpected("the code of a character"));
        };
        self.state.cursor.take(length);
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Rewrites a number for YAML's rules: hexadecimal and octal become decimal, and `1.5f` becomes
/// `1.5`.
fn decimal(token: &str) -> Option<Cow<'_, str>> {
    let radix = |digits: &str, radix| {
        u64::from_str_radix(digits, radix).ok().map(|number| number.to_string().into())
    };
    if let Some(digits) = token.strip_prefix("0x").or_else(|| token.strip_prefix("0X")) {
        return radix(digits, 16);
    }
    if token.len() > 1 && token.starts_with('0') && token.bytes().all(|b| b.is_ascii_digit()) {
        return radix(token, 8);
    }
    let token = token.strip_suffix(['f', 'F']).unwrap_or(token);
    scalar::float(token).map(|_| token.into())
}
