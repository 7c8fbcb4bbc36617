//! The rest of descriptors: what a newer version of Envoy's API has, and the set of `envoy-types` lacks.
//!
//! A line `define NAME HEX` of the table has the bytes that belong to the end of one descriptor: of a file, of
//! a message or of an enum. Bytes of a message that follow those of another one add to its lists, so nothing is
//! decoded that could get lost (options are extensions). A field whose number the rest has too was called
//! otherwise before a version was published, and is left out; and so is a file after `undefine`.
//!
//! Not here: where the lines come from (`xtask/client-table`).

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use prost::encoding::WireType;
use prost::encoding::{
    DecodeContext, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};

type Result<T> = std::result::Result<T, String>;

/// All that a table says of descriptors.
#[derive(Default)]
struct Rests {
    /// The rests by the names of what they belong to.
    more: BTreeMap<String, Vec<u8>>,
    /// The files that are left out.
    gone: BTreeSet<String>,
}

/// Adds all of a table to the encoded files of a set.
pub(crate) fn add(files: &mut Vec<Vec<u8>>, table: &str) -> Result<()> {
    let mut rests = Rests::read(table)?;
    for mut file in std::mem::take(files) {
        let FileName { name, package } = FileName::decode(&file[..]).map_err(broken)?;
        if !rests.gone.contains(&name) {
            let rest = rests.more.remove(&name).unwrap_or_default();
            file = with_parts(&file, rest, FILE, &package, &mut rests)?;
            files.push(file);
        }
    }
    // Files that are not there yet are whole.
    for (name, bytes) in rests.more {
        if !name.ends_with(".proto") {
            return Err(format!("the descriptors have no `{name}`"));
        }
        files.push(bytes);
    }
    Ok(())
}

impl Rests {
    fn read(table: &str) -> Result<Self> {
        let mut rests = Self::default();
        for line in table.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("define"), Some(name), Some(digits)) => {
                    let bytes = bytes(digits).ok_or_else(|| format!("{name}: no hex"))?;
                    rests.more.insert(name.to_owned(), bytes);
                }
                (Some("undefine"), Some(name), _) => drop(rests.gone.insert(name.to_owned())),
                _ => {}
            }
        }
        Ok(rests)
    }
}

/// The numbers of the fields of a descriptor that hold other descriptors, and of a file that it imports.
#[derive(Clone, Copy)]
struct Inner {
    messages: u32,
    enums: u32,
    fields: Option<u32>,
    imports: Option<u32>,
}

const FILE: Inner = Inner { messages: 4, enums: 5, fields: None, imports: Some(3) };
const MESSAGE: Inner = Inner { messages: 3, enums: 4, fields: Some(2), imports: None };

/// The bytes of a descriptor with its rest, and with those of the messages and enums in it.
fn with_parts(
    bytes: &[u8],
    rest: Vec<u8>,
    inner: Inner,
    within: &str,
    rests: &mut Rests,
) -> Result<Vec<u8>> {
    let replaced = if inner.fields.is_some() { numbers(&rest)? } else { BTreeSet::new() };
    let mut whole = Vec::with_capacity(bytes.len() + rest.len());
    let mut left = bytes;
    while !left.is_empty() {
        let field = left;
        let (number, wire_type) = decode_key(&mut left).map_err(broken)?;
        let mut content = left;
        skip_field(wire_type, number, &mut left, DecodeContext::default()).map_err(broken)?;
        let field = &field[..field.len() - left.len()];
        if number == inner.messages || number == inner.enums {
            let length = decode_varint(&mut content).map_err(broken)?;
            let content = content.get(..length as usize).ok_or("a descriptor is cut")?;
            let name = format!("{within}.{}", Name::decode(content).map_err(broken)?.name);
            let rest = rests.more.remove(&name).unwrap_or_default();
            let part = match number == inner.messages {
                true => with_parts(content, rest, MESSAGE, &name, rests)?,
                false => [content, &rest].concat(),
            };
            encode_key(number, WireType::LengthDelimited, &mut whole);
            encode_varint(part.len() as u64, &mut whole);
            whole.extend(part);
            continue;
        }
        let is_gone = match Some(number) {
            number if number == inner.fields => !numbers(field)?.is_disjoint(&replaced),
            number if number == inner.imports => {
                rests.gone.iter().any(|gone| field.ends_with(gone.as_bytes()))
            }
            _ => false,
        };
        if !is_gone {
            whole.extend_from_slice(field);
        }
    }
    whole.extend(rest);
    Ok(whole)
}

/// The numbers of the fields in some bytes of a message.
fn numbers(bytes: &[u8]) -> Result<BTreeSet<i32>> {
    let fields = Fields::decode(bytes).map_err(broken)?.fields;
    Ok(fields.into_iter().map(|field| field.number).collect())
}

fn broken(why: prost::DecodeError) -> String {
    format!("a descriptor cannot be read: {why}")
}

/// The bytes of a text of two digits each.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

/// The name and the package of a file.
#[derive(Clone, PartialEq, Message)]
struct FileName {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    package: String,
}

/// The name of another descriptor.
#[derive(Clone, PartialEq, Message)]
struct Name {
    #[prost(string, tag = "1")]
    name: String,
}

/// The fields of a message.
#[derive(Clone, PartialEq, Message)]
struct Fields {
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
}

/// The number of a field.
#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(int32, tag = "3")]
    number: i32,
}
