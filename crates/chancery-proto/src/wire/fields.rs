//! The fields of a message, read by hand and without copies.

use bytes::Buf;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::Malformed;

pub(crate) type Outcome<T> = Result<T, Malformed>;

/// An iterator over the fields of a message that has only texts and messages as fields.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field that holds bytes. Other fields are skipped.
    pub(crate) fn next(&mut self) -> Outcome<Option<(u32, &'a [u8])>> {
        while self.0.has_remaining() {
            let (number, kind) = decode_key(&mut self.0)?;
            if kind != WireType::LengthDelimited {
                skip_field(kind, number, &mut self.0, DecodeContext::default())?;
                continue;
            }
            let length = usize::try_from(decode_varint(&mut self.0)?).unwrap_or(usize::MAX);
            let Some((value, rest)) = self.0.split_at_checked(length) else {
                return Err(Malformed::Short);
            };
            self.0 = rest;
            return Ok(Some((number, value)));
        }
        Ok(None)
    }
}

pub(crate) fn text(value: &[u8]) -> Outcome<&str> {
    std::str::from_utf8(value).map_err(|_| Malformed::Text)
}

/// Reads an entry of a map from text to text.
pub(crate) fn pair(bytes: &[u8]) -> Outcome<(&str, &str)> {
    let (mut key, mut value) = ("", "");
    let mut fields = Fields(bytes);
    while let Some((number, found)) = fields.next()? {
        match number {
            1 => key = text(found)?,
            2 => value = text(found)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Reads the name of a `ResourceLocator` or `ResourceName`. Its parameters are skipped.
pub(crate) fn located(value: &[u8]) -> Outcome<&str> {
    let mut name = "";
    let mut fields = Fields(value);
    while let Some((number, found)) = fields.next()? {
        if number == 1 {
            name = text(found)?;
        }
    }
    Ok(name)
}

/// Decodes a message field. Protobuf merges a message field that occurs twice.
pub(crate) fn merge<M: Message + Default>(into: &mut Option<M>, value: &[u8]) -> Outcome<()> {
    Ok(into.get_or_insert_default().merge(value)?)
}
