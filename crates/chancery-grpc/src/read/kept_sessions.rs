//! The endpoints of a cluster that sessions stay with, and the time for which these are connected (C-106; gRFCs A55,
//! A75). Not here: the cookies of sessions (`filters::sessions`).

use std::time::Duration;

use chancery_calls::balancing::SessionHealth;
use envoy_types::pb::envoy::config::cluster::v3 as cds;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;

use super::fault::{At, Fault};
use super::{opened, values};

/// The settings of a cluster for sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptSessions {
    /// The health that an endpoint may have.
    pub(crate) health: SessionHealth,
    /// The time for which an endpoint is connected after the last call of a session.
    pub(crate) idle_timeout: Duration,
}

impl Default for KeptSessions {
    fn default() -> Self {
        Self { health: SessionHealth::default(), idle_timeout: Duration::from_secs(60 * 60) }
    }
}

/// Reads the settings of a cluster.
pub(super) fn read(cluster: &cds::Cluster) -> Result<KeptSessions, Fault> {
    let default = KeptSessions::default();
    let idle_timeout = idle_timeout(cluster).at("upstream_config.typed_config")?;
    let statuses =
        cluster.common_lb_config.as_ref().and_then(|it| it.override_host_status.as_ref());
    // Those that gRPC does not have are ignored (gRFC A55).
    let health = statuses.map(|set| set.statuses().filter_map(values::health).collect());
    Ok(KeptSessions {
        health: health.unwrap_or(default.health),
        idle_timeout: idle_timeout.unwrap_or(default.idle_timeout),
    })
}

fn idle_timeout(cluster: &cds::Cluster) -> Result<Option<Duration>, Fault> {
    let Some(config) = &cluster.upstream_config else { return Ok(None) };
    let options = config.typed_config.as_ref().and_then(opened::<HttpProtocolOptions>);
    let options = options.ok_or("it must be an `HttpProtocolOptions`")??;
    let common = options.common_http_protocol_options;
    let timeout = common.as_ref().and_then(|common| common.idle_timeout.as_ref());
    values::some_duration(timeout).at("common_http_protocol_options.idle_timeout")
}

#[cfg(test)]
mod tests {
    use chancery_calls::balancing::Health;
    use serde_json::{Value, json};

    use super::super::clusters::Cluster;
    use super::super::support::{any, fault_of, read};
    use super::*;

    fn cluster(field: &str, value: Value) -> Value {
        json!({"type": "EDS", "edsClusterConfig": {"edsConfig": {"ads": {}}}, field: value})
    }

    #[test]
    fn the_health_of_endpoints_that_keep_sessions_is_listed() {
        // C-106
        let health = |config: Value| {
            let cluster = read::<Cluster>(&cluster("commonLbConfig", config)).unwrap();
            let health = cluster.sessions.health;
            [Health::Unknown, Health::Healthy, Health::Draining].map(|it| health.allows(it))
        };
        let listed = |statuses: Value| health(json!({"overrideHostStatus": statuses}));
        assert_eq!(health(json!({})), [true, true, false]);
        assert_eq!(listed(json!({})), [false; 3], "an empty list is none");
        let all = json!({"statuses": ["HEALTHY", "DRAINING", "DEGRADED", "UNHEALTHY"]});
        assert_eq!(listed(all), [false, true, true]);
        assert_eq!(listed(json!({"statuses": ["UNKNOWN"]})), [true, false, false]);
    }

    #[test]
    fn connections_of_sessions_are_kept_for_the_idle_timeout() {
        // C-106
        const OPTIONS: &str = "extensions.upstreams.http.v3.HttpProtocolOptions";
        let config = |config: Value| {
            cluster("upstreamConfig", json!({"name": "http", "typedConfig": config}))
        };
        let timeout = |common: Value| {
            let http =
                json!({"useDownstreamProtocolConfig": {}, "commonHttpProtocolOptions": common});
            read::<Cluster>(&config(any(OPTIONS, http))).map(|it| it.sessions.idle_timeout)
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(timeout(Value::Null), Ok(hour));
        assert_eq!(timeout(json!({})), Ok(hour));
        assert_eq!(timeout(json!({"idleTimeout": "1.5s"})), Ok(Duration::from_millis(1_500)));
        let at = "upstream_config.typed_config";
        let negative = timeout(json!({"idleTimeout": "-1s"})).unwrap_err();
        let field = format!("{at}.common_http_protocol_options.idle_timeout: a duration must be");
        assert!(negative.starts_with(&field), "{negative}");
        let other = fault_of::<Cluster>(&config(any("config.cluster.v3.Cluster", json!({}))));
        assert_eq!(other, format!("{at}: it must be an `HttpProtocolOptions`"));
    }
}
