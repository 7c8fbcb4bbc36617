//! Values that must not be seen, in a text that somebody else wrote: they are found and left out.
//!
//! A client that rejects a resource quotes it as it likes: as it is, or with the escapes of C, JSON,
//! protobuf text, or URLs, once or several times, or bytes as base64 or in hexadecimal digits. So the
//! text is read in each of these ways. Any run of [`WINDOW`] bytes that is in a value too is left
//! out, so parts of a value are found like whole ones. Not here: which values these are (`values`).

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use bytes::Bytes;

use super::escapes::{Decoded, decodings};

/// The number of bytes that a text and a value must have in common. A shorter value is not found.
pub const WINDOW: usize = 12;

/// The bytes of all values that are looked for.
const MAX_VALUE_BYTES: usize = 256 * 1024;

/// The mark in place of what is left out.
const REDACTED: &str = "[redacted]";

/// Returns the text without those parts that are in one of the values, however they are escaped.
/// The result is `None` if there is too much to look for.
pub fn without_values(text: &str, values: &[Bytes]) -> Option<String> {
    let windows = ValueWindows::of(values)?;
    if windows.0.is_empty() {
        return Some(text.to_owned());
    }
    let mut hidden = vec![false; text.len()];
    for decoded in decodings(text) {
        windows.hide_in(&decoded, &mut hidden);
    }
    Some(marked(text, &hidden))
}

/// All windows of all values, as hashes.
struct ValueWindows(HashSet<u64, BuildHasherDefault<IsHash>>);

impl ValueWindows {
    fn of(values: &[Bytes]) -> Option<Self> {
        let mut windows = HashSet::default();
        let mut bytes = 0;
        for value in values {
            bytes += value.len();
            if bytes > MAX_VALUE_BYTES {
                return None;
            }
            windows.extend(value.windows(WINDOW).map(hash));
            // A text cannot have bytes that are not UTF-8: some clients replace them, and some take
            // each byte for a character.
            if std::str::from_utf8(value).is_err() {
                let replaced = String::from_utf8_lossy(value);
                windows.extend(replaced.as_bytes().windows(WINDOW).map(hash));
                let widened: String = value.iter().map(|byte| char::from(*byte)).collect();
                windows.extend(widened.as_bytes().windows(WINDOW).map(hash));
            }
        }
        Some(Self(windows))
    }

    /// Marks the bytes of the text that stand for a window of a value.
    fn hide_in(&self, decoded: &Decoded, hidden: &mut [bool]) {
        for (at, window) in decoded.bytes.windows(WINDOW).enumerate() {
            if self.0.contains(&hash(window)) {
                let places = &decoded.places[at..at + WINDOW];
                let (first, last) = (places[0].clone(), places[WINDOW - 1].clone());
                hidden[first.start as usize..last.end as usize].fill(true);
            }
        }
    }
}

/// The text with a mark in place of each run of hidden bytes.
fn marked(text: &str, hidden: &[bool]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut was_hidden = false;
    for (at, character) in text.char_indices() {
        match hidden[at] {
            false => out.push(character),
            true if !was_hidden => out.push_str(REDACTED),
            true => {}
        }
        was_hidden = hidden[at];
    }
    out
}

fn hash(window: &[u8]) -> u64 {
    let mut all = [0; 16];
    all[..WINDOW].copy_from_slice(window);
    let all = u128::from_le_bytes(all);
    let mixed = all.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    (mixed >> 64) as u64
}

/// A hasher for values that are hashes already.
#[derive(Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::base64;
    use proptest::prelude::*;

    use super::*;

    fn redacted(text: &str, value: &[u8]) -> String {
        without_values(text, &[Bytes::copy_from_slice(value)]).unwrap()
    }

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\"hk\\iG9w0BAQEF\n";

    #[test]
    fn a_value_is_left_out_and_the_rest_stays() {
        let text = format!("cluster `a`: bad key {KEY}: no start line");
        assert_eq!(
            redacted(&text, KEY.as_bytes()),
            "cluster `a`: bad key [redacted]: no start line"
        );
        assert_eq!(redacted("all is well", KEY.as_bytes()), "all is well");
        assert_eq!(redacted("short value", b"short value"), "short value");
    }

    #[test]
    fn a_part_of_a_value_is_left_out_too() {
        let text = format!("bad key {}…", &KEY[3..40]);
        assert_eq!(redacted(&text, KEY.as_bytes()), "bad key [redacted]…");
    }

    #[test]
    fn a_zero_byte_before_a_digit_is_read_as_in_c_and_as_in_rust() {
        let value = [[0; 7].as_slice(), b"0", &[0; 4]].concat();
        for text in [r"\0\0\0\0\0\0\00\0\0\0\0", r"\000\0\0\0\0\0\0\060\0\0\0\0"] {
            assert_eq!(redacted(text, &value), REDACTED);
        }
    }

    #[test]
    fn too_many_values_are_not_looked_for() {
        let value = Bytes::from(vec![b'x'; MAX_VALUE_BYTES + 1]);
        assert_eq!(without_values("x", &[value]), None);
    }

    fn octal(value: &[u8]) -> String {
        value.iter().map(|byte| format!("\\{byte:03o}")).collect()
    }

    fn hexadecimal(value: &[u8]) -> String {
        value.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    fn c_hexadecimal(value: &[u8]) -> String {
        value.iter().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    fn percent(value: &[u8]) -> String {
        value.iter().map(|byte| format!("%{byte:02X}")).collect()
    }

    fn escaped(value: &[u8]) -> String {
        value.escape_ascii().to_string()
    }

    fn json(value: &[u8]) -> String {
        serde_json::to_string(&String::from_utf8_lossy(value)).unwrap()
    }

    fn utf16(value: &[u8]) -> String {
        value.iter().map(|byte| format!("\\u{byte:04x}")).collect()
    }

    fn rust(value: &[u8]) -> String {
        format!("{:?}", String::from_utf8_lossy(value))
    }

    fn base64_url(value: &[u8]) -> String {
        base64::encode(value).replace('+', "-").replace('/', "_").replace('=', "")
    }

    fn base64_lines(value: &[u8]) -> String {
        let text = base64::encode(value);
        let lines: Vec<_> = text.as_bytes().chunks(20).map(String::from_utf8_lossy).collect();
        lines.join("\n")
    }

    type Way = fn(&[u8]) -> String;

    /// The ways in which a client may write bytes.
    const WAYS: [Way; 12] = [
        escaped,
        octal,
        c_hexadecimal,
        hexadecimal,
        percent,
        json,
        utf16,
        rust,
        base64::encode,
        base64_url,
        base64_lines,
        |value| String::from_utf8_lossy(value).into_owned(),
    ];

    /// Checks that neither the text nor anything it stands for has the first bytes of a value.
    fn leaks(text: &str, value: &[u8]) -> bool {
        let window = &value[..WINDOW];
        decodings(text).iter().any(|decoded| decoded.bytes.windows(WINDOW).any(|it| it == window))
    }

    proptest! {
        #[test]
        fn a_value_is_found_however_it_is_written(
            value in proptest::collection::vec(0_u8..0x80, WINDOW..60),
            before in proptest::collection::vec(any::<u8>(), 0..7),
            once in proptest::sample::select(WAYS.to_vec()),
            again in proptest::option::of(proptest::sample::select(vec![escaped as Way, json, rust])),
        ) {
            // The value may be in the middle of what is encoded.
            let whole = [before, value.clone()].concat();
            let quoted = once(&whole);
            let quoted = again.map_or_else(|| quoted.clone(), |again| again(quoted.as_bytes()));
            let text = format!("rejected: {quoted}: because");
            let shown = redacted(&text, &value);
            prop_assert!(shown.contains(REDACTED), "{text:?} -> {shown:?}");
            prop_assert!(!leaks(&shown, &value), "{text:?} -> {shown:?}");
            prop_assert!(shown.starts_with("rejected:") && shown.ends_with(" because"), "{shown:?}");
        }

        #[test]
        fn bytes_that_are_no_text_are_found_too(
            value in proptest::collection::vec(any::<u8>(), WINDOW..60),
            way in proptest::sample::select(WAYS.to_vec()),
        ) {
            let shown = redacted(&format!("rejected: {}", way(&value)), &value);
            prop_assert!(shown.contains(REDACTED), "{shown:?}");
        }

        #[test]
        fn any_text_is_taken(text in ".{0,200}", value in proptest::collection::vec(any::<u8>(), 0..40)) {
            redacted(&text, &value);
        }
    }
}
