//! Resources of tests, as JSON.

use std::sync::LazyLock;

use chancery_calls::filters::FilterConfig;
use chancery_client::ResourceType;
use chancery_proto::document::{Format, parse};
use chancery_proto::schema::Schema;
use serde_json::{Value, json};

use super::listeners::Listener;
use super::routes::Routes;

pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::bundled);

/// Reads a resource, to which its type is added, and a name if it has none.
pub(super) fn read<T: ResourceType>(resource: &Value) -> Result<T, String> {
    let mut resource = resource.clone();
    resource["@type"] = json!(format!("type.googleapis.com/{}", T::TYPE_URL));
    let name = if T::TYPE_URL.ends_with("Assignment") { "clusterName" } else { "name" };
    if resource[name].is_null() {
        resource[name] = json!("resource");
    }
    let text = resource.to_string();
    let parsed = parse(&SCHEMA, Format::Json, text.as_bytes());
    let faults: Vec<_> = parsed.faults.iter().map(|fault| &fault.message).collect();
    assert!(faults.is_empty(), "{text}: {faults:?}");
    let resource = &parsed.resources[0].resource;
    T::decode(&resource.name().to_string(), resource.body())
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
