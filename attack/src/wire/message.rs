//! Discovery requests as bytes, field by field, and the few fields of responses that are looked at.

use bytes::Bytes;

/// A protobuf message that is being written.
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

    pub(crate) fn text(&mut self, field: u32, value: impl AsRef<str>) {
        self.bytes(field, value.as_ref().as_bytes());
    }

    pub(crate) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.bytes(field, &Self::of(write));
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// The length-delimited fields of a message with this number; what cannot be read ends them.
pub(crate) fn fields(mut message: &[u8], number: u64) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(key) = read_varint(&mut message) {
        let size = match key & 7 {
            0 => {
                read_varint(&mut message);
                continue;
            }
            1 => 8,
            5 => 4,
            _ => match read_varint(&mut message).map(usize::try_from) {
                Some(Ok(size)) => size,
                _ => break,
            },
        };
        let Some((value, rest)) = message.split_at_checked(size) else { break };
        message = rest;
        if key >> 3 == number {
            found.push(value);
        }
    }
    found
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
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

/// The text of the first field with this number.
pub(crate) fn text(message: &[u8], number: u64) -> String {
    let found = fields(message, number);
    found.first().map(|value| String::from_utf8_lossy(value).into_owned()).unwrap_or_default()
}

/// A message of a gRPC stream, in its frame.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("no message here is 4 GiB long");
    [&[0][..], &length.to_be_bytes(), message].concat().into()
}

/// A request of the state of the world, and what its parts say if they say anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sotw {
    pub(crate) version: String,
    pub(crate) node: Option<Vec<u8>>,
    pub(crate) names: Vec<String>,
    pub(crate) type_url: String,
    pub(crate) nonce: String,
    pub(crate) error: Option<Vec<u8>>,
}

impl Sotw {
    /// The first request of a client.
    pub(crate) fn first(
        id: &str,
        type_url: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let names = names.into_iter().map(Into::into).collect();
        Self { node: Some(node(id)), type_url: type_url.to_owned(), names, ..Self::default() }
    }

    /// The next request after a response: its acceptance, or its rejection with an error.
    pub(crate) fn answer(&self, response: &[u8], error: Option<&str>) -> Self {
        let version = if error.is_none() { text(response, 1) } else { self.version.clone() };
        let error = error.map(rejection);
        Self { version, node: None, nonce: text(response, 5), error, ..self.clone() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Fields::of(|request| {
            for (number, value) in [(1, &self.version), (4, &self.type_url), (5, &self.nonce)] {
                if !value.is_empty() {
                    request.text(number, value);
                }
            }
            self.node.iter().for_each(|node| request.bytes(2, node));
            self.names.iter().for_each(|name| request.text(3, name));
            self.error.iter().for_each(|error| request.bytes(6, error));
        })
    }
}

/// The status of a rejection, with this text.
pub(crate) fn rejection(error: &str) -> Vec<u8> {
    Fields::of(|status| {
        status.number(1, 3);
        status.text(2, error);
    })
}

/// A delta request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delta {
    pub(crate) node: Option<Vec<u8>>,
    pub(crate) type_url: String,
    pub(crate) subscribe: Vec<String>,
    pub(crate) unsubscribe: Vec<String>,
    pub(crate) nonce: String,
    pub(crate) error: Option<Vec<u8>>,
}

impl Delta {
    /// The first request of a client.
    pub(crate) fn first(
        id: &str,
        type_url: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let subscribe = names.into_iter().map(Into::into).collect();
        Self { node: Some(node(id)), type_url: type_url.to_owned(), subscribe, ..Self::default() }
    }

    /// The acceptance of a response.
    pub(crate) fn ack(response: &[u8]) -> Self {
        Self { type_url: text(response, 4), nonce: text(response, 5), ..Self::default() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        Fields::of(|request| {
            self.node.iter().for_each(|node| request.bytes(1, node));
            request.text(2, &self.type_url);
            self.subscribe.iter().for_each(|name| request.text(3, name));
            self.unsubscribe.iter().for_each(|name| request.text(4, name));
            request.text(6, &self.nonce);
            self.error.iter().for_each(|error| request.bytes(7, error));
        })
    }
}

/// A node that says nothing but its id.
pub(crate) fn node(id: &str) -> Vec<u8> {
    Fields::of(|node| node.text(1, id))
}

/// A node whose cluster is this, which makes it a member of the group of that name.
pub(crate) fn node_of(group: &str) -> Vec<u8> {
    Fields::of(|node| {
        node.text(1, "attacker");
        node.text(2, group);
    })
}

/// A node whose metadata have this many keys with a short text each.
pub(crate) fn node_with_metadata(id: &str, keys: usize) -> Vec<u8> {
    Fields::of(|node| {
        node.text(1, id);
        node.message(3, |metadata| {
            for key in 0..keys {
                metadata.message(1, |entry| {
                    entry.text(1, format!("key-{key:08}"));
                    entry.message(2, |value| value.text(3, "value"));
                });
            }
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let request = Sotw::first("n", "t", ["a", "b"]).encode();
        assert_eq!((text(&request, 4).as_str(), fields(&request, 3).len()), ("t", 2));
        assert_eq!(text(fields(&request, 2)[0], 1), "n");
    }

    #[test]
    fn a_broken_message_is_no_panic() {
        for bytes in [&[0x0a][..], &[0xff; 11], &[0x0a, 0x05, 1], &[0x08]] {
            assert!(fields(bytes, 1).is_empty(), "{bytes:?}");
        }
    }
}
