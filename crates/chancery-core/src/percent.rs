//! Percent-encoding, as far as names need it ([RFC 3986](https://www.rfc-editor.org/rfc/rfc3986)).
//!
//! Each part of a URI has a function of its own, because other characters stay as they are in it.
//! Sub-delimiters, `:` and `@` stay, as in gRPC's C++ and Java clients. The Go client encodes
//! `!'()*,;` as well, so a server of all of them has to accept both spellings (C-023, [gRFC A47]).
//!
//! [gRFC A47]: https://github.com/grpc/proposal/blob/master/A47-xds-federation.md

/// Encodes the characters that a path cannot contain; slashes stay (C-022).
pub(crate) fn path(text: &str) -> String {
    encode(text, |byte| is_segment(byte) || byte == b'/')
}

/// Encodes the characters that a segment of a path cannot contain; a slash is one of them.
pub(crate) fn segment(text: &str) -> String {
    encode(text, is_segment)
}

/// Encodes the characters that an authority cannot contain; the brackets of an IPv6 address stay.
pub(crate) fn authority(text: &str) -> String {
    encode(text, |byte| is_segment(byte) || matches!(byte, b'[' | b']'))
}

/// The fault of a text that cannot be percent-decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEncoding {
    /// A `%` is not followed by two hexadecimal digits.
    #[error("a `%` is not followed by two hexadecimal digits")]
    Escape,
    /// The decoded bytes are not UTF-8.
    #[error("the decoded bytes are not UTF-8")]
    NotUtf8,
}

/// Decodes a percent-encoded text.
///
/// ```
/// use chancery_core::percent::{InvalidEncoding, decode};
///
/// assert_eq!(decode("a%2Fb").as_deref(), Ok("a/b"));
/// assert_eq!(decode("a%2"), Err(InvalidEncoding::Escape));
/// ```
///
/// # Errors
/// If the text is no encoding of a text.
pub fn decode(text: &str) -> Result<String, InvalidEncoding> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        (rest, _) = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let byte = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low);
                (after, bytes.push(byte.ok_or(InvalidEncoding::Escape)?))
            }
            (b'%', _) => return Err(InvalidEncoding::Escape),
            (byte, after) => (after, bytes.push(*byte)),
        };
    }
    String::from_utf8(bytes).map_err(|_| InvalidEncoding::NotUtf8)
}

/// The first character of a URI that is not allowed at its place. Brackets are allowed in the
/// authority alone.
pub(crate) fn first_invalid_char(uri: &str) -> Option<char> {
    let path = uri.find("://").map_or(0, |at| at + 3);
    let path = uri[path..].find('/').map_or(uri.len(), |at| path + at);
    let bytes = uri.as_bytes();
    let fits = |(at, character): &(usize, char)| match character {
        '%' => bytes.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)),
        '[' | ']' => *at < path,
        '/' | '?' => true,
        character => u8::try_from(*character).is_ok_and(is_segment),
    };
    uri.char_indices().find(|found| !fits(found)).map(|(_, character)| character)
}

fn encode(text: &str, stays: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if stays(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded
                .extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
        }
    }
    encoded
}

/// Returns true for a `pchar` of RFC 3986, except the percent sign.
fn is_segment(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        for text in ["", "a", "a b?c#d/e", "100%25", "\u{e9}\u{1f600}", "[::1]:80", "%"] {
            for encode in [path, segment, authority] {
                assert_eq!(decode(&encode(text)).as_deref(), Ok(text));
                assert_eq!(first_invalid_char(&format!("x:{}", path(text))), None);
            }
        }
    }

    #[test]
    fn places_differ_in_what_stays() {
        let text = "[a]/b";
        assert_eq!(path(text), "%5Ba%5D/b");
        assert_eq!(segment(text), "%5Ba%5D%2Fb");
        assert_eq!(authority(text), "[a]%2Fb");
    }

    #[test]
    fn half_an_escape_is_none() {
        for text in ["%", "a%2", "%zz", "%+1"] {
            assert_eq!(decode(text), Err(InvalidEncoding::Escape), "{text}");
        }
        assert_eq!(decode("%ff"), Err(InvalidEncoding::NotUtf8));
        assert_eq!(decode("%c3%A9").as_deref(), Ok("\u{e9}"), "digits of either case");
    }
}
