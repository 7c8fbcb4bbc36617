//! Listeners of clients, read and checked (C-092). Not here: listeners of servers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_calls::filters::FilterChain;
use chancery_calls::routing::RouteConfig;
use chancery_client::ResourceType;
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::config::listener::v3 as lds;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use hcm::http_connection_manager::RouteSpecifier;
use prost::Message;

use super::fault::{At, Fault};
use super::{filters, opened, routes, values};

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

impl ResourceType for Listener {
    const TYPE_URL: &'static str = "envoy.config.listener.v3.Listener";

    fn decode(_: &str, body: &Bytes) -> Result<Self, String> {
        let listener: lds::Listener = Message::decode(body.clone()).map_err(|it| it.to_string())?;
        Ok(read(&listener)?)
    }
}

/// Reads the listener of a client.
fn read(listener: &lds::Listener) -> Result<Listener, Fault> {
    const EXPECTED: &str = "the listener of a client must hold an `HttpConnectionManager` of v3";
    const AT: &str = "api_listener.api_listener";
    let api = listener.api_listener.as_ref().and_then(|it| it.api_listener.as_ref());
    let manager = api.and_then(opened::<hcm::HttpConnectionManager>).ok_or(EXPECTED).at(AT)?;
    manager.map_err(Fault::from).and_then(|manager| read_manager(&manager)).at(AT)
}

fn read_manager(manager: &hcm::HttpConnectionManager) -> Result<Listener, Fault> {
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
    let filters = filters::chain(&manager.http_filters).at("http_filters")?;
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
