//! Opening an `Any`, with a bound on the depth.
//!
//! A decoder bounds the depth of one message, but an `Any` starts a new one, and a body of a few
//! kilobytes can nest thousands of them. Code that opens one `Any` after another counts the levels
//! and stops at [`MAX_DEPTH`].

use chancery_core::TypeUrl;
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage};

/// The number of levels of `Any` that are opened. The depth of one decoder (100) comes on top.
pub(crate) const MAX_DEPTH: usize = 64;

/// Returns true for the type `google.protobuf.Any`.
pub(crate) fn is_any(descriptor: &MessageDescriptor) -> bool {
    descriptor.full_name() == "google.protobuf.Any"
}

/// The type URL of an `Any`.
pub(crate) fn type_url(any: &DynamicMessage) -> Option<String> {
    Some(any.get_field_by_number(TYPE_URL)?.as_str()?.to_owned())
}

/// Decodes the message in an `Any`. The result is `None` if the type is unknown or the bytes are
/// not of that type.
pub(crate) fn open(any: &DynamicMessage) -> Option<DynamicMessage> {
    let url = any.get_field_by_number(TYPE_URL)?;
    let name = TypeUrl::message_name_in(url.as_str()?);
    let descriptor = any.descriptor().parent_pool().get_message_by_name(name)?;
    let value = any.get_field_by_number(VALUE)?;
    DynamicMessage::decode(descriptor, value.as_bytes()?.clone()).ok()
}

/// The field numbers of `Any`.
pub(crate) const TYPE_URL: u32 = 1;
pub(crate) const VALUE: u32 = 2;
