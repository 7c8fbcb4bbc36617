//! Resources of which an older Envoy does not know a part: that Envoy and `chancery check --for` agree
//! about which of them it takes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::bootstrap::{Bootstrap, Transport};
use crate::support::chancery::{Chancery, Directory};
use crate::support::clients::{RealClients, clients};
use crate::support::envoy::Envoy;
use crate::support::ports::Port;
use crate::support::wait;

/// A resource, and the code of what is found for Envoy 1.36.
struct Case {
    name: &'static str,
    resource: Value,
    found: Option<&'static str>,
}

fn cluster(name: &'static str, change: &Value, found: Option<&'static str>) -> Case {
    let resource = json!({
        "@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": name,
        "type": "STATIC", "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}}}]}]},
    });
    Case { name, resource: with(resource, change), found }
}

const EXTENSIONS: &str = "type.googleapis.com/envoy.extensions";

/// A listener whose connection manager has this filter before its router, and whose route has this
/// configuration of a filter.
fn listener(
    name: &'static str,
    (filter, of_route): (Option<Value>, Option<Value>),
    change: &Value,
    found: Option<&'static str>,
) -> Case {
    let router = json!({"name": "router", "typed_config":
        {"@type": format!("{EXTENSIONS}.filters.http.router.v3.Router")}});
    let filters: Vec<_> = filter.into_iter().chain([router]).collect();
    let mut route = json!({"match": {"prefix": "/"}, "direct_response": {"status": 200}});
    if let Some(config) = of_route {
        route["typed_per_filter_config"] = json!({"filter": config});
    }
    let manager = json!({
        "@type": format!(
            "{EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "s", "http_filters": filters,
        "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [route]}]},
    });
    let port = Port::reserve();
    let resource = json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener", "name": name,
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port.number()}},
        "filter_chains": [{"filters": [{"name": "manager", "typed_config": manager}]}],
    });
    Case { name, resource: with(resource, change), found }
}

/// A message with other fields.
fn with(mut message: Value, change: &Value) -> Value {
    for (field, value) in change.as_object().into_iter().flatten() {
        message[field] = value.clone();
    }
    message
}

fn policies(names: &[&str]) -> Value {
    let policies = names.iter().map(|name| {
        let url = format!("{EXTENSIONS}.load_balancing_policies.{name}");
        let inner = format!("{EXTENSIONS}.load_balancing_policies.round_robin.v3.RoundRobin");
        let mut config = json!({"@type": url});
        if url != inner {
            config["endpoint_picking_policy"] = json!({"policies": [{"typed_extension_config":
                {"name": "inner", "typed_config": {"@type": inner}}}]});
        }
        json!({"typed_extension_config": {"name": name, "typed_config": config}})
    });
    json!({"load_balancing_policy": {"policies": policies.collect::<Vec<_>>()}})
}

fn cases() -> Vec<Case> {
    let filter = |name: &str| {
        let url = format!("{EXTENSIONS}.filters.http.{name}");
        json!({"name": "filter", "typed_config": {"@type": url}})
    };
    let optional = |name: &str| with(filter(name), &json!({"is_optional": true}));
    let new = "body_size_limit.v3.BodySizeLimit";
    let config =
        json!({"@type": format!("{EXTENSIONS}.filters.http.transform.v3.TransformConfig")});
    let wrapped = |is_optional: bool| {
        json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
            "config": config, "is_optional": is_optional})
    };
    let nothing = json!({});
    let (of, none) = (|value: Value| (Some(value), None), (None, None));
    let per_route = |value: Value| (None, Some(value));
    let eyeballs = |family: &str| {
        json!({"upstream_connection_options":
            {"happy_eyeballs_config": {"first_address_family_version": family}}})
    };
    let processor = |mode: &str| {
        json!({"name": "filter", "typed_config": {
            "@type": format!("{EXTENSIONS}.filters.http.ext_proc.v3.ExternalProcessor"),
            "grpc_service": {"envoy_grpc": {"cluster_name": "c-known"}},
            "processing_mode": {"request_body_mode": mode, "request_trailer_mode": "SEND"}}})
    };
    let (field, oneof) = (Some("envoy-version/field"), Some("envoy-version/oneof"));
    let (value, of_type) = (Some("envoy-version/value"), Some("envoy-version/type"));
    vec![
        cluster("c-known", &nothing, None),
        cluster("c-field", &json!({"stats_matcher": {"reject_all": true}}), field),
        cluster(
            "c-health",
            &json!({"health_checks": [{"timeout": "1s", "interval": "1s", "name": "a",
            "healthy_threshold": 1, "unhealthy_threshold": 1, "tcp_health_check": {}}]}),
            field,
        ),
        cluster("c-known-value", &eyeballs("V4"), None),
        cluster("c-value", &eyeballs("PIPE"), field),
        cluster(
            "c-policies",
            &policies(&["load_aware_locality.v3.LoadAwareLocality", "round_robin.v3.RoundRobin"]),
            None,
        ),
        cluster(
            "c-policy",
            &policies(&["load_aware_locality.v3.LoadAwareLocality"]),
            Some("envoy-version/extension"),
        ),
        cluster("c-metadata", &json!({"metadata": {"typed_filter_metadata": {"a": config}}}), None),
        listener(
            "l-known",
            of(filter("buffer.v3.Buffer")),
            &nothing,
            Some("rule/message-required"),
        ),
        listener("l-field", none.clone(), &json!({"stats_matcher": {"reject_all": true}}), field),
        listener(
            "l-oneof",
            none,
            &json!({"connection_balance_config": {"cpu_locality_balance": {}}}),
            oneof,
        ),
        listener("l-type", of(filter(new)), &nothing, of_type),
        listener("l-value", of(processor("GRPC")), &nothing, value),
        listener("l-known-value", of(processor("STREAMED")), &nothing, None),
        listener("l-optional", of(optional(new)), &nothing, None),
        listener("l-route", per_route(config.clone()), &nothing, of_type),
        listener("l-route-wrapped", per_route(wrapped(false)), &nothing, of_type),
        listener("l-route-optional", per_route(wrapped(true)), &nothing, None),
    ]
}

/// The codes that `check` has for each resource, and its severity.
fn found(directory: &Directory, client: &str) -> BTreeMap<String, (String, String)> {
    let output = directory.check(&["--for", client, "-o", "json"]);
    let findings = output.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let own = |it: Value| (text(&it["resource_name"]), (text(&it["code"]), text(&it["severity"])));
    findings.map(own).collect()
}

/// The resources that an Envoy took, each of which it was given without the others: it refuses them
/// together.
fn taken(clients: &RealClients, version: &str, cases: &[Case]) -> BTreeSet<&'static str> {
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let directory = Directory::new(dir.path(), "config");
    directory.write("known.json", &cases[0].resource.to_string());
    directory.write("chancery.yaml", "gate: {messages: warn, loss: off, dangling: off}\n");
    let chancery = Chancery::serve(&directory);
    let bootstrap = Bootstrap::ads("GRPC").server("xds", chancery.port(), Transport::H2c);
    let mut envoy = Envoy::start(clients, version, dir.path(), &bootstrap, 0);
    envoy.is_live();
    let mut taken = BTreeSet::from([cases[0].name]);
    for Case { name, resource, .. } in &cases[1..] {
        let kind =
            if name.starts_with("c-") { "cluster_manager.cds" } else { "listener_manager.lds" };
        let judged = |word| envoy.stat(&format!("^{kind}.update_{word}$"));
        let before = [judged("success"), judged("rejected")];
        directory.write("case.json", &resource.to_string());
        let now = wait::until("Envoy to judge a resource", || {
            let now = [judged("success"), judged("rejected")];
            (now != before).then_some(now)
        });
        if now[1] == before[1] {
            taken.insert(name);
        }
    }
    taken
}

#[test]
fn an_envoy_takes_what_has_no_error_for_its_version() {
    // S-063
    let Some(clients) = clients() else { return };
    let cases = cases();
    let dir = tempfile::tempdir().expect("there is a temporary directory");
    let directory = Directory::new(dir.path(), "config");
    let all: Vec<_> = cases.iter().map(|case| &case.resource).collect();
    directory.write("all.json", &json!(all).to_string());
    for version in ["1.36.2", "1.40.0"] {
        let found = found(&directory, &format!("envoy={version}"));
        let taken = taken(&clients, version, &cases);
        for Case { name, found: expected, .. } in &cases {
            let known = found.get(*name);
            let is_error = known.is_some_and(|(_, severity)| severity == "error");
            assert_eq!(taken.contains(name), !is_error, "{version} {name}: {known:?}");
            let is_old = version == "1.36.2";
            let expected = expected.filter(|code| is_old || !code.starts_with("envoy-version"));
            assert_eq!(known.map(|(code, _)| code.as_str()), expected, "{version} {name}");
        }
    }
}
