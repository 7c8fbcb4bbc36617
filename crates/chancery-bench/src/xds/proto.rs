//! Protobuf: the part that is needed to write requests and to read whole responses.

/// Appends a length-delimited field.
pub(crate) fn field(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    varint(out, u64::from(number << 3 | 2));
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a number.
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The length-delimited fields of a message in their order, up to where it is malformed.
pub(crate) fn fields(mut bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        loop {
            let key = take_varint(&mut bytes)?;
            let length = match key & 7 {
                0 => {
                    take_varint(&mut bytes)?;
                    continue;
                }
                1 => 8,
                5 => 4,
                2 => usize::try_from(take_varint(&mut bytes)?).ok()?,
                _ => return None,
            };
            let (value, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            if key & 7 == 2 {
                return Some((u32::try_from(key >> 3).ok()?, value));
            }
        }
    })
}

/// The last value of a number in a message, as far as it is not malformed.
pub(crate) fn number(mut bytes: &[u8], wanted: u32) -> Option<u64> {
    let mut found = None;
    while let Some(key) = take_varint(&mut bytes) {
        let length = match key & 7 {
            0 => {
                let value = take_varint(&mut bytes)?;
                found = if key >> 3 == u64::from(wanted) { Some(value) } else { found };
                continue;
            }
            1 => 8,
            5 => 4,
            2 => usize::try_from(take_varint(&mut bytes)?).ok()?,
            _ => return None,
        };
        bytes = bytes.get(length..)?;
    }
    found
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_fields_are_passed_over() {
        let mut out = Vec::new();
        field(&mut out, 3, &[b'x'; 300]);
        out.extend_from_slice(&[1 << 3, 0x96, 0x01, 2 << 3 | 5, 1, 2, 3, 4]);
        field(&mut out, 20, b"y");
        let read: Vec<_> = fields(&out).collect();
        assert_eq!(read, [(3, &[b'x'; 300][..]), (20, b"y")]);
    }

    #[test]
    fn numbers_are_found_among_other_fields() {
        let message = [8, 7, 0x12, 2, 8, 1, 2 << 3 | 5, 1, 2, 3, 4, 24, 0x96, 1, 8, 9];
        assert_eq!([1, 3, 4].map(|wanted| number(&message, wanted)), [Some(9), Some(150), None]);
    }

    #[test]
    fn a_malformed_message_ends_the_fields() {
        for bytes in [&[0x1a][..], &[0x1a, 5, 1], &[0xff; 12], &[0x1b, 1], &[0x1a, 0xff, 0xff]] {
            assert_eq!(fields(bytes).count(), 0, "{bytes:?}");
        }
    }
}
