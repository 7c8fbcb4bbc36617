//! The Huffman code of header fields, decoding only (RFC 7541, section 5.2 and appendix B).
//!
//! The code is canonical, so it follows from the lengths alone. It is needed for the few fields that
//! say why a stream ended, so this is written to be short and not to be fast.

/// Decodes a text; returns nothing if the bytes are not a coded text.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let (mut code, mut length) = (0_u32, 0_u8);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
        code = code << 1 | u32::from(bit);
        length += 1;
        if let Some(symbol) = symbol(code, length) {
            text.push(u8::try_from(symbol).ok()?);
            (code, length) = (0, 0);
        } else if length == LONGEST {
            return None;
        }
    }
    // The rest is padding: less than a byte, all ones.
    (length < 8 && code == (1 << length) - 1).then_some(text)
}

/// The symbol with this code of this length. Codes of one length follow each other in the order
/// of the symbols, and each length goes on where the shorter ones ended.
fn symbol(code: u32, length: u8) -> Option<usize> {
    let mut first = 0_u32;
    for shorter in 1..length {
        first = (first + count(shorter)) << 1;
    }
    let nth = usize::try_from(code.checked_sub(first)?).ok()?;
    LENGTHS.iter().enumerate().filter(|(_, known)| **known == length).nth(nth).map(|(at, _)| at)
}

fn count(length: u8) -> u32 {
    LENGTHS.iter().map(|known| u32::from(*known == length)).sum()
}

const LONGEST: u8 = 30;

/// The number of bits of the code of each byte, and of the end of the text after them.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5,
    6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23,
    23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22,
    22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26,
    27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25,
    25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard_are_read() {
        // RFC 7541, appendix C.4 and C.6
        let coded = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decode(&coded).unwrap(), b"www.example.com");
        assert_eq!(decode(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).unwrap(), b"no-cache");
        assert_eq!(decode(&[0x64, 0x02]).unwrap(), b"302");
        assert_eq!(decode(&[]).unwrap(), b"");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for bytes in [&[0xff; 4][..], &[0xff], &[0x00, 0x00], &[0xff, 0xff, 0xff, 0xfa]] {
            // Four zero bits at the end are no padding; the end of the text is no symbol.
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn the_code_is_complete() {
        let left = LENGTHS.iter().map(|length| 1_u64 << (LONGEST - length)).sum::<u64>();
        assert_eq!(left, 1 << LONGEST);
    }
}
