//! The fields that hold sensitive values: those that Envoy marks, and those that everybody takes for
//! a secret although nobody marked them.
//!
//! Marks are read from the descriptors, so that messages of users count like Envoy's. Not here: the
//! walk over a body (`walk`), names that authors chose (`names`), a `Struct` in the form of its type
//! (`typed_struct`), and what is a secret by its own form (`private_keys`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

use chancery_core::TypeUrl;
use prost_reflect::{
    DynamicMessage, ExtensionDescriptor, FieldDescriptor, MapKey, MessageDescriptor,
    ReflectMessage, Value,
};

use super::private_keys::{is_private_key, is_private_map_key};
use super::typed_struct::{TypedForm, is_typed_struct, typed_form};
use super::{content, names};
use crate::any;
use crate::schema::Schema;
use crate::walk::{message_in, text_in, value_in};

/// The rule of a field that holds sensitive values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Strangers must not have a value of it.
    Withheld,
    /// It is only left out where people read.
    Hidden,
}

/// Credentials that Envoy does not mark: the message and its fields.
pub(super) const UNMARKED: [(&str, &[&str]); 14] = [
    (
        "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials",
        &["access_token", "google_refresh_token"],
    ),
    (
        "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.ServiceAccountJWTAccessCredentials",
        &["json_key"],
    ),
    (
        "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials.GoogleIAMCredentials",
        &["authorization_token"],
    ),
    (
        "envoy.api.v2.core.GrpcService.GoogleGrpc.CallCredentials",
        &["access_token", "google_refresh_token"],
    ),
    (
        "envoy.api.v2.core.GrpcService.GoogleGrpc.CallCredentials.ServiceAccountJWTAccessCredentials",
        &["json_key"],
    ),
    (
        "envoy.api.v2.core.GrpcService.GoogleGrpc.CallCredentials.GoogleIAMCredentials",
        &["authorization_token"],
    ),
    (
        "envoy.extensions.grpc_service.call_credentials.access_token.v3.AccessTokenCredentials",
        &["token"],
    ),
    (
        "envoy.extensions.grpc_service.call_credentials.google_refresh_token.v3.GoogleRefreshTokenCredentials",
        &["token"],
    ),
    (
        "envoy.extensions.grpc_service.call_credentials.google_iam.v3.GoogleIamCredentials",
        &["authorization_token"],
    ),
    (
        "envoy.extensions.grpc_service.call_credentials.service_account_jwt_access.v3.ServiceAccountJwtAccessCredentials",
        &["json_key"],
    ),
    ("envoy.config.trace.v3.LightstepConfig", &["access_token"]),
    (
        "envoy.extensions.filters.http.aws_lambda.v3.Credentials",
        &["secret_access_key", "session_token"],
    ),
    ("envoy.extensions.filters.http.api_key_auth.v3.Credential", &["key"]),
    ("envoy.service.redis_auth.v3.RedisProxyExternalAuthRequest", &["password"]),
];

/// Marked fields whose values are no secret by themselves: labels and user names.
const MILD: [&str; 3] = ["context_extensions", "auth_username", "downstream_auth_username"];

/// Messages of a name and a value: the message, the field of the name, and those of the value.
static PAIRS: [(&str, &str, [&str; 2]); 5] = [
    ("envoy.config.core.v3.HeaderValue", "key", ["value", "raw_value"]),
    ("envoy.api.v2.core.HeaderValue", "key", ["value", "raw_value"]),
    ("envoy.config.core.v3.QueryParameter", "key", ["value", "value"]),
    ("envoy.config.core.v3.KeyValue", "key", ["value", "value"]),
    ("envoy.config.core.v3.KeyValuePair", "key", ["value", "value"]),
];

/// The marked messages, and those in [`UNMARKED`], of the bundled descriptors. Options are decoded
/// anew each time they are asked for, so they are asked for once.
static BUNDLED: LazyLock<HashMap<String, Vec<(u32, Rule)>>> = LazyLock::new(|| {
    let schema = Schema::bundled();
    let rules = schema.pool().all_messages().filter_map(|message| {
        let rules = rules(&message);
        (!rules.is_empty()).then(|| (message.full_name().to_owned(), rules))
    });
    rules.collect()
});

/// The fields of a message with rules, by their numbers.
fn rules(message: &MessageDescriptor) -> Vec<(u32, Rule)> {
    let unmarked = UNMARKED.iter().find(|(name, _)| *name == message.full_name());
    let unmarked = unmarked.map_or(&[][..], |(_, fields)| *fields);
    let mark = mark_of(message);
    let rule = |field: FieldDescriptor| {
        let marked = mark
            .as_ref()
            .is_some_and(|mark| field.options().get_extension(mark).as_bool().unwrap_or(false));
        let rule = if MILD.contains(&field.name()) { Rule::Hidden } else { Rule::Withheld };
        (marked || unmarked.contains(&field.name())).then_some((field.number(), rule))
    };
    message.fields().filter_map(rule).collect()
}

/// The option that marks fields, for messages of a file that imports it.
fn mark_of(message: &MessageDescriptor) -> Option<ExtensionDescriptor> {
    let file = message.parent_file();
    let imports = |name: &str| name == "udpa/annotations/sensitive.proto";
    if !file.file_descriptor_proto().dependency.iter().any(|name| imports(name)) {
        return None;
    }
    message.parent_pool().get_extension_by_name("udpa.annotations.sensitive")
}

/// The rules for the fields of a message, by their numbers.
fn rules_of(message: &MessageDescriptor) -> Cow<'static, [(u32, Rule)]> {
    match BUNDLED.get(message.full_name()) {
        Some(rules) => Cow::Borrowed(rules),
        None if is_bundled(message) => Cow::Borrowed(&[]),
        // A message of the user's: few have marks, so that is looked up each time.
        None => Cow::Owned(rules(message)),
    }
}

/// Returns true for a message of the bundled descriptors, also in a pool to which others were
/// added: the known messages stay as they are there.
pub(super) fn is_bundled(message: &MessageDescriptor) -> bool {
    let bundled = Schema::bundled();
    message.parent_pool() == bundled.pool()
        || bundled.pool().get_message_by_name(message.full_name()).is_some()
}

/// The fields of a message that have rules.
pub(super) fn ruled_fields(message: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let rules = rules_of(message);
    rules.iter().filter_map(|(number, _)| message.get_field(*number)).collect()
}

/// Returns true for a field that holds sensitive values.
pub(crate) fn is_ruled(message: &MessageDescriptor, field: &FieldDescriptor) -> bool {
    rule_of(&rules_of(message), field).is_some()
}

fn rule_of(rules: &[(u32, Rule)], field: &FieldDescriptor) -> Option<Rule> {
    rules.iter().find(|(number, _)| *number == field.number()).map(|(_, rule)| *rule)
}

/// The fields of one message whose values are left out where people read.
pub(crate) struct HiddenFields<'m> {
    message: &'m DynamicMessage,
    descriptor: MessageDescriptor,
    rules: Cow<'static, [(u32, Rule)]>,
    /// The fields with the value of a header, a parameter or a pair with the name of a secret.
    named: &'static [&'static str],
}

impl<'m> HiddenFields<'m> {
    /// Looks up the rules of the message, which hold for all its fields.
    pub(crate) fn of(message: &'m DynamicMessage) -> Self {
        let descriptor = message.descriptor();
        let (rules, named) = (rules_of(&descriptor), named_values(message, &descriptor));
        Self { message, descriptor, rules, named }
    }

    /// Returns true if the value of this field is left out.
    pub(crate) fn contain(&self, field: &FieldDescriptor, value: &Value) -> bool {
        self.contain_as_it_is(field, value)
            || self.typed_form(field).is_some_and(|typed| typed.hides())
    }

    /// The same for the value as it is, and not in the form of its type.
    pub(super) fn contain_as_it_is(&self, field: &FieldDescriptor, value: &Value) -> bool {
        rule_of(&self.rules, field).is_some()
            || self.named.contains(&field.name())
            || is_private_key(value)
    }

    /// The value of this field in the form of its type, if it is the content of a `TypedStruct`.
    pub(super) fn typed_form(&self, field: &FieldDescriptor) -> Option<TypedForm> {
        typed_form(self.message, &self.descriptor, field)
    }
}

/// Returns true for an entry of a map whose value is left out where people read.
pub(crate) fn hides_entry(key: &MapKey, value: &Value) -> bool {
    let names = || key.as_str().is_some_and(names::names_secret);
    match value {
        _ if is_private_map_key(key) => true,
        Value::String(_) | Value::Bytes(_) => {
            is_private_key(value) || has_content(value) && names()
        }
        // An entry of a `Struct`.
        Value::Message(inner) if inner.descriptor().full_name() == "google.protobuf.Value" => {
            names()
                && (value_in(inner, "string_value").is_some_and(has_content) || is_source_in(inner))
        }
        _ => false,
    }
}

/// The field of this one message with a value that must be withheld from strangers because of what
/// the field means.
pub(super) fn withheld(message: &DynamicMessage) -> Option<String> {
    let descriptor = message.descriptor();
    if any::is_any(&descriptor) {
        return is_closed_secret(message).then(String::new);
    }
    let is_struct = descriptor.full_name() == "google.protobuf.Struct";
    let is_typed_struct = is_typed_struct(&descriptor);
    let rules = rules_of(&descriptor);
    message.fields().find_map(|(field, value)| {
        let is_withheld = match rule_of(&rules, &field) {
            Some(Rule::Withheld) => has_value(value, 0),
            _ if is_typed_struct => {
                typed_form(message, &descriptor, &field).is_some_and(|typed| typed.is_withheld())
            }
            _ => false,
        };
        if is_withheld {
            return Some(field.name().to_owned());
        }
        is_struct.then(|| sourced_entry(value)).flatten()
    })
}

/// The entry of a `Struct` that has the name of a secret and a `DataSource` with its value. Filters
/// of v2, and those without a descriptor, are configured like that.
fn sourced_entry(entries: &Value) -> Option<String> {
    let entries = entries.as_map()?.iter();
    let mut found = entries.filter_map(|(key, value)| {
        let key = key.as_str().filter(|key| names::names_secret(key))?;
        is_source_in(value.as_message()?).then(|| format!("fields[{key}]"))
    });
    found.next()
}

/// Returns true for a `google.protobuf.Value` in the form of a `DataSource` with its value.
fn is_source_in(value: &DynamicMessage) -> bool {
    let inner = message_in(value, "struct_value").and_then(|inner| value_in(inner, "fields"));
    let text = |name: &str| {
        let inline = inner?.as_map()?.get(&MapKey::String(name.to_owned()))?;
        value_in(inline.as_message()?, "string_value")
    };
    names::INLINE.iter().filter_map(|name| text(name)).any(has_content)
}

/// Returns true for an `Any` of a known type that could not be opened: it may hold a secret.
fn is_closed_secret(any: &DynamicMessage) -> bool {
    let Some(value) = any.get_field_by_number(any::VALUE) else { return false };
    let url = any::type_url(any).unwrap_or_default();
    let known = any.descriptor().parent_pool().get_message_by_name(TypeUrl::message_name_in(&url));
    known.is_some() && has_content(&value)
}

/// Returns true if there is a value in a field: a text or bytes, and not only the place where they
/// stand.
pub(super) fn has_value(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(_) | Value::Bytes(_) => has_content(value),
        Value::List(items) => items.iter().any(|item| has_value(item, depth)),
        Value::Map(entries) => entries.values().any(|item| has_value(item, depth)),
        Value::Message(message) => message_has_value(message, depth),
        _ => false,
    }
}

fn message_has_value(message: &DynamicMessage, depth: usize) -> bool {
    let descriptor = message.descriptor();
    if is_source(&descriptor) {
        let inline = ["inline_string", "inline_bytes"];
        return inline
            .iter()
            .filter_map(|field| message.get_field_by_name(field))
            .any(|value| has_content(&value));
    }
    if depth < any::MAX_DEPTH
        && any::is_any(&descriptor)
        && let Some(payload) = any::open(message)
    {
        return message_has_value(&payload, depth + 1);
    }
    message.fields().any(|(_, value)| has_value(value, depth + 1))
}

pub(super) fn is_source(descriptor: &MessageDescriptor) -> bool {
    matches!(
        descriptor.full_name(),
        "envoy.config.core.v3.DataSource" | "envoy.api.v2.core.DataSource"
    )
}

fn has_content(value: &Value) -> bool {
    content(value).is_some_and(|content| !content.is_empty())
}

/// The fields with the value of a header, a parameter or a pair, if it has the name of a secret.
fn named_values(
    message: &DynamicMessage,
    descriptor: &MessageDescriptor,
) -> &'static [&'static str] {
    let pair = PAIRS.iter().find(|(name, ..)| *name == descriptor.full_name());
    let pair = pair.filter(|(_, key, _)| names::names_secret(text_in(message, key)));
    pair.map_or(&[], |(_, _, values)| values)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde_json::json;

    use super::super::may_hold_secrets;
    use super::*;

    /// The bundled descriptors, and a message of so many texts, of which the last one is marked.
    fn with_own(fields: usize) -> Schema {
        let field = |number| {
            let options = match number == fields {
                true => json!({"[udpa.annotations.sensitive]": true}),
                false => json!({"deprecated": false}),
            };
            json!({"name": format!("f{number}"), "number": number, "label": "LABEL_OPTIONAL",
                "type": "TYPE_STRING", "options": options})
        };
        let fields: Vec<_> = (1..=fields).map(field).collect();
        let file = json!({"name": "own.proto", "package": "own", "syntax": "proto3",
            "dependency": ["udpa/annotations/sensitive.proto"],
            "messageType": [{"name": "Own", "field": fields}]});
        let set = Schema::bundled().message("google.protobuf.FileDescriptorSet").unwrap();
        let set = DynamicMessage::deserialize(set, json!({"file": [file]})).unwrap();
        Schema::bundled().with_descriptor_set(&set.encode_to_vec()).unwrap()
    }

    #[test]
    fn a_field_that_a_user_marks_has_a_rule() {
        let schema = with_own(3);
        let own = schema.message("own.Own").unwrap();
        assert_eq!(*rules_of(&own), [(3, Rule::Withheld)]);
        assert!(may_hold_secrets(&schema, "{f3: [x]}") && !may_hold_secrets(&schema, "{f2: [x]}"));
    }

    #[test]
    fn the_rules_of_known_messages_are_known_beside_those_of_a_user() {
        let (bundled, wider) = (Schema::bundled(), with_own(1));
        for message in bundled.pool().all_messages() {
            let same = wider.message(message.full_name()).unwrap();
            let known = rules_of(&same);
            assert!(matches!(known, Cow::Borrowed(_)), "{}", same.full_name());
            assert_eq!(*known, *rules(&same), "{}", same.full_name());
        }
    }
}
