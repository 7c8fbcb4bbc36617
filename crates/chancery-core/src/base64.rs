//! Bytes as text in base64 (RFC 4648).
//!
//! Not here: tokens, which are in one of the two alphabets alone.

/// Decodes both base64 alphabets, with or without padding. White space is skipped, because
/// block scalars of YAML contain it.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held, mut digits, mut padding) = (0u32, 0u32, 0usize, 0usize);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        digits += 1;
        (bits, held) = (bits << 6 | u32::from(digit), held + 6);
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    let left = digits % 4;
    let padded = padding == 0 || (padding < 3 && (digits + padding) % 4 == 0);
    (left != 1 && padded && bits & ((1 << held) - 1) == 0).then_some(out)
}

/// Encodes base64 with the usual alphabet and padding.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            out.push(if at > three.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_in_both_alphabets_and_nothing_else() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("eA==", b"x"),
            ("eA", b"x"),
            ("eHk=", b"xy"),
            ("eHl6\n", b"xyz"),
            ("-_8=", b"\xfb\xff"),
            ("+/8=", b"\xfb\xff"),
        ] {
            assert_eq!(decode(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["e", "e===", "eA=", "eA===", "=", "eB==", "e!==", "eA==eA==", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
            assert_eq!(encode(bytes.as_bytes()), text);
        }
        assert_eq!(encode(b"\xff\xef\xfe"), "/+/+");
    }
}
