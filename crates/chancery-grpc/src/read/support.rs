//! Resources of tests, as JSON.

use std::sync::{Arc, LazyLock};

use chancery_calls::filters::FilterConfig;
use chancery_client::ResourceType;
use chancery_core::Resource;
use chancery_proto::document::{Checks, Format, parse_checked};
use chancery_proto::schema::Schema;
use prost::Message;
use serde_json::{Value, json};

use super::listeners::Listener;
use super::routes::Routes;

static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::bundled);

/// Reads a resource, to which its type is added, and a name if it has none.
pub(super) fn read<T: ResourceType>(resource: &Value) -> Result<T, String> {
    let mut resource = resource.clone();
    let name = if T::TYPE_URL.ends_with("Assignment") { "clusterName" } else { "name" };
    if resource[name].is_null() {
        resource[name] = json!("resource");
    }
    let (parsed, rejecters) = parsed(T::TYPE_URL, &resource);
    let read = T::decode(parsed.name().as_str(), parsed.body());
    assert!(read.is_err() || rejecters != Rejecters::All, "every gRPC rejects it: {resource}");
    read
}

/// Reads a message that is a resource of this type.
pub(super) fn message<M: Message + Default>(type_name: &str, resource: &Value) -> M {
    M::decode(parsed(type_name, resource).0.body().clone()).expect("a message")
}

/// The implementations of gRPC that reject a resource, by what `chancery check` says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rejecters {
    None,
    Some,
    All,
}

/// Reads a resource of this type, and says who rejects it.
pub(super) fn parsed(type_name: &str, resource: &Value) -> (Arc<Resource>, Rejecters) {
    let mut resource = resource.clone();
    resource["@type"] = json!(format!("type.googleapis.com/{type_name}"));
    let text = resource.to_string();
    let checks = Checks { clients: "grpc".parse().expect("clients"), ..Checks::default() };
    let parsed = parse_checked(&SCHEMA, Format::Json, text.as_bytes(), checks);
    let faults: Vec<_> = parsed.faults.iter().map(|fault| &fault.message).collect();
    assert!(faults.is_empty(), "{text}: {faults:?}");
    let [resource] = &*parsed.resources else { panic!("{text}: no resource") };
    let rejected = resource.warnings.iter().filter(|it| it.code == "grpc/rejected");
    let rejecters = rejected.map(|it| match it.text.ends_with("rejected by gRPC") {
        true => Rejecters::All,
        false => Rejecters::Some,
    });
    (Arc::clone(&resource.resource), rejecters.max().unwrap_or(Rejecters::None))
}

/// Returns why a resource is rejected, or nothing.
pub(super) fn fault_of<T: ResourceType>(resource: &Value) -> String {
    read::<T>(resource).err().unwrap_or_default()
}

/// An `Any` of this type of Envoy, with these fields.
pub(super) fn any(name: &str, fields: Value) -> Value {
    let mut any = fields;
    any["@type"] = json!(format!("type.googleapis.com/envoy.{name}"));
    any
}

/// A filter of a listener, the type of which ends with this.
pub(super) fn filter(name: &str, kind: &str, fields: Value) -> Value {
    json!({"name": name, "typedConfig": any(&format!("extensions.filters.http.{kind}"), fields)})
}

/// The router.
pub(super) fn router() -> Value {
    filter("router", "router.v3.Router", json!({}))
}

/// Returns the configuration of a filter that a virtual host has, or the reason for which it is rejected,
/// from the path of the configuration on.
pub(super) fn override_of(config: &Value) -> Result<FilterConfig, String> {
    let host = json!({"domains": ["*"], "typedPerFilterConfig": {"f": config}});
    let routes = read::<Routes>(&json!({"virtualHosts": [host]}));
    let routes = routes.map_err(|fault| without(&fault, "virtual_hosts[0]"))?;
    Ok(routes.0.hosts()[0].overrides.get("f").expect("a configuration").clone())
}

/// Returns the first filter of the listener of a client, or the reason for which it is rejected, from the
/// path of the filter on.
pub(super) fn listed(filter: &Value) -> Result<FilterConfig, String> {
    const MANAGER: &str =
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let filters = json!([filter, router()]);
    let manager = any(MANAGER, json!({"routeConfig": {}, "httpFilters": filters}));
    let listener = read::<Listener>(&json!({"apiListener": {"apiListener": manager}}));
    let listener =
        listener.map_err(|fault| without(&fault, "api_listener.api_listener.http_filters"))?;
    Ok(listener.filters.filters()[0].config.clone())
}

fn without(fault: &str, path: &str) -> String {
    fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault}")).to_owned()
}
