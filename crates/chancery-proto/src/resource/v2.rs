//! Resources of v3 in the form for v2 clients.
//!
//! v3 kept the field numbers of v2, so a body is the same bytes under another type URL, with two
//! exceptions: the type URLs in every `Any` are those of the old messages, and a config source that
//! says v3 says v2 (S-010, [Transport API
//! version](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#transport-api-version)).
//! The old name of a message is in the annotation
//! `(udpa.annotations.versioning).previous_message_type`. An extension that v2 did not have keeps
//! its name. Fields that v2 did not have stay where they are, because old Envoys upgrade messages
//! by the same rule.

use chancery_core::{Facts, Resource, TypeUrl, Version};
use prost_reflect::{DynamicMessage, MessageDescriptor, ReflectMessage, Value};

use crate::schema::{Schema, text_option};
use crate::{any, canonical, facts};

/// Converts a v3 resource for v2 clients. The result is `None` if v2 has no such resource.
pub fn to_v2(
    schema: &Schema,
    type_url: &TypeUrl,
    resource: &Resource,
) -> Option<(TypeUrl, Resource)> {
    let descriptor = schema.message(type_url.as_str())?;
    let old_name = previous_name(&descriptor)?;
    let old_url =
        TypeUrl::known().find(|known| facts::is_v2(known) && known.message_name() == old_name)?;
    let mut message = DynamicMessage::decode(descriptor, resource.body().clone()).ok()?;
    downgrade(&mut message, 0);
    let body = canonical::encode(&message);
    let old = DynamicMessage::decode(schema.message(&old_name)?, &body[..]).ok()?;
    // A field that v2 did not have stays where it is, and v2 has no rule for it.
    let facts = facts::facts(&old_url, &old);
    let facts = Facts { sensitive: facts.sensitive || resource.facts().sensitive, ..facts };
    let mut converted = Resource::new(resource.name().clone(), body.into())
        .with_ttl(resource.ttl())
        .with_aliases(resource.aliases().to_vec())
        .with_facts(facts);
    if let Version::Explicit(version) = resource.version() {
        converted = converted.with_version(version);
    }
    Some((old_url, converted))
}

/// The name of this message in v2.
fn previous_name(descriptor: &MessageDescriptor) -> Option<String> {
    const VERSIONING: &str = "udpa.annotations.versioning";
    let pool = descriptor.parent_pool();
    text_option(pool, &descriptor.options(), VERSIONING, "previous_message_type")
}

fn downgrade(message: &mut DynamicMessage, depth: usize) {
    if depth >= any::MAX_DEPTH {
        return;
    }
    let descriptor = message.descriptor();
    match descriptor.full_name() {
        "google.protobuf.Any" => return downgrade_any(message, depth),
        "envoy.config.core.v3.ConfigSource" => ask_for_v2(message, "resource_api_version"),
        "envoy.config.core.v3.ApiConfigSource" => ask_for_v2(message, "transport_api_version"),
        _ => {}
    }
    for (_, value) in message.fields_mut() {
        downgrade_value(value, depth);
    }
}

fn downgrade_value(value: &mut Value, depth: usize) {
    match value {
        Value::Message(message) => downgrade(message, depth + 1),
        Value::List(items) => items.iter_mut().for_each(|item| downgrade_value(item, depth)),
        Value::Map(entries) => entries.values_mut().for_each(|item| downgrade_value(item, depth)),
        _ => {}
    }
}

fn downgrade_any(any: &mut DynamicMessage, depth: usize) {
    let Some(mut payload) = any::open(any) else { return };
    let descriptor = payload.descriptor();
    downgrade(&mut payload, depth + 1);
    any.set_field_by_number(any::VALUE, Value::Bytes(canonical::encode(&payload).into()));
    if let Some(name) = previous_name(&descriptor) {
        let type_url = TypeUrl::new(&name);
        any.set_field_by_number(any::TYPE_URL, Value::String(type_url.as_str().to_owned()));
    }
}

/// Replaces v3 by v2 in a config source. Otherwise a v2 client would ask for resources that it
/// cannot read.
fn ask_for_v2(source: &mut DynamicMessage, field: &str) {
    const V2: i32 = 1;
    const V3: i32 = 2;
    if let Some(Value::EnumNumber(version)) = source.get_field_by_name_mut(field)
        && *version == V3
    {
        *version = V2;
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;

    use super::*;
    use crate::resource::{Wrapper, resource};

    /// A v3 resource named `n`.
    fn resource_of(type_url: &TypeUrl, json: serde_json::Value) -> Resource {
        let descriptor = Schema::bundled().message(type_url.as_str()).unwrap();
        let wrapper = Wrapper { name: Some("n".to_owned()), ..Wrapper::default() };
        resource(type_url, &descriptor.deserialize(json).unwrap(), wrapper).unwrap()
    }

    fn convert(type_name: &str, json: serde_json::Value) -> Option<(TypeUrl, Resource)> {
        let type_url = TypeUrl::new(type_name);
        to_v2(&Schema::bundled(), &type_url, &resource_of(&type_url, json))
    }

    fn json_of(type_url: &TypeUrl, resource: &Resource) -> serde_json::Value {
        let descriptor = Schema::bundled().message(type_url.as_str()).unwrap();
        let message = DynamicMessage::decode(descriptor, resource.body().clone()).unwrap();
        serde_json::to_value(message).unwrap()
    }

    #[test]
    fn every_type_url_in_a_v2_resource_is_of_v2() {
        // S-010
        let routes = serde_json::json!({"configSource": {"resourceApiVersion": "V3",
            "apiConfigSource": {"apiType": "GRPC", "transportApiVersion": "V3"}},
            "routeConfigName": "r"});
        let router = serde_json::json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"});
        let manager = serde_json::json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.network.\
                      http_connection_manager.v3.HttpConnectionManager",
            "rds": routes,
            "httpFilters": [{"name": "router", "typedConfig": router}]});
        let listener = serde_json::json!({"name": "n", "filterChains":
            [{"filters": [{"name": "hcm", "typedConfig": manager}]}]});
        let (type_url, old) = convert("envoy.config.listener.v3.Listener", listener).unwrap();
        assert_eq!(type_url, TypeUrl::new("envoy.api.v2.Listener"));
        let json = json_of(&type_url, &old).to_string();
        assert!(json.contains("envoy.config.filter.network.http_connection_manager.v2"), "{json}");
        assert!(json.contains("envoy.config.filter.http.router.v2.Router"), "{json}");
        assert!(!json.contains(".v3.") && !json.contains("V3"), "{json}");
        assert_eq!(old.facts().links[0].type_url, TypeUrl::new("envoy.api.v2.RouteConfiguration"));
    }

    #[test]
    fn what_is_said_around_a_body_is_kept() {
        let schema = Schema::bundled();
        let type_url = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        let message = schema.message("envoy.config.cluster.v3.Cluster").unwrap();
        let message = message.deserialize(serde_json::json!({"name": "a"})).unwrap();
        let wrapper = Wrapper {
            ttl: Some(std::time::Duration::from_secs(1)),
            aliases: vec!["b".to_owned()],
            ..Wrapper::default()
        };
        let new = resource(&type_url, &message, wrapper).unwrap();
        let (_, old) = to_v2(&schema, &type_url, &new).unwrap();
        assert_eq!((old.ttl(), old.aliases()), (new.ttl(), new.aliases()));
        let (_, stated) = to_v2(&schema, &type_url, &new.with_version("v1")).unwrap();
        assert_eq!(stated.version().to_string(), "v1");
    }

    #[test]
    fn each_type_of_v2_has_its_own_and_the_others_have_none() {
        let old_of = |new: &str| {
            convert(new, serde_json::json!({}))
                .map(|(type_url, _)| type_url.message_name().to_owned())
        };
        let new = TypeUrl::known().filter(|type_url| !facts::is_v2(type_url));
        let pairs: Vec<_> =
            new.map(|new| (new.short().to_owned(), old_of(new.message_name()))).collect();
        let pairs: Vec<_> =
            pairs.iter().map(|(short, old)| (short.as_str(), old.as_deref())).collect();
        let expected = [
            ("cds", Some("envoy.api.v2.Cluster")),
            ("eds", Some("envoy.api.v2.ClusterLoadAssignment")),
            ("leds", None),
            ("lds", Some("envoy.api.v2.Listener")),
            ("fcds", None),
            ("srds", Some("envoy.api.v2.ScopedRouteConfiguration")),
            ("rds", Some("envoy.api.v2.RouteConfiguration")),
            ("vhds", Some("envoy.api.v2.route.VirtualHost")),
            ("sds", Some("envoy.api.v2.auth.Secret")),
            ("ecds", None),
            ("rtds", Some("envoy.service.discovery.v2.Runtime")),
            ("ratelimit.config.ratelimit.v3.RateLimitConfig", None),
        ];
        assert_eq!(pairs, expected);
        assert_eq!(convert("google.protobuf.Struct", serde_json::json!({})), None);
    }
}
