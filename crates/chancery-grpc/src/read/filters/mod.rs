//! HTTP filters, and the configurations that routes have for them (C-093).
//!
//! Not here: what a filter does, and the merging of its configurations (`chancery_calls::filters`).

mod faults;
mod rbac;
mod sessions;

use std::collections::HashMap;
use std::sync::Arc;

use chancery_calls::filters::{FilterChain, FilterConfig, FilterEntry, ListedFilter, Overrides};
use chancery_core::TypeUrl;
use envoy_types::pb::envoy::config::route::v3 as rds;
use envoy_types::pb::envoy::extensions::filters::http::fault::v3::HttpFault;
use envoy_types::pb::envoy::extensions::filters::http::rbac::v3::{Rbac, RbacPerRoute};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3::{
    StatefulSession, StatefulSessionPerRoute,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::google::protobuf::Any;
use hcm::http_filter::ConfigType;
use prost::Name;

use super::fault::{At, Fault};
use super::typed_struct::TypedStruct;
use super::{opened, quoted};
use crate::extend::{self, FilterMessage};

/// The number of faults of a list that are told.
const MOST_TOLD: usize = 8;

/// The configuration of a filter that is known in its place, or the type of one that is not.
type Known = Result<FilterConfig, String>;

/// The side of a call that has a filter.
pub(super) use crate::extend::CallSide as Side;

/// Returns true if a side has the filter with this configuration. gRFC A33 and gRFC A55 are for clients, and gRFC
/// A41 is for servers.
fn has(side: Side, config: &Any) -> bool {
    let name = TypeUrl::message_name_in(&config.type_url);
    match side {
        Side::Client => name != Rbac::full_name(),
        Side::Server => name != HttpFault::full_name() && name != StatefulSession::full_name(),
    }
}

/// Reads the filters of a listener. A filter of the other side is one that nobody knows.
pub(super) fn chain(list: &[hcm::HttpFilter], side: Side) -> Result<FilterChain, Fault> {
    let entries = list.iter().enumerate();
    let entries = entries.map(|(at, it)| entry(it, side).at(format_args!("[{at}]")));
    let chain = FilterChain::new(entries.collect::<Result<_, _>>()?);
    chain.map_err(|faults| {
        let told: Vec<_> = faults.iter().take(MOST_TOLD).map(ToString::to_string).collect();
        let more = match faults.len() - told.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        format!("{}{more}", told.join("; ")).into()
    })
}

fn entry(message: &hcm::HttpFilter, side: Side) -> Result<FilterEntry, Fault> {
    if message.name.is_empty() {
        return Err("it must be set").at("name");
    }
    let (none, is_optional) = (Any::default(), message.is_optional);
    let config = match &message.config_type {
        Some(ConfigType::TypedConfig(config)) => config,
        // An optional one is left out.
        Some(ConfigType::ConfigDiscovery(_)) | None if is_optional => &none,
        Some(ConfigType::ConfigDiscovery(_)) => {
            return Err("gRPC has no discovery of filters").at("config_discovery");
        }
        None => return Err("it must be set").at("typed_config"),
    };
    let filter = match known(config, of_listener, Some(side)).at("typed_config")? {
        Ok(known) if has(side, config) => ListedFilter::Known(known),
        Ok(_) => ListedFilter::Unknown { type_url: config.type_url.clone(), is_optional },
        Err(type_url) => ListedFilter::Unknown { type_url, is_optional },
    };
    let (name, is_disabled) = (message.name.as_str().into(), message.disabled);
    Ok(FilterEntry { name, filter, is_disabled })
}

/// Reads the configurations of a virtual host, a route or a weighted cluster.
pub(super) fn overrides(configs: &HashMap<String, Any>) -> Result<Overrides, Fault> {
    let mut configs: Vec<_> = configs.iter().collect();
    configs.sort_unstable_by_key(|(name, _)| *name); // The same resource has the same first fault.
    let mut read = Vec::new();
    for (name, config) in configs {
        let path = format_args!("typed_per_filter_config[{}]", quoted(name)).to_string();
        let config = replacement(config).at(path)?;
        read.extend(config.map(|config| (Arc::from(name.as_str()), config)));
    }
    Ok(Overrides::new(read))
}

/// Reads the configuration of a route for a filter. There is none if it is unknown and optional.
fn replacement(config: &Any) -> Result<Option<FilterConfig>, Fault> {
    let wrapper = opened::<rds::FilterConfig>(config).transpose()?;
    let (config, is_optional) = match &wrapper {
        Some(wrapper) if wrapper.disabled => return Ok(Some(FilterConfig::Disabled)),
        Some(wrapper) => (wrapper.config.as_ref(), wrapper.is_optional),
        None => (Some(config), false),
    };
    let none = Any::default();
    match known(config.unwrap_or(&none), of_route, None)? {
        Ok(config) => Ok(Some(config)),
        Err(_) if is_optional => Ok(None),
        Err(type_url) if type_url.is_empty() => Err("it has no message of a filter".into()),
        Err(type_url) => {
            Err(format!("`{}` is no known filter, and not optional", quoted(&type_url)).into())
        }
    }
}

/// Reads the configuration of a filter by the types of its place.
fn known(
    config: &Any,
    read: fn(&Any) -> Option<Result<FilterConfig, Fault>>,
    side: Option<Side>,
) -> Result<Known, Fault> {
    if let Some(config) = read(config) {
        return config.map(Ok);
    }
    if is_built_in(config) {
        return Err("the filter has another message in this place".into());
    }
    let Some(fields) = TypedStruct::opened(config) else {
        return of_program(&config.type_url, side, FilterMessage::Protobuf(&config.value));
    };
    let fields = fields?;
    let inner = Any { type_url: fields.type_url.clone(), value: Vec::new() };
    match is_built_in(&inner) {
        true => Err("the filter must have its own message, and no `TypedStruct`".into()),
        false => {
            of_program(&inner.type_url, side, FilterMessage::Json(&fields.fields().to_string()))
        }
    }
}

/// Reads the configuration of a filter that the program may have added.
fn of_program(
    type_url: &str,
    side: Option<Side>,
    config: FilterMessage<'_>,
) -> Result<Known, Fault> {
    match extend::read_filter(TypeUrl::message_name_in(type_url), side, config) {
        Some(read) => Ok(Ok(read.map_err(|why| quoted(&why).into_owned())?)),
        None => Ok(Err(type_url.to_owned())),
    }
}

/// Returns true if the message is one of a filter that is built in, for listeners or for routes.
fn is_built_in(config: &Any) -> bool {
    of_listener(config).is_some() || of_route(config).is_some()
}

fn of_listener(config: &Any) -> Option<Result<FilterConfig, Fault>> {
    let router =
        || Some(opened::<Router>(config)?.map(|_| FilterConfig::Router).map_err(Fault::from));
    let faults = || Some(opened::<HttpFault>(config)?.map_err(Fault::from).and_then(faults::read));
    let rbac = || Some(opened::<Rbac>(config)?.map_err(Fault::from).and_then(rbac::read));
    let session =
        || Some(opened::<StatefulSession>(config)?.map_err(Fault::from).and_then(sessions::read));
    router().or_else(faults).or_else(rbac).or_else(session)
}

fn of_route(config: &Any) -> Option<Result<FilterConfig, Fault>> {
    let faults = || Some(opened::<HttpFault>(config)?.map_err(Fault::from).and_then(faults::read));
    let rbac =
        || Some(opened::<RbacPerRoute>(config)?.map_err(Fault::from).and_then(rbac::of_route));
    let session = || {
        let session = opened::<StatefulSessionPerRoute>(config)?;
        Some(session.map_err(Fault::from).and_then(sessions::of_route))
    };
    faults().or_else(rbac).or_else(session)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::support::{any, filter, listed, override_of};
    use super::FilterConfig;

    fn typed_struct(name: &str, type_name: &str) -> Value {
        let type_url = format!("type.googleapis.com/{type_name}");
        json!({"@type": format!("type.googleapis.com/{name}"), "typeUrl": type_url, "value": {}})
    }

    #[test]
    fn a_struct_is_the_type_that_it_stands_for() {
        // C-093
        const FAULT: &str = "envoy.extensions.filters.http.fault.v3.HTTPFault";
        for name in ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"] {
            let known = override_of(&typed_struct(name, FAULT)).unwrap_err();
            let why = "the filter must have its own message, and no `TypedStruct`";
            assert_eq!(known, format!(".typed_per_filter_config[f]: {why}"));
            let unknown = override_of(&typed_struct(name, "example.com.Filter")).unwrap_err();
            let why =
                "`type.googleapis.com/example.com.Filter` is no known filter, and not optional";
            assert_eq!(unknown, format!(".typed_per_filter_config[f]: {why}"));
        }
    }

    #[test]
    fn a_filter_may_be_off_unless_a_route_configures_it() {
        // C-093
        let mut off = filter("f", "fault.v3.HTTPFault", json!({"maxActiveFaults": 1}));
        assert!(matches!(listed(&off), Ok(FilterConfig::Faults(_))));
        off["disabled"] = json!(true);
        assert!(matches!(listed(&off), Ok(FilterConfig::Disabled)));
    }

    #[test]
    fn a_filter_without_a_configuration_is_rejected_unless_it_is_optional() {
        // C-093
        for (field, value, why) in [
            ("typedConfig", Value::Null, "typed_config: it must be set"),
            (
                "configDiscovery",
                json!({"configSource": {"ads": {}}}),
                "config_discovery: gRPC has no discovery of filters",
            ),
        ] {
            let mut entry = json!({"name": "f", field: value});
            assert_eq!(listed(&entry).unwrap_err(), format!("[0].{why}"));
            entry["isOptional"] = json!(true);
            assert_eq!(listed(&entry).err(), None);
        }
        let empty = override_of(&any("config.route.v3.FilterConfig", json!({}))).unwrap_err();
        assert_eq!(empty, ".typed_per_filter_config[f]: it has no message of a filter");
    }

    #[test]
    fn listeners_and_routes_have_messages_of_their_own() {
        // C-093
        let why = ": the filter has another message in this place";
        for (listed_name, route_name) in [
            ("router.v3.Router", "router.v3.Router"),
            ("rbac.v3.RBACPerRoute", "rbac.v3.RBAC"),
            ("stateful_session.v3.StatefulSessionPerRoute", "stateful_session.v3.StatefulSession"),
        ] {
            let path = "extensions.filters.http";
            let fault = override_of(&any(&format!("{path}.{route_name}"), json!({}))).unwrap_err();
            assert_eq!(fault, format!(".typed_per_filter_config[f]{why}"));
            if listed_name != route_name {
                let fault = listed(&filter("f", listed_name, json!({}))).unwrap_err();
                assert_eq!(fault, format!("[0].typed_config{why}"));
            }
        }
    }
}
