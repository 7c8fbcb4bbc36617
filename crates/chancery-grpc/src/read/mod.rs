//! Resources of the control plane, read into the values that decide calls. What gRPC rejects is
//! rejected here, with the reason; the client tells the server, and the last good one stays in use.

mod actions;
mod addresses;
#[cfg(test)]
mod agreement;
pub(crate) mod clusters;
pub(crate) mod downstream;
pub(crate) mod endpoints;
mod fault;
mod filters;
mod json_policies;
pub(crate) mod kept_sessions;
pub(crate) mod listed_names;
pub(crate) mod listeners;
mod matchers;
mod outliers;
mod policies;
pub(crate) mod routes;
pub(crate) mod server_listeners;
#[cfg(test)]
mod support;
pub(crate) mod surroundings;
pub(crate) mod transport;
mod typed_struct;
mod values;

use std::borrow::Cow;

use chancery_core::TypeUrl;
use chancery_core::printable::{PrintForm, cut, printable};
use envoy_types::pb::google::protobuf::Any;
use prost::{Message, Name};

/// Returns the message in an `Any`, if it is one of this type.
fn opened<T: Message + Name + Default>(any: &Any) -> Option<Result<T, String>> {
    if TypeUrl::message_name_in(&any.type_url) != T::full_name() {
        return None;
    }
    let decoded = T::decode(&*any.value);
    Some(decoded.map_err(|error| format!("a malformed `{}`: {error}", T::full_name())))
}

/// Returns what somebody wrote, for a message: escaped, and not longer than a line.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    match printable(text, PrintForm::Line) {
        Cow::Borrowed(text) => cut(text, QUOTED),
        Cow::Owned(text) => Cow::Owned(cut(&text, QUOTED).into_owned()),
    }
}

/// The number of bytes of a quoted text.
const QUOTED: usize = 200;
