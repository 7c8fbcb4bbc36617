//! Extensions that need a configuration: Envoy finds them by its type.

use prost_reflect::{DynamicMessage, Value};

use super::{Checks, Found};
use crate::rules::name::RuleName;
use crate::walk::{message_in, value_in};

pub(super) const CHECKS: Checks = &[
    ("envoy.config.core.v3.TransportSocket", extension),
    ("envoy.config.cluster.v3.Filter", extension),
    ("envoy.config.listener.v3.Filter", extension),
    ("envoy.config.listener.v3.ListenerFilter", extension),
    ("envoy.config.accesslog.v3.AccessLog", extension),
    ("envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter", extension),
];

fn extension(message: &DynamicMessage, found: &mut Found<'_>) {
    let is_optional = value_in(message, "is_optional").and_then(Value::as_bool).unwrap_or_default();
    let is_there = ["typed_config", "config_discovery"].map(|it| message_in(message, it).is_some());
    if is_there == [false, false] && !is_optional {
        let sentence = "must have a `typed_config`: Envoy finds an extension by the type of that, and \
                        not by its name";
        found.says(&[], RuleName::EXTENSION_CONFIG, sentence);
    }
}
