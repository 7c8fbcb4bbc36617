//! Messages that state their own type: resources, and the content of an `Any`.
//!
//! The type is in the key `@type`, or, in protobuf text, in the brackets of an expanded `Any`.

use chancery_core::TypeUrl;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage, Value as Field};

use super::collect::UNKNOWN_TYPE;
use super::dialect::AT_TYPE;
use super::reader::{MessageReader, UNKNOWN_TYPE as UNKNOWN_TYPE_CODE};
use super::scalar::Mismatch;
use super::special::{Special, message_with};
use crate::schema::Schema;
use crate::syntax::{Fault, MapEntry, PathStep, Position, Short, TreeNode, closest};

impl<'n> MessageReader<'_, 'n> {
    /// Reads a mapping with `@type`: the type URL and the message.
    pub(super) fn typed(&mut self, node: &'n TreeNode<'_>) -> Option<(&'n str, DynamicMessage)> {
        let entries = self.mapping(node, "a mapping with `@type`")?;
        let Some(entry) = entries.iter().find(|entry| entry.key == AT_TYPE) else {
            let path = &self.path;
            self.faults.push(|| {
                let fault = Fault::new("`@type` is missing").at(node.position());
                let hint = "say what it is: `\"@type\": type.googleapis.com/envoy.config.…`";
                fault.under(path.text()).hint(hint).of_code(UNKNOWN_TYPE_CODE)
            });
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

    /// Reads a message with a special form, which stands under `value` in an `Any`.
    fn special_value<'e>(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
        others: impl Iterator<Item = &'n MapEntry<'e>>,
    ) -> Option<DynamicMessage>
    where
        'e: 'n,
    {
        let mut message = None;
        let before = self.faults.count();
        for entry in others {
            self.path.push(PathStep::Field(&entry.key));
            if entry.key == "value" {
                message = self.message(descriptor, &entry.node);
            } else {
                self.fault(entry.key_position, || {
                    let name = descriptor.name();
                    (format!("in an `Any`, a `{name}` stands as a whole under `value`"), None)
                });
            }
            self.path.pop();
        }
        if message.is_none() && self.faults.count() == before {
            self.fault(node.position(), || {
                let name = descriptor.name();
                (format!("expected `value` with the content of `{name}`"), None)
            });
        }
        message
    }

    /// Reads the type URL in `@type` and finds its descriptor.
    fn at_type(&mut self, entry: &'n MapEntry<'_>) -> Option<(&'n str, MessageDescriptor)> {
        self.path.push(PathStep::Field(&entry.key));
        let found = match entry.node.text() {
            Some(url) => self.resolve(url, entry.node.position()).map(|found| (url, found)),
            None => self.mismatch(&entry.node, Mismatch::Expected("a type URL".to_owned())),
        };
        self.path.pop();
        found
    }

    /// Finds the descriptor of a type URL.
    fn resolve(&mut self, url: &'n str, position: Position) -> Option<MessageDescriptor> {
        let found = self.schema.message(url);
        if found.is_some() && url.contains('/') {
            return found;
        }
        let schema = self.schema;
        self.fault_of(UNKNOWN_TYPE_CODE, position, || {
            if found.is_some() {
                let hint = format!("write `type.googleapis.com/{url}`");
                return (format!("`{}` is no type URL", Short(url)), Some(hint));
            }
            (format!("unknown type `{}`", Short(url)), Some(type_hint(schema, url)))
        });
        None
    }

    /// Reads `[type.googleapis.com/…] { … }` of protobuf text.
    pub(super) fn expanded_any(&mut self, any: &mut DynamicMessage, entry: &'n MapEntry<'_>) {
        let url = entry.key.trim_matches(['[', ']']);
        let Some(descriptor) = self.resolve(url, entry.key_position) else { return };
        if any.has_field_by_number(1) || any.has_field_by_number(2) {
            let message = || ("an `Any` holds one message".to_owned(), None);
            return self.fault(entry.key_position, message);
        }
        let outer = std::mem::take(&mut self.depth);
        let payload = self.message(&descriptor, &entry.node);
        self.depth = outer;
        if let Some(payload) = payload {
            *any = packed(&any.descriptor(), url, &payload);
        }
    }

    /// Reads an `Any` in the JSON mapping.
    pub(super) fn any(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        if node.entries().is_some_and(<[_]>::is_empty) {
            return Some(DynamicMessage::new(descriptor.clone()));
        }
        let (url, payload) = self.typed(node)?;
        Some(packed(descriptor, url, &payload))
    }
}

/// Creates an `Any` around a message.
fn packed(descriptor: &MessageDescriptor, url: &str, payload: &DynamicMessage) -> DynamicMessage {
    let value = Field::Bytes(payload.encode_to_vec().into());
    message_with(descriptor, [(1, Field::String(url.to_owned())), (2, value)])
}

fn type_hint(schema: &Schema, url: &str) -> String {
    let name = TypeUrl::message_name_in(url);
    let messages: Vec<_> = schema.pool().all_messages().collect();
    match closest(name, messages.iter().map(|message| message.full_name())) {
        Some(closest) => {
            format!("did you mean `type.googleapis.com/{closest}`? Or: {UNKNOWN_TYPE}")
        }
        None => UNKNOWN_TYPE.to_owned(),
    }
}
