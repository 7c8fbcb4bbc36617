//! One mutation of a resource: a field of it, or of a message in it, is removed, emptied, set to another
//! value, or gets a message from elsewhere.
//!
//! The messages in each `Any` are changed like others. A seed gives the same mutant each time. Not here:
//! the values (`values`).

use chancery_testkit::sim::Rng;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, ReflectMessage, Value};

use super::values::Values;

/// A step on the way to a message in another.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(FieldDescriptor),
    Index(usize),
    Key(MapKey),
    /// The message in an `Any`.
    Content,
}

type Path = Vec<Step>;

/// Changes a resource, and says how.
pub(super) fn mutate(values: &Values, rng: &mut Rng, message: &mut DynamicMessage) -> String {
    let mut paths = Vec::new();
    collect(message, &mut Vec::new(), &mut paths);
    let path = rng.one_of(&paths).clone();
    let mut said = String::new();
    edit(message, &path, &mut |message| said = change(values, rng, message));
    format!("{}{said}", text(&path))
}

/// The paths of all messages, the outermost one first.
fn collect(message: &DynamicMessage, path: &mut Path, paths: &mut Vec<Path>) {
    let name = message.descriptor().full_name().to_owned();
    if name == ANY {
        // The `Any` itself, whose type can be another one, and what is in it.
        paths.push(path.clone());
        if let Some(content) = open(message) {
            below(path, Step::Content, |path| collect(&content, path, paths));
        }
        return;
    }
    // Those of `google.protobuf` are values.
    if name.starts_with("google.protobuf.") {
        return;
    }
    paths.push(path.clone());
    for (field, value) in message.fields() {
        below(path, Step::Field(field), |path| match value {
            Value::Message(message) => collect(message, path, paths),
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    if let Value::Message(item) = item {
                        below(path, Step::Index(at), |path| collect(item, path, paths));
                    }
                }
            }
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, item) in entries {
                    if let Value::Message(item) = item {
                        below(path, Step::Key(key.clone()), |path| collect(item, path, paths));
                    }
                }
            }
            _ => {}
        });
    }
}

fn below(path: &mut Path, step: Step, visit: impl FnOnce(&mut Path)) {
    path.push(step);
    visit(path);
    path.pop();
}

/// Edits the message at a path.
fn edit(message: &mut DynamicMessage, path: &[Step], change: &mut dyn FnMut(&mut DynamicMessage)) {
    match path {
        [] => change(message),
        [Step::Content, rest @ ..] => {
            let mut content = open(message).expect("the path was found in this message");
            edit(&mut content, rest, change);
            message.set_field_by_number(2, Value::Bytes(content.encode_to_vec().into()));
        }
        [Step::Field(field), rest @ ..] => match (message.get_field_mut(field), rest) {
            (Value::Message(inner), rest) => edit(inner, rest, change),
            (Value::List(items), [Step::Index(at), rest @ ..]) => {
                edit(items[*at].as_message_mut().expect("as above"), rest, change);
            }
            (Value::Map(entries), [Step::Key(key), rest @ ..]) => {
                let inner = entries.get_mut(key).and_then(Value::as_message_mut);
                edit(inner.expect("as above"), rest, change);
            }
            _ => unreachable!("the path was found in this message"),
        },
        _ => unreachable!("a path begins with a field or the content of an `Any`"),
    }
}

pub(super) const ANY: &str = "google.protobuf.Any";

/// The message in an `Any` of a known type.
pub(super) fn open(any: &DynamicMessage) -> Option<DynamicMessage> {
    let url = any.get_field_by_number(1)?;
    let name = url.as_str()?.rsplit('/').next()?;
    let of = any.descriptor().parent_pool().get_message_by_name(name)?;
    DynamicMessage::decode(of, any.get_field_by_number(2)?.as_bytes()?.clone()).ok()
}

fn text(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        text += &match step {
            Step::Field(field) => format!("{}.", field.name()),
            Step::Index(at) => format!("[{at}]."),
            Step::Key(key) => format!("[{key:?}]."),
            Step::Content => String::new(),
        };
    }
    text.replace(".[", "[")
}

/// Changes one field of a message.
fn change(values: &Values, rng: &mut Rng, message: &mut DynamicMessage) -> String {
    if message.descriptor().full_name() == ANY {
        *message = values.any(rng);
        let url = message.get_field_by_number(1).expect("a field").into_owned();
        return format!(" is {}", url.as_str().unwrap_or_default());
    }
    let set: Vec<_> = message.fields().map(|(field, _)| field).collect();
    let all: Vec<_> = message.descriptor().fields().collect();
    if all.is_empty() {
        return "nothing".to_owned();
    }
    let field = match set.is_empty() || rng.chance(40) {
        true => rng.one_of(&all).clone(),
        false => rng.one_of(&set).clone(),
    };
    let name = field.name().to_owned();
    if !message.has_field(&field) {
        message.set_field(&field, values.field(rng, &field, 2));
        return format!("{name} set");
    }
    if rng.chance(25) {
        message.clear_field(&field);
        return format!("{name} removed");
    }
    if let Some(of) = field.containing_oneof().filter(|_| rng.chance(40)) {
        let others: Vec<_> = of.fields().collect();
        let other = rng.one_of(&others).clone();
        message.set_field(&other, values.field(rng, &other, 2));
        return format!("{} set in place of {name}", other.name());
    }
    let how = match message.get_field_mut(&field) {
        Value::List(items) => change_list(values, rng, &field, items),
        Value::Map(entries) => {
            let value = values.field(rng, &field, 2);
            match value {
                Value::Map(more) if rng.chance(70) => entries.extend(more),
                _ => entries.clear(),
            }
            "other entries"
        }
        value => {
            *value = values.one(rng, &field.kind(), 2);
            "another value"
        }
    };
    format!("{name}: {how}")
}

fn change_list(
    values: &Values,
    rng: &mut Rng,
    field: &FieldDescriptor,
    items: &mut Vec<Value>,
) -> &'static str {
    let at = usize::try_from(rng.below(items.len() as u64)).unwrap_or(0);
    match rng.below(5) {
        0 => {
            items.insert(at, items[at].clone());
            "an item twice"
        }
        1 => {
            items.remove(at);
            "an item removed"
        }
        2 => {
            items.reverse();
            "reversed"
        }
        3 => {
            items[at] = values.one(rng, &field.kind(), 2);
            "another item"
        }
        _ => {
            items.push(values.one(rng, &field.kind(), 2));
            "one more item"
        }
    }
}
