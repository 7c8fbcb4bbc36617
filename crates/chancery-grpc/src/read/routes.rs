//! Route configurations, read and checked (C-094 to C-098). Not here: the actions of routes.
//!
//! A part that gRPC does not know makes its route as if it were not there, or fails its calls, by its kind;
//! the others reject the resource.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use chancery_calls::routing::{
    Action, DomainPattern, IgnoredRoute, PathMatcher, Route, RouteConfig, RouteMatcher, VirtualHost,
};
use chancery_client::ResourceType;
use envoy_types::pb::envoy::config::route::v3 as rds;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;

use super::fault::{At, Fault};
use super::{actions, filters, matchers, quoted, values};

/// The routes of a resource, with `auto_host_rewrite` as it was written: a call asks whether the server
/// that it came from is trusted (C-105).
#[derive(Clone, Debug)]
pub(crate) struct Routes(pub(crate) Arc<RouteConfig>);

impl ResourceType for Routes {
    const TYPE_URL: &'static str = "envoy.config.route.v3.RouteConfiguration";

    fn decode(_: &str, body: &Bytes) -> Result<Self, String> {
        let config: rds::RouteConfiguration =
            Message::decode(body.clone()).map_err(|error| error.to_string())?;
        Ok(Self(Arc::new(read(&config)?)))
    }
}

/// The names of the plugins of a resource, which are optional: none is known here.
pub(super) type Plugins<'m> = BTreeSet<&'m str>;

/// Reads a route configuration.
pub(super) fn read(config: &rds::RouteConfiguration) -> Result<RouteConfig, Fault> {
    let plugins = plugins(&config.cluster_specifier_plugins)?;
    let hosts = config.virtual_hosts.iter().enumerate();
    let hosts = hosts.map(|(at, it)| host(it, &plugins).at(format_args!("virtual_hosts[{at}]")));
    Ok(RouteConfig::new(hosts.collect::<Result<_, _>>()?))
}

/// Reads the plugins. One that has to be known rejects the resource.
fn plugins(messages: &[rds::ClusterSpecifierPlugin]) -> Result<Plugins<'_>, Fault> {
    let mut plugins = Plugins::new();
    for (at, message) in messages.iter().enumerate() {
        let extension = message.extension.as_ref();
        if !message.is_optional {
            let none = Any::default();
            let config = extension.and_then(|it| it.typed_config.as_ref()).unwrap_or(&none);
            let type_url = quoted(&config.type_url);
            let why = format!("`{type_url}` is no known plugin, and not optional");
            return Err(why).at(format_args!("cluster_specifier_plugins[{at}]"));
        }
        plugins.insert(extension.map_or("", |it| &it.name));
    }
    Ok(plugins)
}

fn host(message: &rds::VirtualHost, plugins: &Plugins<'_>) -> Result<VirtualHost, Fault> {
    let domains = message.domains.iter().enumerate();
    let domains =
        domains.map(|(at, it)| DomainPattern::parse(it).at(format_args!("domains[{at}]")));
    let routes = message.routes.iter().enumerate();
    let routes = routes.map(|(at, it)| route(it, plugins).at(format_args!("routes[{at}]")));
    let retry = message.retry_policy.as_ref();
    Ok(VirtualHost {
        name: message.name.as_str().into(),
        domains: domains.collect::<Result<_, _>>()?,
        routes: routes.collect::<Result<_, _>>()?,
        retry: retry.map(actions::retry).transpose().at("retry_policy")?.map(Arc::new),
        overrides: filters::overrides(&message.typed_per_filter_config)?,
    })
}

fn route(message: &rds::Route, plugins: &Plugins<'_>) -> Result<Route, Fault> {
    let name = message.name.as_str();
    let conditions = message.r#match.as_ref().ok_or("it must be set").at("match")?;
    if !conditions.query_parameters.is_empty() {
        return Ok(ignored(name, IgnoredRoute::QueryParameters));
    }
    let matcher = matcher(conditions).at("match")?;
    let action = actions::read(message.action.as_ref(), plugins)?;
    if let Action::Ignored(reason) = action {
        return Ok(ignored(name, reason));
    }
    let overrides = filters::overrides(&message.typed_per_filter_config)?;
    Ok(Route { name: name.into(), matcher, action, overrides })
}

/// A route that is as if it were not there. Nothing else of it is read.
fn ignored(name: &str, reason: IgnoredRoute) -> Route {
    let path = PathMatcher::Prefix { prefix: "".into(), ignores_case: false };
    let matcher = RouteMatcher { path, headers: Arc::from([]), fraction: None };
    let action = Action::Ignored(reason);
    Route { name: name.into(), matcher, action, overrides: Default::default() }
}

fn matcher(message: &rds::RouteMatch) -> Result<RouteMatcher, Fault> {
    let path = matchers::path(message)?;
    let headers = message.headers.iter().enumerate();
    let headers = headers.map(|(at, it)| matchers::header(it).at(format_args!("headers[{at}]")));
    let headers = headers.collect::<Result<_, _>>()?;
    // The default value alone counts; one that is missing is 0 of 100.
    let fraction = message.runtime_fraction.as_ref();
    let fraction = fraction.map(|it| it.default_value.unwrap_or_default());
    let fraction = fraction.as_ref().map(values::fraction).transpose();
    let fraction = fraction.at("runtime_fraction.default_value")?;
    Ok(RouteMatcher { path, headers, fraction })
}

#[cfg(test)]
mod tests {
    use chancery_calls::routing::RouteTarget;
    use serde_json::{Value, json};

    use super::super::support::{any, fault_of, read};
    use super::*;

    fn config(route: Value) -> Value {
        json!({"name": "r", "virtualHosts": [{"name": "v", "domains": ["*"], "routes": [route]}]})
    }

    fn route_of(route: Value) -> Route {
        let routes = read::<Routes>(&config(route)).unwrap();
        routes.0.hosts()[0].routes[0].clone()
    }

    /// Returns the reason for which a route is rejected, from its own path on.
    fn fault(route: Value) -> String {
        let fault = fault_of::<Routes>(&config(route));
        let path = "virtual_hosts[0].routes[0].";
        fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault:?}")).to_owned()
    }

    /// A route to a cluster with these conditions.
    fn matching(conditions: Value) -> Value {
        json!({"match": conditions, "route": {"cluster": "c"}})
    }

    /// A route with this header as its condition.
    fn header(matcher: Value) -> Value {
        let mut header = matcher;
        header["name"] = json!("h");
        matching(json!({"prefix": "", "headers": [header]}))
    }

    fn told(route: Value) -> String {
        route_of(route).matcher.to_string()
    }

    #[test]
    fn a_resource_without_virtual_hosts_is_fine() {
        // C-094
        assert!(read::<Routes>(&json!({"name": "r"})).unwrap().0.hosts().is_empty());
    }

    #[test]
    fn domains_have_a_star_at_an_end_only() {
        // C-094
        let hosts = |domains: Value| {
            fault_of::<Routes>(&json!({"virtualHosts": [{"name": "v", "domains": domains}]}))
        };
        assert_eq!(hosts(json!(["a.b", "*.b", "a.*", "*"])), "");
        assert_eq!(
            hosts(json!(["a", "a*b"])),
            "virtual_hosts[0].domains[1]: the domain `a*b` has a `*` that is not at its end or beginning"
        );
    }

    #[test]
    fn paths_are_compared_in_three_ways() {
        // C-095
        for (conditions, expected) in [
            (json!({"prefix": ""}), "any path"),
            (json!({"prefix": "/a"}), "path begins with `/a`"),
            (json!({"path": "/a"}), "path is `/a`"),
            (json!({"path": "/a", "caseSensitive": true}), "path is `/a`"),
            (json!({"path": "/a", "caseSensitive": false}), "path is `/a` without its case"),
            (json!({"safeRegex": {"regex": "/a+"}}), "path matches `/a+`"),
        ] {
            assert_eq!(told(matching(conditions)), expected);
        }
        let missing = "match: the path must be a `prefix`, a `path` or a `safe_regex`";
        for conditions in
            [json!({}), json!({"connectMatcher": {}}), json!({"pathSeparatedPrefix": "/a"})]
        {
            assert_eq!(fault(matching(conditions)), missing);
        }
        assert_eq!(fault(json!({"route": {"cluster": "c"}})), "match: it must be set");
        let pattern = fault(matching(json!({"safeRegex": {"regex": "("}})));
        assert!(pattern.starts_with("match.safe_regex.regex: the pattern `(` cannot"), "{pattern}");
    }

    #[test]
    fn a_route_with_query_parameters_is_ignored_whatever_else_it_has() {
        // C-095
        let parameters = json!([{"name": "a", "presentMatch": true}]);
        let route = route_of(matching(json!({"queryParameters": parameters})));
        assert!(matches!(route.action, Action::Ignored(IgnoredRoute::QueryParameters)));
    }

    #[test]
    fn headers_are_compared_in_all_forms() {
        // C-096
        let string = |pattern: Value| json!({"stringMatch": pattern});
        for (matcher, expected) in [
            (json!({"exactMatch": "a"}), "is `a`"),
            (json!({"prefixMatch": "a"}), "begins with `a`"),
            (json!({"suffixMatch": "a"}), "ends with `a`"),
            (json!({"containsMatch": "a"}), "contains `a`"),
            (json!({"safeRegexMatch": {"regex": "a+"}}), "matches `a+`"),
            (json!({"rangeMatch": {"start": "-1", "end": "5"}}), "is a number from -1 to below 5"),
            (json!({"presentMatch": true}), "is present"),
            (json!({"presentMatch": false}), "is absent"),
            (json!({"presentMatch": true, "invertMatch": true}), "is absent"),
            (json!({"exactMatch": "a", "invertMatch": true}), "is `a`, inverted"),
            (string(json!({"exact": "a"})), "is `a`"),
            (string(json!({"exact": "a", "ignoreCase": true})), "is `a` without its case"),
            (string(json!({"prefix": "a"})), "begins with `a`"),
            (string(json!({"suffix": "a"})), "ends with `a`"),
            (string(json!({"contains": "a"})), "contains `a`"),
            (string(json!({"safeRegex": {"regex": "a+"}})), "matches `a+`"),
        ] {
            assert_eq!(told(header(matcher)), format!("any path, header `h` {expected}"));
        }
        for (matcher, expected) in [
            (
                json!({}),
                ": a header must be compared with something; `present_match: true` is for any",
            ),
            (string(json!({})), ".string_match: a text must be compared with something"),
            (
                string(
                    json!({"custom": {"name": "c", "typedConfig": any("config.cluster.v3.Cluster", json!({}))}}),
                ),
                ".string_match: `custom` is not supported",
            ),
            (json!({"prefixMatch": ""}), ".prefix_match: a `prefix` matcher has an empty text"),
            (
                string(json!({"contains": ""})),
                ".string_match.contains: a `contains` matcher has an empty text",
            ),
        ] {
            assert_eq!(fault(header(matcher)), format!("match.headers[0]{expected}"));
        }
        let pattern = fault(header(json!({"safeRegexMatch": {"regex": "("}})));
        let path = "match.headers[0].safe_regex_match.regex: ";
        assert!(pattern.starts_with(path), "{pattern}");
    }

    #[test]
    fn a_fraction_is_its_default_value() {
        // C-097
        let fraction =
            |fraction| told(matching(json!({"prefix": "", "runtimeFraction": fraction})));
        for (value, expected) in [
            (json!({"numerator": 5}), "5 of 100"),
            (json!({"numerator": 5, "denominator": "TEN_THOUSAND"}), "5 of 10000"),
            (json!({"numerator": 5, "denominator": "MILLION"}), "5 of 1000000"),
        ] {
            let told = fraction(json!({"defaultValue": value, "runtimeKey": "k"}));
            assert_eq!(told, format!("any path, {expected} calls"));
        }
        assert_eq!(fraction(json!({"runtimeKey": "k"})), "any path, 0 of 100 calls");
    }

    #[test]
    fn plugins_are_unknown_and_have_to_be_optional() {
        // C-098
        let routes = |is_optional: bool, plugin: &str| {
            let mut config = config(json!({"match": {"prefix": ""},
                "route": {"clusterSpecifierPlugin": plugin}}));
            let extension = any("config.cluster.v3.Cluster", json!({}));
            let extension = json!({"name": "p", "typedConfig": extension});
            config["clusterSpecifierPlugins"] =
                json!([{"extension": extension, "isOptional": is_optional}]);
            config
        };
        assert_eq!(
            fault_of::<Routes>(&routes(false, "p")),
            "cluster_specifier_plugins[0]: `type.googleapis.com/envoy.config.cluster.v3.Cluster` \
             is no known plugin, and not optional"
        );
        assert_eq!(
            fault_of::<Routes>(&routes(true, "q")),
            "virtual_hosts[0].routes[0].route.cluster_specifier_plugin: \
             `cluster_specifier_plugins` has none of the name `q`"
        );
        let read = read::<Routes>(&routes(true, "p")).unwrap();
        let action = &read.0.hosts()[0].routes[0].action;
        assert!(matches!(action, Action::Ignored(IgnoredRoute::UnknownPlugin)));
    }

    #[test]
    fn configurations_of_filters_are_known_or_optional() {
        // C-093
        let cors = any("extensions.filters.http.cors.v3.CorsPolicy", json!({}));
        let wrapper = |fields: Value| any("config.route.v3.FilterConfig", fields);
        let optional = wrapper(json!({"config": cors, "isOptional": true}));
        let unknown = "`type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy` is no \
                       known filter, and not optional";
        let weighted = |config: &Value| {
            let cluster = |name, weight, config| json!({"name": name, "weight": weight, "typedPerFilterConfig": {"f": config}});
            let clusters = [cluster("a", 1, &optional), cluster("b", 0, config)];
            json!({"match": {"prefix": ""}, "route": {"weightedClusters": {"clusters": clusters}}})
        };
        let of_route = |config: &Value| {
            let mut route = matching(json!({"prefix": ""}));
            route["typedPerFilterConfig"] = json!({"f": config});
            route
        };
        let field = "typed_per_filter_config[f]";
        assert_eq!(fault(of_route(&cors)), format!("{field}: {unknown}"));
        let required = wrapper(json!({"config": cors}));
        assert_eq!(fault(of_route(&required)), format!("{field}: {unknown}"));
        // A cluster is looked at although it has no weight yet.
        let of_cluster = format!("route.weighted_clusters.clusters[1].{field}: {unknown}");
        assert_eq!(fault(weighted(&cors)), of_cluster);
        let host = json!({"virtualHosts": [{"typedPerFilterConfig": {"f": cors}}]});
        assert_eq!(fault_of::<Routes>(&host), format!("virtual_hosts[0].{field}: {unknown}"));
        assert!(route_of(of_route(&optional)).overrides.is_empty());
        route_of(weighted(&optional));
        let off = route_of(of_route(&wrapper(json!({"disabled": true}))));
        assert_eq!(off.overrides.get("f").map(|config| config.kind()), Some("disabled"));
    }

    #[test]
    fn a_virtual_host_may_have_a_retry_policy() {
        // gRFC A44
        let host = |retries: u32| {
            let policy = json!({"retryOn": "unavailable", "numRetries": retries});
            json!({"virtualHosts": [{"domains": ["*"], "retryPolicy": policy}]})
        };
        let routes = read::<Routes>(&host(2)).unwrap();
        let attempts = routes.0.hosts()[0].retry.as_ref().map(|retry| retry.attempts());
        assert_eq!(attempts, Some(3));
        let why = "virtual_hosts[0].retry_policy: `num_retries` is 0, and has to be at least 1";
        assert_eq!(fault_of::<Routes>(&host(0)), why);
    }

    #[test]
    fn a_route_leads_to_its_cluster() {
        // C-098
        let Action::Forward(action) = route_of(matching(json!({"prefix": ""}))).action else {
            panic!("no way")
        };
        assert!(matches!(action.target, RouteTarget::Cluster(name) if &*name == "c"));
    }
}
