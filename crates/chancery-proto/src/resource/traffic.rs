//! Questions about the traffic that a resource takes: for whoever judges a change of it.
//!
//! A body that is not of its type has no answer. Not here: the numbers that every resource has at hand
//! ([`Facts::parts`](chancery_core::Facts)), and what is wrong with a resource by itself (`lint`, `rules`).

use std::collections::BTreeSet;

use bytes::Bytes;
use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::decoded;
use crate::facts::is_v2;
use crate::schema::Schema;
use crate::walk::{list_in, message_in, messages_in, texts_in, value_in, walk};
use crate::{any, lint};

/// Returns true for a cluster that has no other endpoints than those in it, which are none.
pub fn lacks_endpoints(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> bool {
    let Some(cluster) = decoded(schema, type_url, body) else { return false };
    if type_url.api() != Api::Cds || message_in(&cluster, "cluster_type").is_some() {
        return false;
    }
    let kind = value_in(&cluster, "type").and_then(Value::as_enum_number).unwrap_or_default();
    let endpoints =
        message_in(&cluster, "load_assignment").map(|it| list_in(it, "endpoints").len());
    [STATIC, STRICT_DNS, LOGICAL_DNS].contains(&kind) && endpoints.unwrap_or_default() == 0
}

/// Values of `DiscoveryType`.
const STATIC: i32 = 0;
const STRICT_DNS: i32 = 1;
const LOGICAL_DNS: i32 = 2;

/// Returns true for routes or a virtual host by which no request goes anywhere.
pub fn lacks_routes(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> bool {
    let Some(message) = decoded(schema, type_url, body) else { return false };
    let has_routes = |host: &DynamicMessage| {
        !list_in(host, "routes").is_empty() || message_in(host, "matcher").is_some()
    };
    match type_url.api() {
        Api::Rds => {
            let is_on_demand = message_in(&message, "vhds").is_some();
            !is_on_demand && !messages_in(&message, "virtual_hosts").any(has_routes)
        }
        Api::Vhds => !has_routes(&message),
        _ => false,
    }
}

/// The domains of the virtual hosts in routes or in a listener, of so many of them at most.
pub fn domains(schema: &Schema, type_url: &TypeUrl, body: &Bytes, most: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let Some(message) = decoded(schema, type_url, body) else { return found };
    walk(&message, &mut |_, message| {
        if message.descriptor().full_name() == VIRTUAL_HOST {
            let room = most.saturating_sub(found.len());
            found.extend(texts_in(message, "domains").take(room).map(str::to_owned));
        }
    });
    found
}

const VIRTUAL_HOST: &str = "envoy.config.route.v3.VirtualHost";

/// Returns true for a listener that binds to no port: another one has to hand connections to it.
pub fn is_unbound(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> bool {
    let Some(listener) = decoded(schema, type_url, body) else { return false };
    let binds = message_in(&listener, "bind_to_port").filter(|_| !is_v2(type_url));
    binds.is_some_and(|it| !is_true(it, "value"))
}

/// Returns true for a listener that hands connections to the one with their original address.
pub fn hands_over(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> bool {
    const FILTER: &str = "envoy.extensions.filters.listener.original_dst.v3.OriginalDst";
    let Some(listener) = decoded(schema, type_url, body) else { return false };
    let original = message_in(&listener, "use_original_dst");
    let is_it = |filter: &DynamicMessage| {
        let config = message_in(filter, "typed_config").and_then(any::type_url);
        config.is_some_and(|url| TypeUrl::message_name_in(&url) == FILTER)
            || message_in(filter, "config_discovery").is_some()
    };
    original.is_some_and(|it| is_true(it, "value"))
        || messages_in(&listener, "listener_filters").any(is_it)
}

fn is_true(message: &DynamicMessage, field: &str) -> bool {
    value_in(message, field).and_then(Value::as_bool) == Some(true)
}

/// The connection managers, chains and endpoints of a resource that answer no request, which Envoy accepts.
pub fn unanswering(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Vec<lint::Warning> {
    let message = decoded(schema, type_url, body);
    message.map(|it| lint::unanswering(type_url, &it)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde::de::DeserializeSeed;
    use serde_json::{Value as Json, json};

    use super::*;

    /// Asks about a resource of a type.
    fn ask<T>(name: &str, json: &Json, of: impl Fn(&Schema, &TypeUrl, &Bytes) -> T) -> T {
        let schema = Schema::bundled();
        let message = schema.message(name).unwrap().deserialize(json).unwrap();
        of(&schema, &TypeUrl::new(name), &message.encode_to_vec().into())
    }

    #[test]
    fn clusters_lack_endpoints_that_nobody_else_gives() {
        let lacks = |json: Json| ask("envoy.config.cluster.v3.Cluster", &json, lacks_endpoints);
        let endpoints = json!({"clusterName": "a", "endpoints": [{}]});
        assert!(lacks(json!({"name": "a"})));
        assert!(lacks(json!({"name": "a", "type": "STRICT_DNS", "loadAssignment": {}})));
        assert!(!lacks(json!({"name": "a", "loadAssignment": endpoints})));
        assert!(!lacks(json!({"name": "a", "type": "EDS"})));
        assert!(!lacks(json!({"name": "a", "type": "ORIGINAL_DST"})));
        assert!(!lacks(json!({"name": "a", "clusterType": {"name": "aggregate"}})));
    }

    #[test]
    fn routes_lead_somewhere_if_a_host_has_one() {
        let name = "envoy.config.route.v3.RouteConfiguration";
        let lacks = |hosts: Json| ask(name, &json!({"virtualHosts": hosts}), lacks_routes);
        assert!(lacks(json!([])));
        assert!(lacks(json!([{"name": "a"}])));
        assert!(!lacks(json!([{"name": "a"}, {"name": "b", "routes": [{}]}])));
        assert!(!lacks(json!([{"name": "a", "matcher": {}}])));
        assert!(!ask(name, &json!({"vhds": {}}), lacks_routes), "they are asked for");
        assert!(ask("envoy.config.route.v3.VirtualHost", &json!({"name": "a"}), lacks_routes));
    }

    #[test]
    fn a_listener_is_unbound_if_it_says_so() {
        let unbound = |json: Json| ask("envoy.config.listener.v3.Listener", &json, is_unbound);
        assert!(unbound(json!({"name": "l", "bindToPort": false})));
        assert!(!unbound(json!({"name": "l", "bindToPort": true})));
        assert!(!unbound(json!({"name": "l"})));
        let over = |json: Json| ask("envoy.config.listener.v3.Listener", &json, hands_over);
        let kind = "t/envoy.extensions.filters.listener.original_dst.v3.OriginalDst";
        let filter = json!({"name": "o", "typedConfig": {"@type": kind}});
        assert!(over(json!({"name": "l", "useOriginalDst": true})));
        assert!(over(json!({"name": "l", "listenerFilters": [filter]})));
        assert!(!over(json!({"name": "l", "listenerFilters": [{"name": "other"}]})));
    }

    #[test]
    fn domains_are_those_of_all_hosts() {
        let json = json!({"virtualHosts": [{"domains": ["a", "b"]}, {"domains": ["b", "c"]}]});
        let all = |most| {
            let name = "envoy.config.route.v3.RouteConfiguration";
            let found = ask(name, &json, |schema, kind, body| domains(schema, kind, body, most));
            found.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(all(9), ["a", "b", "c"]);
        assert_eq!(all(2), ["a", "b"]);
    }

    #[test]
    fn all_that_answers_nothing_is_told() {
        let manager = json!({"@type": "t/envoy.extensions.filters.network.http_connection_manager.v3.\
                                       HttpConnectionManager", "routeConfig": {}});
        let chain = json!({"filterChainMatch": {"serverNames": ["a"]},
            "filters": [{"name": "http", "typedConfig": manager}]});
        let json = json!({"name": "l", "filterChains": [chain]});
        let found = ask("envoy.config.listener.v3.Listener", &json, unanswering);
        let codes: Vec<_> = found.iter().map(|it| it.code).collect();
        assert_eq!(codes, ["no-tls-inspector", "no-http-filter"]);
    }
}
