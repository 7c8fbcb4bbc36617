//! Listeners of clients, read and checked (C-092), and connection managers. Not here: listeners of servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_calls::filters::{FilterChain, FilterConfig};
use chancery_calls::routing::RouteConfig;
use chancery_client::ResourceType;
use chancery_core::client::ResourceKey;
use chancery_core::{ResourceName, TypeUrl};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::listener::v3 as lds;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use hcm::http_connection_manager::RouteSpecifier;
use prost::Message;

use super::fault::{At, Fault};
use super::filters::Side;
use super::routes::Routes;
use super::{filters, opened, quoted, routes, values};

/// The listener of a client, as far as calls depend on it.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) routes: RouteSource,
    /// The time that a call may take if its route says nothing; zero is no limit.
    pub(crate) max_stream_duration: Option<Duration>,
    pub(crate) filters: FilterChain,
}

/// The place where the routes of a listener are.
#[derive(Clone, Debug)]
pub(crate) enum RouteSource {
    /// In the listener.
    Inline(Arc<RouteConfig>),
    /// In a resource of this name.
    Rds(String),
}

impl Listener {
    /// Returns the resource that has the routes; `None` if the listener has them itself.
    pub(crate) fn routes_key(&self) -> Result<Option<ResourceKey>, String> {
        let RouteSource::Rds(name) = &self.routes else { return Ok(None) };
        let name = ResourceName::read(name).map_err(|error| error.to_string())?;
        Ok(Some((TypeUrl::new(Routes::TYPE_URL), name)))
    }
}

impl ResourceType for Listener {
    const TYPE_URL: &'static str = "envoy.config.listener.v3.Listener";

    fn decode(_: &str, body: &Bytes) -> Result<Self, String> {
        let listener: lds::Listener = Message::decode(body.clone()).map_err(|it| it.to_string())?;
        Ok(read(&listener)?)
    }
}

/// Reads a listener whose filters a channel has. A call must not go past one that the control plane asks for.
pub(super) fn connectable(name: &str, body: &Bytes) -> Result<Listener, String> {
    let listener = Listener::decode(name, body)?;
    let is_known = |config: &FilterConfig| {
        use FilterConfig::{Custom, Disabled, Faults, Router, Session};
        matches!(config, Router | Disabled | Faults(_) | Session(_) | Custom(_))
    };
    let others = listener.filters.filters().iter().filter(|it| !is_known(&it.config));
    match others.map(|it| it.config.kind()).next() {
        Some(kind) => Err(format!("http_filters: `{}` is not supported yet", quoted(kind))),
        None => Ok(listener),
    }
}

/// Reads the listener of a client.
fn read(listener: &lds::Listener) -> Result<Listener, Fault> {
    const EXPECTED: &str = "the listener of a client must hold an `HttpConnectionManager` of v3";
    const AT: &str = "api_listener.api_listener";
    let api = listener.api_listener.as_ref().and_then(|it| it.api_listener.as_ref());
    let manager = api.and_then(opened::<hcm::HttpConnectionManager>).ok_or(EXPECTED).at(AT)?;
    manager.map_err(Fault::from).and_then(|it| read_manager(&it, Side::Client)).at(AT)
}

/// Reads a connection manager, which servers have too.
pub(super) fn read_manager(
    manager: &hcm::HttpConnectionManager,
    side: Side,
) -> Result<Listener, Fault> {
    if manager.xff_num_trusted_hops != 0 {
        return Err("it must be 0").at("xff_num_trusted_hops");
    }
    if !manager.original_ip_detection_extensions.is_empty() {
        return Err("it must be empty").at("original_ip_detection_extensions");
    }
    let routes = match &manager.route_specifier {
        Some(RouteSpecifier::RouteConfig(config)) => {
            RouteSource::Inline(Arc::new(routes::read(config).at("route_config")?))
        }
        Some(RouteSpecifier::Rds(rds)) => RouteSource::Rds(route_name(rds).at("rds")?),
        Some(RouteSpecifier::ScopedRoutes(_)) | None => {
            return Err("it must be `rds` or `route_config`").at("route_specifier");
        }
    };
    let options = manager.common_http_protocol_options.as_ref();
    let limit = options.and_then(|it| it.max_stream_duration.as_ref());
    let limit = values::some_duration(limit);
    let max_stream_duration = limit.at("common_http_protocol_options.max_stream_duration")?;
    let filters = filters::chain(&manager.http_filters, side).at("http_filters")?;
    Ok(Listener { routes, max_stream_duration, filters })
}

fn route_name(rds: &hcm::Rds) -> Result<String, Fault> {
    use core::config_source::ConfigSourceSpecifier::{Ads, Self_};
    let source = rds.config_source.as_ref().and_then(|it| it.config_source_specifier.as_ref());
    if !matches!(source, Some(Ads(_) | Self_(_))) {
        return Err("it must be `ads` or `self`").at("config_source");
    }
    match rds.route_config_name.as_str() {
        "" => Err("it must be set").at("route_config_name"),
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::support::{any, fault_of, filter, read, router};
    use super::*;

    const MANAGER: &str =
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    const PATH: &str = "api_listener.api_listener";

    fn listener(manager: Value) -> Value {
        json!({"name": "l", "apiListener": {"apiListener": any(MANAGER, manager)}})
    }

    fn rds(source: Value) -> Value {
        json!({"routeConfigName": "r", "configSource": source})
    }

    /// Returns the reason for which a connection manager with a router and these fields is rejected.
    fn fault(fields: Value) -> String {
        let mut manager = json!({"httpFilters": [router()]});
        manager.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        fault_of::<Listener>(&listener(manager))
    }

    #[test]
    fn the_listener_of_a_client_holds_a_connection_manager() {
        // C-092
        let why =
            format!("{PATH}: the listener of a client must hold an `HttpConnectionManager` of v3");
        for listener in [
            json!({"name": "l"}),
            json!({"name": "l", "apiListener": {}}),
            json!({"name": "l", "apiListener": {"apiListener": any("config.cluster.v3.Cluster", json!({}))}}),
        ] {
            assert_eq!(fault_of::<Listener>(&listener), why);
        }
    }

    #[test]
    fn routes_are_inline_or_come_from_the_stream() {
        // C-092
        for source in ["ads", "self"] {
            let resource =
                listener(json!({"rds": rds(json!({source: {}})), "httpFilters": [router()]}));
            let read = read::<Listener>(&resource).unwrap();
            assert!(matches!(read.routes, RouteSource::Rds(name) if name == "r"));
        }
        let hosts = json!({"virtualHosts": [{"name": "v", "domains": ["*"]}]});
        let inline = listener(json!({"routeConfig": hosts, "httpFilters": [router()]}));
        let read = read::<Listener>(&inline).unwrap();
        assert!(matches!(read.routes, RouteSource::Inline(routes) if routes.hosts().len() == 1));
        let file = json!({"pathConfigSource": {"path": "/a"}});
        let scoped = json!({"name": "s", "scopeKeyBuilder": {"fragments": [{"headerValueExtractor": {"name": "h"}}]}});
        for (fields, path, expected) in [
            (json!({"rds": rds(file)}), "rds.config_source", "it must be `ads` or `self`"),
            (json!({"rds": rds(json!({}))}), "rds.config_source", "it must be `ads` or `self`"),
            (
                json!({"rds": {"configSource": {"ads": {}}}}),
                "rds.route_config_name",
                "it must be set",
            ),
            (
                json!({"scopedRoutes": scoped}),
                "route_specifier",
                "it must be `rds` or `route_config`",
            ),
            (json!({}), "route_specifier", "it must be `rds` or `route_config`"),
            (
                json!({"routeConfig": {"virtualHosts": [{"domains": [""]}]}}),
                "route_config.virtual_hosts[0].domains[0]",
                "a domain is empty",
            ),
        ] {
            assert_eq!(fault(fields), format!("{PATH}.{path}: {expected}"));
        }
    }

    #[test]
    fn addresses_of_clients_are_not_guessed() {
        // C-092
        let rds = rds(json!({"ads": {}}));
        let hops = fault(json!({"rds": rds, "xffNumTrustedHops": 1}));
        assert_eq!(hops, format!("{PATH}.xff_num_trusted_hops: it must be 0"));
        let extension = json!({"name": "a", "typedConfig":
            any("extensions.http.original_ip_detection.xff.v3.XffConfig", json!({}))});
        let detection = fault(json!({"rds": rds, "originalIpDetectionExtensions": [extension]}));
        assert_eq!(detection, format!("{PATH}.original_ip_detection_extensions: it must be empty"));
    }

    #[test]
    fn a_stream_has_the_limit_of_its_listener() {
        // C-102
        let limit = |duration: Value| {
            let options = json!({"maxStreamDuration": duration});
            let resource = listener(json!({"rds": rds(json!({"ads": {}})),
                "commonHttpProtocolOptions": options, "httpFilters": [router()]}));
            read::<Listener>(&resource).map(|it| it.max_stream_duration)
        };
        assert_eq!(limit(Value::Null), Ok(None));
        assert_eq!(limit(json!("0s")), Ok(Some(Duration::ZERO)));
        assert_eq!(limit(json!("1.5s")), Ok(Some(Duration::from_millis(1_500))));
        let negative = limit(json!("-1s")).unwrap_err();
        let field = "common_http_protocol_options.max_stream_duration";
        assert!(negative.starts_with(&format!("{PATH}.{field}: a duration must be")), "{negative}");
    }

    #[test]
    fn filters_end_with_the_router() {
        // C-093
        let rds = rds(json!({"ads": {}}));
        let filters = |filters: Value| fault(json!({"rds": rds, "httpFilters": filters}));
        let cors = filter("a", "cors.v3.Cors", json!({}));
        let mut optional = cors.clone();
        optional["isOptional"] = json!(true);
        assert_eq!(filters(json!([optional, router()])), "");
        for (list, expected) in [
            (json!([]), ": there are no HTTP filters"),
            (json!([optional]), ": there are no HTTP filters"),
            (
                json!([cors, router()]),
                ": the HTTP filter `a` is of the unknown type \
                 `type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors`",
            ),
            (
                json!([router(), router()]),
                ": two HTTP filters have the name `router`; \
                the HTTP filter `router` has to be the last one",
            ),
            (json!([{"name": ""}]), "[0].name: it must be set"),
        ] {
            assert_eq!(filters(list), format!("{PATH}.http_filters{expected}"));
        }
        let many = filters(json!(vec![router(); 1_000]));
        assert!(many.len() < 1_000 && many.ends_with("; and 1990 more"), "{many}");
    }
}
