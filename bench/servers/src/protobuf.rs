//! Protobuf, written field by field: the few lines a generator of known messages needs.

/// A message that is being written.
#[derive(Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    /// One message, as bytes.
    pub(crate) fn of(write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut fields = Self::default();
        write(&mut fields);
        fields.0
    }

    pub(crate) fn number(&mut self, field: u32, value: u64) {
        varint(&mut self.0, u64::from(field << 3));
        varint(&mut self.0, value);
    }

    pub(crate) fn bytes(&mut self, field: u32, value: &[u8]) {
        varint(&mut self.0, u64::from(field << 3 | 2));
        varint(&mut self.0, value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(crate) fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.bytes(field, &Self::of(write));
    }

    /// A `google.protobuf.Any`.
    pub(crate) fn any(&mut self, field: u32, type_url: &str, value: &[u8]) {
        self.message(field, |any| {
            any.text(1, type_url);
            any.bytes(2, value);
        });
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_protobuf_has_them() {
        let message = Fields::of(|fields| {
            fields.number(1, 300);
            fields.message(16, |inner| inner.text(2, "ab"));
        });
        assert_eq!(message, [0x08, 0xac, 0x02, 0x82, 0x01, 0x04, 0x12, 0x02, b'a', b'b']);
    }
}
