//! Sensitive values in bodies: decided by field and not by the type of the resource, because a key
//! can stand in a secret, in a cluster, and in an extension of a listener.
//!
//! There are two circles.
//!
//! - **Withheld** is what a stranger must not have, so that the whole resource follows the rule of
//!   SDS ([S-137](https://www.envoyproxy.io/docs/envoy/latest/configuration/security/secret)): any
//!   `Secret`, wherever it stands; a value in a field that Envoy marks with
//!   `udpa.annotations.sensitive` (keys, passwords, tokens, session ticket keys); the credentials of
//!   gRPC services and of filters that Envoy does not mark; a private key in PEM, in whatever text or
//!   field; and an `Any` or `TypedStruct` that says it is of a known type and cannot be read. A
//!   `DataSource` counts if the value stands in it; the name of a file or of an environment variable
//!   is no secret.
//! - **Hidden** is what is left out of dumps, of the output for people, and of lines that quote a
//!   client
//!   ([S-138](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto)):
//!   everything that is withheld; every marked field, with files and user names; and values with a
//!   name that says so, in headers (`authorization`, `cookie`, `x-api-key`), in maps of texts and in
//!   a `Struct` (`password`, `client_secret`). Names are a guess, so nobody is refused for one.
//!
//! Everything is found through `Any`, lists, maps and the typed form of a `TypedStruct`, up to the
//! depth to which an `Any` is opened. A text that is no message is known by its words (`words`).
//! Not here: how a resource is shown (`show`), and who is a stranger (the server).

use bytes::Bytes;
use chancery_core::TypeUrl;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage, Value};

use crate::schema::Schema;
use crate::walk::walk;

mod escapes;
mod fields;
mod names;
mod node;
mod private_keys;
mod quotes;
mod typed_struct;
mod values;
mod words;

pub(crate) use fields::{HiddenFields, hides_entry, is_ruled};
pub use names::is_secret_text;
pub(crate) use names::{has_private_key, is_sensitive_json};
pub use node::node_without_secrets;
pub(crate) use private_keys::{has_unknown_key, is_private_map_key};
pub use quotes::{WINDOW, without_values};
pub(crate) use words::may_hold_secrets;

/// The path of the first value in a body that must be withheld from strangers. The path is empty
/// for a body that is a `Secret`, or cannot be read, or has the value in a field that no descriptor
/// has.
pub fn withheld(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Option<String> {
    match opened(schema, type_url, body) {
        Opened::Message(message) if has_private_key(body) => {
            withheld_path(&message).or_else(|| Some(String::new()))
        }
        Opened::Message(message) => first_path(&message, withheld_by_meaning),
        Opened::Broken => Some(String::new()),
        Opened::Unknown => has_private_key(body).then(String::new),
    }
}

/// The hidden values of a body, each once: texts and bytes as they stand in it. A body is one such
/// value as a whole if it is not of its known type, or has a private key that is in no field.
pub fn values(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Vec<Bytes> {
    match opened(schema, type_url, body) {
        Opened::Message(message) => {
            let mut found = values::of(&message);
            if has_private_key(body) && !found.iter().any(|value| has_private_key(value)) {
                found.push(body.clone());
            }
            found
        }
        Opened::Unknown if !has_private_key(body) => Vec::new(),
        Opened::Broken | Opened::Unknown => vec![body.clone()],
    }
}

/// The path of the first value in a message that must be withheld from strangers.
pub(crate) fn withheld_path(message: &DynamicMessage) -> Option<String> {
    first_path(message, |message| {
        withheld_by_meaning(message).or_else(|| private_keys::field_with_key(message))
    })
}

/// The field of this one message with a value that must be withheld because of what the field
/// means. It is empty for a message that is withheld as a whole. The messages in it are visited
/// separately, and private keys are found by a search of the body, which has all texts.
pub(crate) fn withheld_by_meaning(message: &DynamicMessage) -> Option<String> {
    if is_secret(&message.descriptor()) {
        return Some(String::new());
    }
    fields::withheld(message)
}

/// The path of the first field that `find` finds in a message or in one inside of it.
fn first_path(
    message: &DynamicMessage,
    find: impl Fn(&DynamicMessage) -> Option<String>,
) -> Option<String> {
    let mut found = None;
    walk(message, &mut |path, message| {
        if found.is_none()
            && let Some(field) = find(message)
        {
            let dot = if path.is_empty() || field.is_empty() { "" } else { "." };
            found = Some(format!("{path}{dot}{field}"));
        }
    });
    found
}

/// Returns true for the type of an SDS resource.
pub(crate) fn is_secret(descriptor: &MessageDescriptor) -> bool {
    SECRETS.contains(&descriptor.full_name())
}

const SECRETS: [&str; 2] =
    ["envoy.extensions.transport_sockets.tls.v3.Secret", "envoy.api.v2.auth.Secret"];

enum Opened {
    Message(DynamicMessage),
    /// The bytes are not of their type.
    Broken,
    /// The type has no descriptor.
    Unknown,
}

fn opened(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Opened {
    let Some(descriptor) = schema.message(type_url.as_str()) else { return Opened::Unknown };
    DynamicMessage::decode(descriptor, body.clone()).map_or(Opened::Broken, Opened::Message)
}

/// The text or bytes of a value.
fn content(value: &Value) -> Option<&[u8]> {
    value.as_str().map(str::as_bytes).or_else(|| value.as_bytes().map(|bytes| &bytes[..]))
}

#[cfg(test)]
mod tests;
