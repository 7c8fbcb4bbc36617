//! HTTP filters, and the configurations that routes have for them (C-093).
//!
//! Not here: what a filter does, and the merging of its configurations (`chancery_calls::filters`).

use std::collections::HashMap;
use std::sync::Arc;

use chancery_calls::filters::{FilterChain, FilterConfig, FilterEntry, ListedFilter, Overrides};
use chancery_core::TypeUrl;
use envoy_types::pb::envoy::config::route::v3 as rds;
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::google::protobuf::Any;
use hcm::http_filter::ConfigType;
use prost::{Message, Name};

use super::fault::{At, Fault};
use super::{opened, quoted};

/// The names of the message that stands for one of another type: the newer and the older.
const TYPED_STRUCTS: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

/// The type that a struct stands for. Its values are of no interest here.
#[derive(Clone, PartialEq, Message)]
struct TypedStruct {
    #[prost(string, tag = "1")]
    type_url: String,
}

/// Reads the filters of a listener.
pub(super) fn chain(list: &[hcm::HttpFilter]) -> Result<FilterChain, Fault> {
    let entries = list.iter().enumerate().map(|(at, it)| entry(it).at(format_args!("[{at}]")));
    let chain = FilterChain::new(entries.collect::<Result<_, _>>()?);
    chain.map_err(|faults| {
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        faults.join("; ").into()
    })
}

fn entry(message: &hcm::HttpFilter) -> Result<FilterEntry, Fault> {
    if message.name.is_empty() {
        return Err("it must be set").at("name");
    }
    let config = match &message.config_type {
        Some(ConfigType::TypedConfig(config)) => config,
        Some(ConfigType::ConfigDiscovery(_)) | None => &Any::default(),
    };
    let known = known(config).at("typed_config")?;
    let filter = known.map_or_else(
        |type_url| ListedFilter::Unknown { type_url, is_optional: message.is_optional },
        ListedFilter::Known,
    );
    Ok(FilterEntry { name: message.name.as_str().into(), filter })
}

/// Reads the configurations of a virtual host, a route or a weighted cluster.
pub(super) fn overrides(configs: &HashMap<String, Any>) -> Result<Overrides, Fault> {
    let mut read = Vec::new();
    let mut configs: Vec<_> = configs.iter().collect();
    configs.sort_unstable_by_key(|(name, _)| *name); // The same resource has the same first fault.
    for (name, config) in configs {
        let config =
            replacement(config).at(format_args!("typed_per_filter_config[{}]", quoted(name)))?;
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
    match known(config.unwrap_or(&Any::default()))? {
        Ok(config) => Ok(Some(config)),
        Err(_) if is_optional => Ok(None),
        Err(type_url) => {
            Err(format!("`{}` is no known filter, and not optional", quoted(&type_url)).into())
        }
    }
}

/// Reads the configuration of a known filter, or returns the type of one that is not known.
fn known(config: &Any) -> Result<Result<FilterConfig, String>, Fault> {
    if let Some(router) = opened::<Router>(config) {
        return Ok(router.map(|_| Ok(FilterConfig::Router))?);
    }
    let Some(inner) = typed_struct(config) else { return Ok(Err(config.type_url.clone())) };
    let type_url = inner?.type_url;
    match TypeUrl::message_name_in(&type_url) == Router::full_name() {
        true => Err("a known filter must have its own message, and no `TypedStruct`".into()),
        false => Ok(Err(type_url)),
    }
}

/// Returns the struct in an `Any`.
fn typed_struct(config: &Any) -> Option<Result<TypedStruct, String>> {
    let name = TypeUrl::message_name_in(&config.type_url);
    let name = TYPED_STRUCTS.into_iter().find(|known| *known == name)?;
    let decoded = TypedStruct::decode(&*config.value);
    Some(decoded.map_err(|error| format!("a malformed `{name}`: {error}")))
}
