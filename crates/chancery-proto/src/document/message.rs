//! A tree read as a message, by its descriptor: every fault is found, not only the first.
//!
//! Two dialects share this: the JSON mapping of proto3 (YAML and JSON) and protobuf text, which
//! repeats keys instead of nesting lists, writes maps as lists of entries, and has no special forms
//! for the well-known types.
//!
//! A reader returns `None` where it has noted a fault. What an `Any` holds is read in place, so its
//! faults are placed like all others.

use std::cell::OnceCell;
use std::collections::HashMap;

use prost_reflect::prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value as Field,
};

use super::collect::UNKNOWN_TYPE;
use super::scalar::{self, Mismatch};
use super::well_known::{Special, message_with};
use crate::any;
use crate::schema::Schema;
use crate::syntax::{Entry, Fault, FoundValue, Node, Path, Position, Short, Step, Value, closest};

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The JSON mapping of proto3, in JSON or YAML.
    Json,
    /// Protobuf text.
    Text,
}

/// Reads messages from the trees of one text.
pub(super) struct MessageReader<'s, 'n> {
    schema: &'s Schema,
    dialect: Dialect,
    text: &'s str,
    confidential: OnceCell<bool>,
    /// What is known about types that are not: computing it takes a walk over all types.
    unknown_types: HashMap<&'n str, String>,
    /// How deep the message that is read nests in others; an `Any` starts anew.
    pub(super) depth: usize,
    pub(super) path: Path<'n>,
    pub(super) faults: Vec<Fault>,
}

/// The fields of a message that were read so far, and where.
type GivenFields = Vec<(FieldDescriptor, Position)>;

impl<'s, 'n> MessageReader<'s, 'n> {
    pub(super) fn new(schema: &'s Schema, dialect: Dialect, text: &'s str) -> Self {
        Self {
            schema,
            dialect,
            text,
            confidential: OnceCell::new(),
            unknown_types: HashMap::new(),
            depth: 0,
            path: Path::default(),
            faults: Vec::new(),
        }
    }

    /// A mapping with `@type`: its type, and the message.
    pub(super) fn typed(&mut self, node: &'n Node<'_>) -> Option<(&'n str, DynamicMessage)> {
        let entries = self.mapping(node, "a mapping with `@type`")?;
        let Some(entry) = entries.iter().find(|entry| entry.key == AT_TYPE) else {
            let path = self.path.text();
            let fault = Fault::new("`@type` is missing").at(node.position()).under(path);
            let hint = "say what it is: `\"@type\": type.googleapis.com/envoy.config.…`";
            self.faults.push(fault.hint(hint));
            return None;
        };
        let (url, descriptor) = self.at_type(entry)?;
        let others = entries.iter().filter(|entry| entry.key != AT_TYPE);
        let outer = std::mem::take(&mut self.depth);
        let message = match Special::of(&descriptor) {
            None => self.fields(&descriptor, others),
            Some(_) => self.special_value(&descriptor, node, others),
        };
        self.depth = outer;
        Some((url, message?))
    }

    /// In an `Any`, a message that has a form of its own stands under `value`.
    fn special_value<'e>(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n Node<'_>,
        others: impl Iterator<Item = &'n Entry<'e>>,
    ) -> Option<DynamicMessage>
    where
        'e: 'n,
    {
        let mut message = None;
        let before = self.faults.len();
        for entry in others {
            self.path.push(Step::Field(&entry.key));
            if entry.key == "value" {
                message = self.message(descriptor, &entry.node);
            } else {
                let name = descriptor.name();
                let message = format!("in an `Any`, a `{name}` stands as a whole under `value`");
                self.fault(entry.key_position, message, None);
            }
            self.path.pop();
        }
        if message.is_none() && self.faults.len() == before {
            let expected = format!("`value` with the content of `{}`", descriptor.name());
            self.fault(node.position(), format!("expected {expected}"), None);
        }
        message
    }

    /// The type that a key names, `@type` or `[type.googleapis.com/…]`.
    fn at_type(&mut self, entry: &'n Entry<'_>) -> Option<(&'n str, MessageDescriptor)> {
        self.path.push(Step::Field(&entry.key));
        let found = match entry.node.text() {
            Some(url) => self.resolve(url, entry.node.position()).map(|found| (url, found)),
            None => self.mismatch(&entry.node, Mismatch::Expected("a type URL".to_owned())),
        };
        self.path.pop();
        found
    }

    /// The descriptor of a type URL.
    fn resolve(&mut self, url: &'n str, position: Position) -> Option<MessageDescriptor> {
        let found = self.schema.message(url);
        if found.is_some() && url.contains('/') {
            return found;
        }
        let (message, hint) = if found.is_some() {
            let message = format!("`{}` is no type URL", Short(url));
            (message, format!("write `type.googleapis.com/{url}`"))
        } else {
            let schema = self.schema;
            let hint = self.unknown_types.entry(url).or_insert_with(|| type_hint(schema, url));
            (format!("unknown type `{}`", Short(url)), hint.clone())
        };
        self.fault(position, message, Some(hint));
        None
    }

    /// A message of a known type, if decoders will follow it that deep.
    pub(super) fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n Node<'_>,
    ) -> Option<DynamicMessage> {
        if self.depth >= MAX_MESSAGE_DEPTH {
            let message = format!("nested in {MAX_MESSAGE_DEPTH} messages; clients go no deeper");
            self.fault(node.position(), message, None);
            return None;
        }
        self.depth += 1;
        let message = self.message_within(descriptor, node);
        self.depth -= 1;
        message
    }

    fn message_within(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n Node<'_>,
    ) -> Option<DynamicMessage> {
        if self.dialect == Dialect::Json
            && let Some(special) = Special::of(descriptor)
        {
            return self.special(special, descriptor, node);
        }
        let expected = format!("the fields of `{}`", descriptor.name());
        let entries = self.mapping(node, &expected)?;
        self.fields(descriptor, entries.iter())
    }

    /// The fields of a message.
    pub(super) fn fields<'e>(
        &mut self,
        descriptor: &MessageDescriptor,
        entries: impl Iterator<Item = &'n Entry<'e>>,
    ) -> Option<DynamicMessage>
    where
        'e: 'n,
    {
        let before = self.faults.len();
        let mut message = DynamicMessage::new(descriptor.clone());
        let mut given = GivenFields::new();
        let expands = self.dialect == Dialect::Text && any::is_any(descriptor);
        for entry in entries {
            if expands && entry.key.starts_with('[') {
                self.expanded_any(&mut message, entry);
                continue;
            }
            self.path.push(Step::Field(&entry.key));
            self.entry(&mut message, &mut given, entry);
            self.path.pop();
        }
        (self.faults.len() == before).then_some(message)
    }

    fn entry(
        &mut self,
        message: &mut DynamicMessage,
        given: &mut GivenFields,
        entry: &'n Entry<'_>,
    ) {
        let descriptor = message.descriptor();
        let field = descriptor
            .get_field_by_name(&entry.key)
            .or_else(|| descriptor.get_field_by_json_name(&entry.key));
        let Some(field) = field else { return self.unknown_field(&descriptor, entry) };
        if entry.node.is_null() && !accepts_null(&field) {
            return;
        }
        if !self.may_be_given(given, &field, entry) {
            return;
        }
        if given.iter().all(|(other, _)| other.number() != field.number()) {
            given.push((field.clone(), entry.key_position));
        }
        let Some(value) = self.field(&field, &entry.node) else { return };
        match (message.get_field_mut(&field), value) {
            (Field::List(all), Field::List(more)) => all.extend(more),
            (Field::Map(all), Field::Map(more)) => all.extend(more),
            (slot, value) => *slot = value,
        }
    }

    /// A field is given once, and only one of a oneof is.
    fn may_be_given(
        &mut self,
        given: &GivenFields,
        field: &FieldDescriptor,
        entry: &Entry<'_>,
    ) -> bool {
        let repeats = self.dialect == Dialect::Text && (field.is_list() || field.is_map());
        let oneof = field.containing_oneof();
        for (other, first) in given {
            let message = if other.number() == field.number() {
                if repeats {
                    continue;
                }
                let name = field.name();
                format!("the field `{name}` is given twice; it was first given at {first}")
            } else if oneof.is_some() && other.containing_oneof() == oneof {
                let (name, other) = (field.name(), other.name());
                format!("only one of `{name}` and `{other}` may be set; the other is at {first}")
            } else {
                continue;
            };
            self.fault(entry.key_position, message, None);
            return false;
        }
        true
    }

    /// `[type.googleapis.com/…] { … }`
    fn expanded_any(&mut self, any: &mut DynamicMessage, entry: &'n Entry<'_>) {
        let url = entry.key.trim_matches(['[', ']']);
        let Some(descriptor) = self.resolve(url, entry.key_position) else { return };
        if any.has_field_by_number(1) || any.has_field_by_number(2) {
            let message = "an `Any` holds one message".to_owned();
            return self.fault(entry.key_position, message, None);
        }
        let outer = std::mem::take(&mut self.depth);
        let payload = self.message(&descriptor, &entry.node);
        self.depth = outer;
        if let Some(payload) = payload {
            *any = packed(&any.descriptor(), url, &payload);
        }
    }

    /// An `Any` in the JSON mapping.
    pub(super) fn any(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n Node<'_>,
    ) -> Option<DynamicMessage> {
        if node.entries().is_some_and(<[_]>::is_empty) {
            return Some(DynamicMessage::new(descriptor.clone()));
        }
        let (url, payload) = self.typed(node)?;
        Some(packed(descriptor, url, &payload))
    }

    fn field(&mut self, field: &FieldDescriptor, node: &'n Node<'_>) -> Option<Field> {
        let kind = field.kind();
        if let (true, Some(entry)) = (field.is_map(), kind.as_message()) {
            return match self.dialect {
                Dialect::Json => self.map(entry, node),
                Dialect::Text => self.map_entries(entry, node),
            };
        }
        if field.is_list() { self.list(&kind, node) } else { self.one(&kind, node) }
    }

    fn list(&mut self, kind: &Kind, node: &'n Node<'_>) -> Option<Field> {
        let Value::Sequence(nodes) = node.value() else {
            if self.dialect == Dialect::Text {
                return self.one(kind, node).map(|value| Field::List(vec![value]));
            }
            return self.mismatch(node, Mismatch::Expected("a list".to_owned()));
        };
        let mut values = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            self.path.push(Step::Index(index));
            values.extend(self.one(kind, node));
            self.path.pop();
        }
        (values.len() == nodes.len()).then_some(Field::List(values))
    }

    fn map(&mut self, entry: &MessageDescriptor, node: &'n Node<'_>) -> Option<Field> {
        let entries = self.mapping(node, "a mapping")?;
        let key_kind = entry.map_entry_key_field().kind();
        let value_kind = entry.map_entry_value_field().kind();
        let mut map = HashMap::with_capacity(entries.len());
        self.depth += 1;
        for entry in entries {
            self.path.push(Step::Key(&entry.key));
            let value = self.one(&value_kind, &entry.node);
            if let (Some(key), Some(value)) = (self.map_key(&key_kind, entry), value)
                && map.insert(key, value).is_some()
            {
                let message = "the map has this key already, in another spelling".to_owned();
                self.fault(entry.key_position, message, None);
            }
            self.path.pop();
        }
        self.depth -= 1;
        (map.len() == entries.len()).then_some(Field::Map(map))
    }

    fn map_key(&mut self, kind: &Kind, entry: &Entry<'_>) -> Option<MapKey> {
        match scalar::map_key(kind, &entry.key) {
            Ok(key) => Some(key),
            Err(mismatch) => {
                let key = Node::new(Value::Text(entry.key.clone()), entry.key_position);
                self.mismatch(&key, mismatch)
            }
        }
    }

    /// The entries of a map in protobuf text: messages of a key and a value.
    fn map_entries(&mut self, entry: &MessageDescriptor, node: &'n Node<'_>) -> Option<Field> {
        let (key_field, value_field) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let Field::List(entries) = self.list(&Kind::Message(entry.clone()), node)? else {
            return None;
        };
        let pair = |entry: &Field| -> Option<(MapKey, Field)> {
            let entry = entry.as_message()?;
            let key = entry.get_field(&key_field).into_owned().into_map_key()?;
            Some((key, entry.get_field(&value_field).into_owned()))
        };
        entries.iter().map(pair).collect::<Option<_>>().map(Field::Map)
    }

    /// One value: no list, no map.
    pub(super) fn one(&mut self, kind: &Kind, node: &'n Node<'_>) -> Option<Field> {
        match kind {
            Kind::Message(descriptor) => self.message(descriptor, node).map(Field::Message),
            kind => match scalar::scalar(kind, node, self.dialect) {
                Ok(value) => Some(value),
                Err(mismatch) => self.mismatch(node, mismatch),
            },
        }
    }

    pub(super) fn mapping<'e>(
        &mut self,
        node: &'n Node<'e>,
        expected: &str,
    ) -> Option<&'n [Entry<'e>]> {
        let entries = node.entries();
        entries.or_else(|| self.mismatch(node, Mismatch::Expected(expected.to_owned())))
    }

    fn unknown_field(&mut self, descriptor: &MessageDescriptor, entry: &Entry<'_>) {
        let fields: Vec<_> = descriptor.fields().collect();
        let closest = closest(&entry.key, fields.iter().map(|field| field.name()));
        let hint = closest.map(|name| format!("did you mean `{name}`?"));
        let key = Short(&entry.key);
        let message = format!("unknown field `{key}`: `{}` has none such", descriptor.name());
        self.fault(entry.key_position, message, hint);
    }

    /// Notes that a value does not fit, and what it is.
    pub(super) fn mismatch<T>(&mut self, node: &Node<'_>, mismatch: Mismatch) -> Option<T> {
        let confidential = self.confidential();
        let found = FoundValue { node, confidential };
        let (message, hint) = match mismatch {
            Mismatch::Expected(expected) => {
                let hint = quoting_hint(&expected, node, confidential);
                (format!("expected {expected}, found {found}"), hint)
            }
            Mismatch::Invalid(wrong, hint) if confidential => (wrong, hint),
            Mismatch::Invalid(wrong, hint) => (format!("{wrong}, found {found}"), hint),
        };
        self.fault(node.position(), message, hint);
        None
    }

    /// Notes a fault of the field the path leads to.
    pub(super) fn fault(&mut self, position: Position, message: String, hint: Option<String>) {
        let confidential = self.confidential();
        let path = self.path.text();
        self.faults.push(Fault { position: Some(position), path, message, hint, confidential });
    }

    /// Shows nothing of the text from now on.
    pub(super) fn mark_confidential(&mut self) {
        self.confidential = OnceCell::from(true);
    }

    fn confidential(&self) -> bool {
        *self.confidential.get_or_init(|| is_confidential(self.text))
    }
}

/// Whether a text may hold secrets, so that nothing of it is to be shown (S-138).
pub(super) fn is_confidential(text: &str) -> bool {
    [".Secret", "private_key", "privateKey", "password"].iter().any(|mark| text.contains(mark))
}

/// An `Any` of a message.
fn packed(descriptor: &MessageDescriptor, url: &str, payload: &DynamicMessage) -> DynamicMessage {
    let value = Field::Bytes(payload.encode_to_vec().into());
    message_with(descriptor, [(1, Field::String(url.to_owned())), (2, value)])
}

/// Elsewhere `null` means "not set".
fn accepts_null(field: &FieldDescriptor) -> bool {
    match field.kind() {
        _ if field.is_list() || field.is_map() => false,
        Kind::Message(message) => message.full_name() == "google.protobuf.Value",
        Kind::Enum(descriptor) => descriptor.full_name() == "google.protobuf.NullValue",
        _ => false,
    }
}

/// A text that YAML takes for something else wants quotes.
fn quoting_hint(expected: &str, node: &Node<'_>, confidential: bool) -> Option<String> {
    let written = match node.value() {
        Value::Number(text) => text,
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        _ => return None,
    };
    (expected == "a text" && !confidential).then(|| format!("put it in quotes: `\"{written}\"`"))
}

fn type_hint(schema: &Schema, url: &str) -> String {
    let name = url.rsplit_once('/').map_or(url, |(_, name)| name);
    let messages: Vec<_> = schema.pool().all_messages().collect();
    match closest(name, messages.iter().map(|message| message.full_name())) {
        Some(closest) => {
            format!("did you mean `type.googleapis.com/{closest}`? Or: {UNKNOWN_TYPE}")
        }
        None => UNKNOWN_TYPE.to_owned(),
    }
}

/// What decoders of protobuf agree on: messages in more messages than this are refused.
const MAX_MESSAGE_DEPTH: usize = 100;

/// The key that says what a mapping is.
pub(super) const AT_TYPE: &str = "@type";
