//! The bytes that a text may stand for: with its escapes undone, and from base64 and hexadecimal
//! digits. Each byte knows its place in the text.
//!
//! Nothing here fails: what is no escape stands for itself. The work is linear in the text.

use std::ops::Range;

/// Bytes that a text may stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoded {
    pub(super) bytes: Vec<u8>,
    /// The part of the text that each byte comes from.
    pub(super) places: Vec<Range<u32>>,
}

/// The number of times that escapes are undone: a client quotes what another part of it quoted.
const ROUNDS: usize = 4;

/// The fewest digits of base64 or hexadecimal that are read as such: those of the shortest value.
const MIN_DIGITS: usize = 12;

/// The escapes of a notation. In another one they may be a part of the value.
#[derive(Clone, Copy)]
struct Notation {
    /// True if `%41` is an escape.
    percent: bool,
    /// True if `\0` has up to two more octal digits, as in C. In Rust and JavaScript it has none.
    octal: bool,
}

const NOTATIONS: [Notation; 3] = [
    Notation { percent: true, octal: true },
    Notation { percent: false, octal: true },
    Notation { percent: false, octal: false },
];

/// All that a text may stand for, itself first.
pub(super) fn decodings(text: &str) -> Vec<Decoded> {
    let mut all = vec![Decoded::of(text)];
    for notation in NOTATIONS {
        let mut last = 0;
        for _ in 0..ROUNDS {
            let undone = all[last].undone(notation);
            if undone.bytes.len() == all[last].bytes.len() {
                break;
            }
            // Most texts are the same in several notations.
            let known = all.iter().position(|known| known.bytes == undone.bytes);
            last = known.unwrap_or(all.len());
            if known.is_none() {
                all.push(undone);
            }
        }
    }
    let encoded: Vec<_> = all.iter().flat_map(Decoded::as_digits).collect();
    all.extend(encoded);
    all
}

impl Decoded {
    fn of(text: &str) -> Self {
        let mut decoded = Self::default();
        for (at, character) in text.char_indices() {
            let place = at as u32..(at + character.len_utf8()) as u32;
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                decoded.push(byte, place.clone());
            }
        }
        decoded
    }

    fn push(&mut self, byte: u8, place: Range<u32>) {
        self.bytes.push(byte);
        self.places.push(place);
    }

    fn push_char(&mut self, character: char, place: &Range<u32>) {
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            self.push(byte, place.clone());
        }
    }

    /// The part of the text from one byte to the byte before another.
    fn place(&self, from: usize, to: usize) -> Range<u32> {
        self.places[from].start..self.places[to - 1].end
    }

    /// The same with one round of escapes undone.
    fn undone(&self, notation: Notation) -> Self {
        let mut out = Self::default();
        let mut at = 0;
        while at < self.bytes.len() {
            let rest = &self.bytes[at..];
            let (meaning, length) = escape(rest, notation).unwrap_or((Meaning::Byte(rest[0]), 1));
            let place = self.place(at, at + length);
            match meaning {
                Meaning::Byte(byte) => out.push(byte, place),
                Meaning::Char(character) => out.push_char(character, &place),
                Meaning::Nothing => {}
            }
            at += length;
        }
        out
    }

    /// The bytes that runs of digits stand for, in base64 and in hexadecimal, from each position in
    /// a group of digits, because the group may have begun before.
    fn as_digits(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for (bits, digit) in [(6, base64_digit as fn(u8) -> Option<u8>), (4, hexadecimal_digit)] {
            let groups = if bits == 6 { 4 } else { 2 };
            for skip in 0..groups {
                all.push(self.read_digits(bits, digit, skip));
            }
        }
        all.retain(|decoded| !decoded.bytes.is_empty());
        all
    }

    /// Reads all runs of digits of this many bits, without the first ones of each.
    fn read_digits(&self, bits: u32, digit: fn(u8) -> Option<u8>, skip: usize) -> Self {
        let mut out = Self::default();
        let mut run: Vec<(u8, usize)> = Vec::new();
        for (at, byte) in self.bytes.iter().enumerate() {
            match digit(*byte) {
                Some(value) => run.push((value, at)),
                // Encoded bytes are often broken into lines.
                None if byte.is_ascii_whitespace() && !run.is_empty() => {}
                None => self.finish_run(&mut run, bits, skip, &mut out),
            }
        }
        self.finish_run(&mut run, bits, skip, &mut out);
        out
    }

    fn finish_run(&self, run: &mut Vec<(u8, usize)>, bits: u32, skip: usize, out: &mut Self) {
        if run.len() >= MIN_DIGITS {
            let (mut held, mut have, mut first) = (0_u32, 0, 0);
            for &(value, at) in &run[skip..] {
                if have == 0 {
                    first = at;
                }
                held = held << bits | u32::from(value);
                have += bits;
                if have >= 8 {
                    have -= 8;
                    out.push((held >> have) as u8, self.place(first, at + 1));
                    held &= (1 << have) - 1;
                    first = at;
                }
            }
            // The next digits are another run: no value reaches over the gap.
        }
        run.clear();
    }
}

/// The meaning of an escape.
enum Meaning {
    Byte(u8),
    Char(char),
    Nothing,
}

/// The escape at the beginning of some bytes, and its length.
fn escape(bytes: &[u8], notation: Notation) -> Option<(Meaning, usize)> {
    match bytes {
        [b'%', rest @ ..] if notation.percent => {
            number(rest, 16, 2, 2).map(|(byte, _)| (Meaning::Byte(byte as u8), 3))
        }
        [b'\\', kind, rest @ ..] => {
            let simple = |byte| Some((Meaning::Byte(byte), 2));
            match kind {
                b'n' => simple(b'\n'),
                b'r' => simple(b'\r'),
                b't' => simple(b'\t'),
                b'a' => simple(7),
                b'b' => simple(8),
                b'v' => simple(11),
                b'f' => simple(12),
                b'"' | b'\'' | b'\\' | b'/' | b'?' | b'`' | b'$' => simple(*kind),
                b'\n' => Some((Meaning::Nothing, 2)),
                b'x' | b'X' => {
                    let (byte, digits) = number(rest, 16, 1, 2)?;
                    Some((Meaning::Byte(byte as u8), 2 + digits))
                }
                b'0' if !notation.octal => simple(0),
                b'0'..=b'7' => {
                    let (byte, digits) = number(&bytes[1..], 8, 1, 3)?;
                    Some((Meaning::Byte(byte as u8), 1 + digits))
                }
                b'u' if rest.first() == Some(&b'{') => {
                    let (code, digits) = number(&rest[1..], 16, 1, 6)?;
                    (rest.get(1 + digits) == Some(&b'}')).then_some(())?;
                    Some((character(code), 4 + digits))
                }
                b'u' => utf16(rest),
                b'U' => number(rest, 16, 8, 8).map(|(code, _)| (character(code), 10)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A character in UTF-16, of one or two escapes. The first digits are those after `\u`.
fn utf16(rest: &[u8]) -> Option<(Meaning, usize)> {
    let (first, _) = number(rest, 16, 4, 4)?;
    if let Some(second) = rest[4..].strip_prefix(b"\\u")
        && (0xd800..0xdc00).contains(&first)
        && let Some((second, _)) = number(second, 16, 4, 4)
        && (0xdc00..0xe000).contains(&second)
    {
        let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Some((character(code), 12));
    }
    Some((character(first), 6))
}

fn character(code: u32) -> Meaning {
    Meaning::Char(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// The number at the beginning of some bytes, and the number of its digits.
fn number(bytes: &[u8], radix: u32, least: usize, most: usize) -> Option<(u32, usize)> {
    let digits = bytes.iter().take(most).map_while(|byte| char::from(*byte).to_digit(radix));
    let (value, count) =
        digits.fold((0, 0), |(value, count), digit| (value * radix + digit, count + 1));
    (count >= least).then_some((value, count))
}

fn base64_digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

fn hexadecimal_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(text: &str) -> String {
        String::from_utf8_lossy(&Decoded::of(text).undone(NOTATIONS[0]).bytes).into_owned()
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(undone(r#"a\n\t\"\\\x41\101\u0042\u{43}\U00000044%45"#), "a\n\t\"\\AABCDE");
        assert_eq!(undone(r"\ud83e\udd80"), "🦀");
        for text in [r"\", r"\q", r"\u12", r"\u{zz}", "%", "%4", r"\ud800", r"\U0000", r"\x"] {
            undone(text);
        }
    }

    #[test]
    fn digits_are_read_from_each_position() {
        let decoded = Decoded::of("x=c2VjcmV0LWtleS12YWx1ZQ==").as_digits();
        let texts: Vec<_> =
            decoded.iter().map(|it| String::from_utf8_lossy(&it.bytes).into_owned()).collect();
        assert!(texts.iter().any(|text| text.contains("secret-key-value")), "{texts:?}");
    }

    #[test]
    fn each_byte_knows_its_place() {
        let decoded = Decoded::of(r"ä\nb").undone(NOTATIONS[0]);
        assert_eq!(decoded.bytes, "ä\nb".as_bytes());
        assert_eq!(decoded.places, [0..2, 0..2, 2..4, 4..5]);
    }
}
