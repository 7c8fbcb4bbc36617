//! Resources for people to read: YAML, JSON or protobuf text.
//!
//! Every `Any` of a known type is opened; one of an unknown type shows its type and its bytes as
//! base64. Fields stand in the order of their numbers, which puts names first. They are spelt as in
//! files and in Envoy's documentation (`connect_timeout`). The entries of maps stand in the order
//! of their keys. Secrets are left out unless they are asked for
//! ([S-138](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto)).
//! Characters that a terminal would take for orders are escaped in each notation.
//!
//! Nothing here fails: bytes that are not of their type are shown as bytes, or withheld. Unknown
//! fields are not shown. Messages for programs are in [`crate::json`] and [`crate::wire`].

use std::borrow::Cow;

use bytes::Bytes;
use chancery_core::TypeUrl;
use chancery_core::printable::{PrintForm, printable};
use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, Value};

use crate::any;
use crate::schema::Schema;
use crate::sensitive::{self, HiddenFields};

mod redact;
mod text;
mod tree;
mod yaml;

use tree::Tree;

/// The notation in which a resource is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notation {
    /// YAML 1.2.
    Yaml,
    /// JSON, over several lines.
    Json,
    /// JSON, in one line.
    JsonLine,
    /// Protobuf text.
    Text,
}

/// The writer of resources.
#[derive(Clone, Debug)]
pub struct Viewer {
    schema: Schema,
    secrets: bool,
}

/// The content of an `Any`, as far as a viewer shows it.
enum AnyContent {
    /// The message.
    Message(DynamicMessage),
    /// The bytes of an unknown type.
    Opaque(Bytes),
    /// Bytes that are not of their known type, and may hold its secrets, or that hold a private key.
    Withheld,
}

/// The text in place of a secret.
const REDACTED: &str = "[redacted]";

impl Viewer {
    /// Creates a viewer that knows these types and shows no secrets.
    pub fn new(schema: &Schema) -> Self {
        Self { schema: schema.clone(), secrets: false }
    }

    /// Lets the viewer show secrets.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.secrets = true;
        self
    }

    /// Writes a resource with its type. The text ends with a line feed.
    pub fn show(&self, notation: Notation, type_url: &TypeUrl, body: &Bytes) -> String {
        let type_url = type_url.as_str();
        match notation {
            Notation::Text => text::write(self, type_url, body),
            Notation::Json => json(format!("{:#}\n", Tree::of(self, type_url, body))),
            Notation::JsonLine => json(format!("{}\n", Tree::of(self, type_url, body))),
            Notation::Yaml => yaml::write(&Tree::of(self, type_url, body)),
        }
    }

    /// The content of an `Any` that is nested `depth` messages deep.
    fn content_of(&self, type_url: &str, value: &Bytes, depth: usize) -> AnyContent {
        let Some(descriptor) = self.schema.message(type_url) else {
            let withheld = !self.secrets && sensitive::has_private_key(value);
            return if withheld { AnyContent::Withheld } else { AnyContent::Opaque(value.clone()) };
        };
        let message = (depth < any::MAX_DEPTH)
            .then(|| DynamicMessage::decode(descriptor, value.clone()).ok())
            .flatten();
        match message {
            Some(message) => AnyContent::Message(message),
            None if self.secrets => AnyContent::Opaque(value.clone()),
            None => AnyContent::Withheld,
        }
    }

    /// Finds the fields of a message that hold hidden values, unless secrets are shown.
    fn withholds<'m>(
        &self,
        message: &'m DynamicMessage,
    ) -> impl Fn(&FieldDescriptor, &Value) -> bool + use<'m> {
        let hidden = (!self.secrets).then(|| HiddenFields::of(message));
        move |field, value| hidden.as_ref().is_some_and(|hidden| hidden.contain(field, value))
    }

    /// The key of an entry of a map.
    fn key(&self, key: &MapKey) -> String {
        if !self.secrets && sensitive::is_private_map_key(key) {
            return REDACTED.to_owned();
        }
        match key {
            MapKey::Bool(is) => is.to_string(),
            MapKey::I32(is) => is.to_string(),
            MapKey::I64(is) => is.to_string(),
            MapKey::U32(is) => is.to_string(),
            MapKey::U64(is) => is.to_string(),
            MapKey::String(is) => is.clone(),
        }
    }

    /// Returns true for an entry of a map that is a hidden value, unless secrets are shown.
    fn withholds_entry(&self, key: &MapKey, value: &Value) -> bool {
        !self.secrets && sensitive::hides_entry(key, value)
    }
}

/// JSON without characters that a terminal would not show as they are.
fn json(text: String) -> String {
    match printable(&text, PrintForm::Json) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    }
}

/// The fields that are set, in the order of their numbers.
fn fields(message: &DynamicMessage) -> impl Iterator<Item = (FieldDescriptor, &Value)> {
    let mut fields: Vec<_> = message.fields().collect();
    fields.sort_by_key(|(field, _)| field.number());
    fields.into_iter()
}

#[cfg(test)]
mod tests;
