//! A pool of types that somebody else has written. The library that reads them takes for granted that a compiler
//! has written them, and panics about some others. So it is given what calls need and no more, and what it does
//! not check is checked before.

use anyhow::{Context, anyhow};
use chancery_core::printable::{MAX_NAME_BYTES, Printable, cut};
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumOptions, FieldDescriptorProto, FieldOptions,
    FileDescriptorProto, MessageOptions,
};

/// Returns a pool of these files.
///
/// # Errors
/// If one of them is malformed, or imports what is not there.
pub(super) fn of(mut files: Vec<FileDescriptorProto>) -> anyhow::Result<DescriptorPool> {
    for file in &mut files {
        checked(file).with_context(|| {
            format!("in the file `{}`", Printable(cut(file.name(), MAX_NAME_BYTES)))
        })?;
    }
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(files)?;
    Ok(pool)
}

/// Checks a file, and leaves out what calls do not need: options, extensions and comments.
fn checked(file: &mut FileDescriptorProto) -> anyhow::Result<()> {
    if !matches!(file.syntax(), "" | "proto2" | "proto3") {
        let syntax = Printable(cut(file.syntax(), MAX_NAME_BYTES));
        return Err(anyhow!("the syntax `{syntax}` is not known"));
    }
    // None is proto2, and so is an empty one.
    file.syntax = file.syntax.take().filter(|syntax| !syntax.is_empty());
    (file.options, file.source_code_info) = (None, None);
    (file.public_dependency, file.weak_dependency) = (public(file), Vec::new());
    file.extension.clear();
    for service in &mut file.service {
        service.options = None;
        service.method.iter_mut().for_each(|method| method.options = None);
    }
    file.enum_type.iter_mut().for_each(reduce_enum);
    file.message_type.iter_mut().for_each(reduce);
    file.message_type.iter().try_for_each(check)
}

/// Returns the public imports that are there.
fn public(file: &FileDescriptorProto) -> Vec<i32> {
    let is_there =
        |place: &&i32| usize::try_from(**place).is_ok_and(|it| it < file.dependency.len());
    file.public_dependency.iter().filter(is_there).copied().collect()
}

fn reduce(message: &mut DescriptorProto) {
    let map_entry = message.options.as_ref().and_then(|options| options.map_entry);
    message.options = map_entry.map(|map_entry| MessageOptions {
        map_entry: Some(map_entry),
        ..MessageOptions::default()
    });
    message.extension.clear();
    message.extension_range.clear();
    message.reserved_range.clear();
    message.reserved_name.clear();
    for field in &mut message.field {
        let packed = field.options.as_ref().and_then(|options| options.packed);
        let options = |packed| FieldOptions { packed: Some(packed), ..FieldOptions::default() };
        field.options = packed.map(options);
        field.default_value = None;
    }
    message.oneof_decl.iter_mut().for_each(|oneof| oneof.options = None);
    message.enum_type.iter_mut().for_each(reduce_enum);
    message.nested_type.iter_mut().for_each(reduce);
}

fn reduce_enum(found: &mut EnumDescriptorProto) {
    // Two names of one number are fine wherever they come from.
    found.options = Some(EnumOptions { allow_alias: Some(true), ..EnumOptions::default() });
    found.value.iter_mut().for_each(|value| value.options = None);
    found.reserved_range.clear();
    found.reserved_name.clear();
}

/// Checks a message and those in it. How deep they are is bounded where bytes are read.
fn check(message: &DescriptorProto) -> anyhow::Result<()> {
    let name = || Printable(cut(message.name(), MAX_NAME_BYTES)).to_string();
    if message.field.iter().any(|field| field.r#type.is_some_and(|it| Type::try_from(it).is_err()))
    {
        return Err(anyhow!("message `{}` has a field of an unknown type", name()));
    }
    let is_entry = message.options.as_ref().is_some_and(|options| options.map_entry());
    if is_entry && !is_well_formed_entry(&message.field) {
        return Err(anyhow!("the entry `{}` of a map is malformed", name()));
    }
    message.nested_type.iter().try_for_each(check)
}

/// Returns true for the fields of an entry of a map: a key and a value.
fn is_well_formed_entry(fields: &[FieldDescriptorProto]) -> bool {
    let numbers: Vec<_> = fields.iter().map(FieldDescriptorProto::number).collect();
    let are_single = fields.iter().all(|field| field.label() == Label::Optional);
    let key = fields.iter().find(|field| field.number() == 1);
    let is_key = |field: &FieldDescriptorProto| {
        !matches!(
            field.r#type(),
            Type::Double | Type::Float | Type::Group | Type::Message | Type::Bytes | Type::Enum
        )
    };
    let has_key = key.is_some_and(|key| key.r#type.is_some() && is_key(key));
    matches!(numbers.as_slice(), [1, 2] | [2, 1]) && are_single && has_key
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_reflect::DynamicMessage;

    use super::*;
    use crate::call::definition;

    fn field(number: i32, of: Type) -> FieldDescriptorProto {
        FieldDescriptorProto {
            name: Some(["", "key", "value"][usize::try_from(number).unwrap()].to_owned()),
            number: Some(number),
            label: Some(Label::Optional.into()),
            r#type: Some(of.into()),
            ..FieldDescriptorProto::default()
        }
    }

    /// A file with a message whose field is a map, as far as the fields of the entry are those of one.
    fn file(fields: Vec<FieldDescriptorProto>) -> FileDescriptorProto {
        let entry = DescriptorProto {
            name: Some("AEntry".to_owned()),
            options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
            field: fields,
            ..DescriptorProto::default()
        };
        let map = FieldDescriptorProto {
            name: Some("a".to_owned()),
            label: Some(Label::Repeated.into()),
            type_name: Some(".M.AEntry".to_owned()),
            ..field(1, Type::Message)
        };
        let message = DescriptorProto {
            name: Some("M".to_owned()),
            nested_type: vec![entry],
            field: vec![map],
            ..DescriptorProto::default()
        };
        FileDescriptorProto {
            name: Some("file".to_owned()),
            syntax: Some("proto3".to_owned()),
            message_type: vec![message],
            ..FileDescriptorProto::default()
        }
    }

    /// Uses a type in all ways in which the command does.
    fn use_it(pool: &DescriptorPool) -> String {
        let message = pool.get_message_by_name("M").unwrap();
        let mut json = serde_json::Deserializer::from_str(r#"{"a": {"k": "v"}}"#);
        let read = DynamicMessage::deserialize(message.clone(), &mut json).unwrap();
        let again = DynamicMessage::decode(message, &*read.encode_to_vec()).unwrap();
        serde_json::to_string(&again).unwrap() + &definition::of(pool, "M").unwrap()
    }

    #[test]
    fn a_map_has_a_key_and_a_value() {
        let good = file(vec![field(1, Type::String), field(2, Type::String)]);
        let used = use_it(&of(vec![good]).unwrap());
        assert_eq!(used, "{\"a\":{\"k\":\"v\"}}message M {\n  map<string, string> a = 1;\n}\n");
        let repeated =
            FieldDescriptorProto { label: Some(Label::Repeated.into()), ..field(1, Type::String) };
        let untyped = FieldDescriptorProto {
            r#type: None,
            type_name: Some(".M".to_owned()),
            ..field(1, Type::String)
        };
        let value = || field(2, Type::String);
        for fields in [
            vec![],
            vec![field(1, Type::String)],
            vec![value()],
            vec![field(1, Type::String), value(), value()],
            vec![field(1, Type::Float), value()],
            vec![field(1, Type::Bytes), value()],
            vec![
                FieldDescriptorProto {
                    type_name: Some(".M".to_owned()),
                    ..field(1, Type::Message)
                },
                value(),
            ],
            vec![repeated, value()],
            vec![untyped, value()],
        ] {
            let error = of(vec![file(fields.clone())]).unwrap_err();
            let told = format!("{error:#}");
            assert_eq!(
                told, "in the file `file`: the entry `AEntry` of a map is malformed",
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_field_has_a_type_that_is_known() {
        let odd = FieldDescriptorProto { r#type: Some(99), ..field(2, Type::String) };
        let error = of(vec![file(vec![field(1, Type::String), odd])]).unwrap_err();
        assert!(format!("{error:#}").contains("has a field of an unknown type"), "{error:#}");
    }

    /// No types that a server may send make the command panic, whatever is done with them.
    #[test]
    fn no_types_make_a_reader_panic() {
        let known = DescriptorPool::global();
        let mut corpus: Vec<_> =
            known.file_descriptor_protos().map(FileDescriptorProto::encode_to_vec).collect();
        corpus.push(file(vec![field(1, Type::String), field(2, Type::String)]).encode_to_vec());
        let set = tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET;
        let set = prost_reflect::prost_types::FileDescriptorSet::decode(set).unwrap();
        corpus.extend(set.file.iter().map(FileDescriptorProto::encode_to_vec));
        chancery_testkit::fuzz::fuzz("chancery", "types", &corpus, |bytes| {
            let Ok(file) = FileDescriptorProto::decode(bytes) else { return };
            let Ok(pool) = of(vec![file]) else { return };
            for message in pool.all_messages() {
                definition::of(&pool, message.full_name());
                for bytes in [&[10, 2, 10, 0][..], &[18, 0], &[8, 1, 16, 1], &[13, 0, 0, 0, 0]] {
                    if let Ok(read) = DynamicMessage::decode(message.clone(), bytes) {
                        // An error is fine.
                        let _ = serde_json::to_string(&read);
                        read.encode_to_vec();
                    }
                }
                for json in [r#"{"a": {"k": "v"}}"#, "{}", r#""1s""#, "[]", "1"] {
                    let mut json = serde_json::Deserializer::from_str(json);
                    // An error is fine.
                    let _ = DynamicMessage::deserialize(message.clone(), &mut json);
                }
            }
            for service in pool.services() {
                definition::of(&pool, service.full_name());
            }
        });
    }
}
