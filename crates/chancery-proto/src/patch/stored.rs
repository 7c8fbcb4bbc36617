//! Patches as bytes, for whoever keeps them over a restart of the program.
//!
//! The message is written canonically, and the fields that are set to nothing as a tree. Bytes that are
//! no patch are refused, whatever they are. Not here: the files of a store, and its checksums.

use bytes::Bytes;
use chancery_core::{ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, MapKey};

use super::{Cleared, FieldPlaces, Patch, Step};
use crate::canonical;
use crate::clients::Clients;
use crate::document::{Checks, RuleCheck};
use crate::schema::Schema;

impl Patch {
    /// The patch as bytes, without its type and its name.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_checks(self.checks, &mut bytes);
        write_cleared(&self.cleared, &mut bytes);
        bytes.extend(canonical::encode(&self.message));
        bytes
    }

    /// The patch of a resource that [`to_bytes`](Self::to_bytes) wrote; `None` if these bytes are none.
    pub fn from_bytes(
        schema: &Schema,
        type_url: &TypeUrl,
        name: &ResourceName,
        bytes: &[u8],
    ) -> Option<Self> {
        let mut rest = bytes;
        let checks = read_checks(&mut rest)?;
        let cleared = read_cleared(&mut rest, 0)?;
        let descriptor = schema.message(type_url.message_name())?;
        let message = DynamicMessage::decode(descriptor, Bytes::copy_from_slice(rest)).ok()?;
        Some(Self::new(
            schema,
            (type_url.clone(), name.clone()),
            message,
            cleared,
            FieldPlaces::default(),
            checks,
        ))
    }
}

pub(crate) fn write_checks(checks: Checks, to: &mut Vec<u8>) {
    to.push(match checks.rules {
        RuleCheck::Fault => 0,
        RuleCheck::Warn => 1,
        RuleCheck::Off => 2,
    });
    write_text(&checks.clients.to_string(), to);
}

pub(crate) fn read_checks(from: &mut &[u8]) -> Option<Checks> {
    let rules = match take(from)? {
        [0] => RuleCheck::Fault,
        [1] => RuleCheck::Warn,
        [2] => RuleCheck::Off,
        _ => return None,
    };
    // Clients that this version does not know are nobody that it could check for.
    let clients = read_text(from)?.split(", ").filter_map(|it| it.parse().ok());
    let clients = clients.reduce(Clients::and).unwrap_or_default();
    Some(Checks { rules, clients })
}

fn write_cleared(cleared: &Cleared, to: &mut Vec<u8>) {
    write_length(cleared.fields.len(), to);
    cleared.fields.iter().for_each(|field| to.extend(field.to_le_bytes()));
    write_length(cleared.inside.len(), to);
    for (Step(field, key), inside) in &cleared.inside {
        to.extend(field.to_le_bytes());
        match key {
            None => to.push(0),
            Some(MapKey::Bool(key)) => to.extend([1, u8::from(*key)]),
            Some(MapKey::I32(key)) => write_number(2, &key.to_le_bytes(), to),
            Some(MapKey::I64(key)) => write_number(3, &key.to_le_bytes(), to),
            Some(MapKey::U32(key)) => write_number(4, &key.to_le_bytes(), to),
            Some(MapKey::U64(key)) => write_number(5, &key.to_le_bytes(), to),
            Some(MapKey::String(key)) => {
                to.push(6);
                write_text(key, to);
            }
        }
        write_cleared(inside, to);
    }
}

fn write_number(kind: u8, bytes: &[u8], to: &mut Vec<u8>) {
    to.push(kind);
    to.extend(bytes);
}

pub(crate) fn write_text(text: &str, to: &mut Vec<u8>) {
    write_length(text.len(), to);
    to.extend(text.as_bytes());
}

pub(crate) fn read_text<'a>(from: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(u32::from_le_bytes(take(from)?)).ok()?;
    let (text, rest) = from.split_at_checked(length)?;
    *from = rest;
    str::from_utf8(text).ok()
}

/// Writes the length of a part of a file, which is far smaller than this can say.
pub(crate) fn write_length(length: usize, to: &mut Vec<u8>) {
    to.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

/// Reads what [`write_cleared`] wrote, so many levels at most as a patch can have.
fn read_cleared(from: &mut &[u8], depth: usize) -> Option<Cleared> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut cleared = Cleared::default();
    for _ in 0..u32::from_le_bytes(take(from)?) {
        cleared.fields.insert(u32::from_le_bytes(take(from)?));
    }
    for _ in 0..u32::from_le_bytes(take(from)?) {
        let field = u32::from_le_bytes(take(from)?);
        let [kind] = take(from)?;
        let key = match kind {
            0 => None,
            1 => Some(MapKey::Bool(take::<1>(from)? != [0])),
            2 => Some(MapKey::I32(i32::from_le_bytes(take(from)?))),
            3 => Some(MapKey::I64(i64::from_le_bytes(take(from)?))),
            4 => Some(MapKey::U32(u32::from_le_bytes(take(from)?))),
            5 => Some(MapKey::U64(u64::from_le_bytes(take(from)?))),
            6 => Some(MapKey::String(read_text(from)?.to_owned())),
            _ => return None,
        };
        cleared.inside.insert(Step(field, key), read_cleared(from, depth + 1)?);
    }
    Some(cleared)
}

pub(crate) fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

/// The levels of messages in a text are far fewer.
const MAX_DEPTH: usize = 200;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::document::{Format, ResourceEdit, parse_checked};

    fn patches() -> Vec<(TypeUrl, Arc<Patch>)> {
        let text = "patch:\n\
                    - \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  \
                      name: c\n  connect_timeout: null\n  lb_policy: MAGLEV\n  \
                      common_lb_config: {healthy_panic_threshold: null}\n\
                    - \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  \
                      name: d\n  typed_extension_protocol_options:\n    \
                      k: {\"@type\": t/envoy.config.core.v3.HttpProtocolOptions, idle_timeout: null}\n";
        let clients = Clients::ENVOY.and("envoy=1.36".parse().unwrap());
        let checks = Checks { rules: RuleCheck::Warn, clients };
        let parsed = parse_checked(&Schema::bundled(), Format::Yaml, text.as_bytes(), checks);
        assert!(parsed.faults.is_empty(), "{:?}", parsed.faults);
        let patches = parsed.edits.into_iter().map(|edit| match edit.edit {
            ResourceEdit::Patch(patch) => (edit.type_url, patch),
            ResourceEdit::Remove => unreachable!("there is none"),
        });
        patches.collect()
    }

    #[test]
    fn a_patch_comes_back_as_it_was_and_no_cut_of_it_panics() {
        let schema = Schema::bundled();
        let patches = patches();
        assert_eq!(patches.len(), 2);
        for (type_url, patch) in patches {
            let bytes = patch.to_bytes();
            let read = |bytes: &[u8]| Patch::from_bytes(&schema, &type_url, patch.name(), bytes);
            // An empty `Any` is the same as one that was never set.
            let again = read(&bytes).unwrap();
            assert_eq!((again.digest(), &again.cleared), (patch.digest(), &patch.cleared));
            assert_eq!((again.name(), again.checks), (patch.name(), patch.checks));
            for end in 0..bytes.len() {
                drop(read(&bytes[..end]));
            }
            for at in 0..bytes.len() * 8 {
                let mut other = bytes.clone();
                other[at / 8] ^= 1 << (at % 8);
                drop(read(&other));
            }
        }
    }
}
