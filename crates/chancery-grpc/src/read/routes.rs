//! Route configurations, read and checked (C-094 to C-098). Not here: the actions of routes.
//!
//! A part that gRPC does not know makes its route as if it were not there, or fails its calls, by its kind;
//! the others reject the resource.

use std::collections::BTreeMap;
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

/// The plugins of a resource by name, each with true if it is known.
pub(super) type Plugins<'m> = BTreeMap<&'m str, bool>;

/// Reads a route configuration.
pub(super) fn read(config: &rds::RouteConfiguration) -> Result<RouteConfig, Fault> {
    let plugins = plugins(&config.cluster_specifier_plugins)?;
    let hosts = config.virtual_hosts.iter().enumerate();
    let hosts = hosts.map(|(at, it)| host(it, &plugins).at(format_args!("virtual_hosts[{at}]")));
    Ok(RouteConfig::new(hosts.collect::<Result<_, _>>()?))
}

/// Reads the plugins. None is known here; one that has to be rejects the resource.
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
        plugins.insert(extension.map_or("", |it| &it.name), false);
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
    let fraction = fraction.map(|it| it.default_value.as_ref().cloned().unwrap_or_default());
    let fraction = fraction.as_ref().map(values::fraction).transpose();
    let fraction = fraction.at("runtime_fraction.default_value")?;
    Ok(RouteMatcher { path, headers, fraction })
}
