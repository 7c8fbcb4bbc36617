//! Resources for people to read: YAML, JSON or protobuf text.
//!
//! Every `Any` is opened as far as descriptors are known; one that is not says its type and has its
//! bytes as base64. Fields stand in the order of their numbers, which puts names first, and are
//! spelt as in files and in Envoy's documentation (`connect_timeout`); the entries of maps stand in
//! the order of their keys. Secrets are left out unless they are asked for (S-138).
//!
//! Nothing here fails: bytes that are not of their type are shown as what they are. Not here: what
//! machines read ([`crate::json`], [`crate::wire`]). Fields that no descriptor knows are not shown.

use bytes::Bytes;
use chancery_core::TypeUrl;
use prost_reflect::{DynamicMessage, ExtensionDescriptor, FieldDescriptor};

use crate::any;
use crate::schema::Schema;

mod redact;
mod text;
mod tree;
mod yaml;

use tree::Tree;

/// How a resource is written.
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

/// Shows resources.
#[derive(Clone, Debug)]
pub struct Viewer {
    schema: Schema,
    /// Marks the fields that are secret.
    sensitive: Option<ExtensionDescriptor>,
    secrets: bool,
}

/// What a viewer sees in an `Any`.
enum AnyContent {
    /// The message.
    Message(DynamicMessage),
    /// Bytes of a type that nobody knows.
    Opaque(Bytes),
    /// Bytes that should be of a known type, and may hold its secrets.
    Withheld,
}

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

impl Viewer {
    /// Shows resources of these types, but no secrets.
    pub fn new(schema: &Schema) -> Self {
        let sensitive = schema.pool().get_extension_by_name("udpa.annotations.sensitive");
        Self { schema: schema.clone(), sensitive, secrets: false }
    }

    /// Shows the secrets too.
    #[must_use]
    pub fn with_secrets(mut self) -> Self {
        self.secrets = true;
        self
    }

    /// A resource, with its type; it ends with a line feed.
    pub fn show(&self, notation: Notation, type_url: &TypeUrl, body: &Bytes) -> String {
        let type_url = type_url.as_str();
        match notation {
            Notation::Text => text::write(self, type_url, body),
            Notation::Json => format!("{:#}\n", Tree::of(self, type_url, body)),
            Notation::JsonLine => format!("{}\n", Tree::of(self, type_url, body)),
            Notation::Yaml => yaml::write(&Tree::of(self, type_url, body)),
        }
    }

    /// What is in an `Any` that stands `depth` messages deep.
    fn content_of(&self, type_url: &str, value: &Bytes, depth: usize) -> AnyContent {
        let Some(descriptor) = self.schema.message(type_url) else {
            return AnyContent::Opaque(value.clone());
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

    /// Whether a field is not to be shown. Its descriptor says so.
    fn withholds(&self, field: &FieldDescriptor) -> bool {
        let Some(sensitive) = self.sensitive.as_ref().filter(|_| !self.secrets) else {
            return false;
        };
        field.options().get_extension(sensitive).as_bool().unwrap_or(false)
    }
}

/// The fields that are set, in the order of their numbers.
fn fields(
    message: &DynamicMessage,
) -> impl Iterator<Item = (FieldDescriptor, &prost_reflect::Value)> {
    let mut fields: Vec<_> = message.fields().collect();
    fields.sort_by_key(|(field, _)| field.number());
    fields.into_iter()
}

#[cfg(test)]
mod tests;
