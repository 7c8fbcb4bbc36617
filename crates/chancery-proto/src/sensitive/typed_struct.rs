//! A `TypedStruct` in the form of the type that it states: the fields of that type decide what is
//! secret in it.
//!
//! Clients ignore a key that their version of the type does not know, and so it is here: the others
//! are read. A part that states a type which nobody knows is left out, like an `Any` of such a type.
//! A content that is not of its known type may hold any secret of that type. Not here: the names of
//! entries, which count in every `Struct` (`names`).

use chancery_core::TypeUrl;
use prost_reflect::{
    DeserializeOptions, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage,
};
use serde_json::Value as Json;

use super::{fields, is_secret, values, withheld_path};
use crate::json::{tidy_numbers, to_value};
use crate::walk::text_in;

/// The content of a `TypedStruct` whose type is known.
pub(super) enum TypedForm {
    /// The message.
    Message(DynamicMessage),
    /// Texts that are not of the type.
    Unreadable,
}

impl TypedForm {
    /// Returns true for a content that is withheld in the form of its type.
    pub(super) fn is_withheld(&self) -> bool {
        self.holds(|typed| is_secret(&typed.descriptor()) || withheld_path(typed).is_some())
    }

    /// Returns true for a content that has hidden values in the form of its type.
    pub(super) fn hides(&self) -> bool {
        self.holds(|typed| !values::of(typed).is_empty())
    }

    /// Returns true if the message holds such values. Texts that cannot be read may hold any.
    fn holds(&self, has_values: impl Fn(&DynamicMessage) -> bool) -> bool {
        match self {
            Self::Message(typed) => has_values(typed),
            Self::Unreadable => true,
        }
    }
}

/// Returns true for the two messages of this form.
pub(super) fn is_typed_struct(descriptor: &MessageDescriptor) -> bool {
    matches!(descriptor.full_name(), "xds.type.v3.TypedStruct" | "udpa.type.v1.TypedStruct")
}

/// The form of a field of a message. The result is `None` for all but the content of a
/// `TypedStruct` of a known type, and for one without texts that cannot be read.
pub(super) fn typed_form(
    message: &DynamicMessage,
    descriptor: &MessageDescriptor,
    field: &FieldDescriptor,
) -> Option<TypedForm> {
    if !is_typed_struct(descriptor) || !matches!(field.kind(), Kind::Message(_)) {
        return None;
    }
    let name = TypeUrl::message_name_in(text_in(message, "type_url"));
    let known = descriptor.parent_pool().get_message_by_name(name)?;
    let content = message.get_field(field);
    match typed(known, content.as_message()?) {
        Some(typed) => Some(TypedForm::Message(typed)),
        None => fields::has_value(&content, 0).then_some(TypedForm::Unreadable),
    }
}

fn typed(known: MessageDescriptor, content: &DynamicMessage) -> Option<DynamicMessage> {
    let is_known = |name: &str| known.parent_pool().get_message_by_name(name).is_some();
    // In a `Struct` each number is a double, and an enum is none.
    let mut json = tidy_numbers(to_value(content).ok()?);
    remove_unknown(&mut json, &is_known);
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    DynamicMessage::deserialize_with_options(known.clone(), json, &options).ok()
}

/// Removes the parts that state an unknown type.
fn remove_unknown(json: &mut Json, is_known: &dyn Fn(&str) -> bool) {
    let stays = |part: &mut Json| {
        let url = part.get("@type").and_then(Json::as_str);
        let unknown = url.is_some_and(|url| !is_known(TypeUrl::message_name_in(url)));
        if !unknown {
            remove_unknown(part, is_known);
        }
        !unknown
    };
    match json {
        Json::Array(parts) => parts.retain_mut(stays),
        Json::Object(parts) => parts.retain(|_, part| stays(part)),
        _ => {}
    }
}
