//! The actions of routes, read and checked (C-098, C-102, C-104, C-105, C-148).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::matching::HeaderKey;
use chancery_calls::retrying::{RetryBackoff, RetryConditions, RetryPolicy};
use chancery_calls::routing::{
    Action, ForwardAction, HashPolicy, HashSource, IgnoredRoute, RouteTarget, StreamLimits,
    WeightedCluster, WeightedClusters,
};
use envoy_types::pb::envoy::config::route::v3 as rds;
use rds::route_action::hash_policy::PolicySpecifier;
use rds::route_action::{ClusterSpecifier, HostRewriteSpecifier};

use super::fault::{At, Fault};
use super::routes::Plugins;
use super::{filters, matchers, quoted, values};

/// The key of the state that stands for the channel of a call.
const CHANNEL_ID: &str = "io.grpc.channel_id";

/// Reads the action of a route.
pub(super) fn read(
    action: Option<&rds::route::Action>,
    plugins: &Plugins<'_>,
) -> Result<Action, Fault> {
    match action {
        Some(rds::route::Action::Route(action)) => forward(action, plugins).at("route"),
        Some(rds::route::Action::NonForwardingAction(_)) => Ok(Action::NonForwarding),
        _ => Ok(Action::Unsupported),
    }
}

fn forward(action: &rds::RouteAction, plugins: &Plugins<'_>) -> Result<Action, Fault> {
    let target = match target(action, plugins)? {
        Ok(target) => target,
        Err(reason) => return Ok(Action::Ignored(reason)),
    };
    let policies = action.hash_policy.iter().enumerate();
    let policies = policies.map(|(at, it)| hash_policy(it).at(format_args!("hash_policy[{at}]")));
    let rewrite = action.host_rewrite_specifier.as_ref();
    let rewrites_authority = matches!(
        rewrite, Some(HostRewriteSpecifier::AutoHostRewrite(flag)) if flag.value
    );
    let retry = action.retry_policy.as_ref();
    Ok(Action::Forward(ForwardAction {
        target,
        limits: limits(action.max_stream_duration.as_ref()).at("max_stream_duration")?,
        hash_policies: policies.collect::<Result<_, _>>()?,
        retry: retry.map(self::retry).transpose().at("retry_policy")?.map(Arc::new),
        rewrites_authority,
    }))
}

/// Reads where calls go; if nobody knows, the reason why the route is ignored.
fn target(
    action: &rds::RouteAction,
    plugins: &Plugins<'_>,
) -> Result<Result<RouteTarget, IgnoredRoute>, Fault> {
    let target = match &action.cluster_specifier {
        Some(ClusterSpecifier::Cluster(name)) => {
            RouteTarget::Cluster(cluster_name(name).at("cluster")?)
        }
        Some(ClusterSpecifier::WeightedClusters(clusters)) => {
            RouteTarget::Weighted(weighted(clusters).at("weighted_clusters")?)
        }
        Some(ClusterSpecifier::ClusterSpecifierPlugin(name)) => {
            if plugins.contains(name.as_str()) {
                return Ok(Err(IgnoredRoute::UnknownPlugin));
            }
            let name = quoted(name);
            let why = format!("`cluster_specifier_plugins` has none of the name `{name}`");
            return Err(why).at("cluster_specifier_plugin");
        }
        _ => return Ok(Err(IgnoredRoute::ClusterSpecifier)),
    };
    Ok(Ok(target))
}

fn weighted(message: &rds::WeightedCluster) -> Result<WeightedClusters, Fault> {
    let mut clusters = Vec::new();
    for (at, cluster) in message.clusters.iter().enumerate() {
        let cluster = weighted_cluster(cluster).at(format_args!("clusters[{at}]"))?;
        clusters.push(cluster);
    }
    Ok(WeightedClusters::new(clusters)?)
}

/// Reads a cluster, which is checked although it may have no weight yet.
fn weighted_cluster(
    message: &rds::weighted_cluster::ClusterWeight,
) -> Result<WeightedCluster, Fault> {
    Ok(WeightedCluster {
        name: cluster_name(&message.name).at("name")?,
        weight: message.weight.as_ref().map_or(0, |weight| weight.value),
        overrides: filters::overrides(&message.typed_per_filter_config)?,
    })
}

fn cluster_name(name: &str) -> Result<Arc<str>, Fault> {
    if name.is_empty() { Err("it must be set".into()) } else { Ok(name.into()) }
}

fn limits(message: Option<&rds::route_action::MaxStreamDuration>) -> Result<StreamLimits, Fault> {
    let Some(message) = message else { return Ok(StreamLimits::default()) };
    let header_max = values::some_duration(message.grpc_timeout_header_max.as_ref());
    let stream = values::some_duration(message.max_stream_duration.as_ref());
    Ok(StreamLimits {
        grpc_timeout_header_max: header_max.at("grpc_timeout_header_max")?,
        max_stream_duration: stream.at("max_stream_duration")?,
    })
}

fn hash_policy(message: &rds::route_action::HashPolicy) -> Result<HashPolicy, Fault> {
    let source = match &message.policy_specifier {
        Some(PolicySpecifier::Header(header)) => {
            let rewrite = header.regex_rewrite.as_ref().map(matchers::rewrite).transpose();
            let rewrite = rewrite.at("header.regex_rewrite")?;
            HashSource::Header { key: HeaderKey::new(&header.header_name), rewrite }
        }
        Some(PolicySpecifier::FilterState(state)) if state.key == CHANNEL_ID => {
            HashSource::ChannelId
        }
        _ => HashSource::Unsupported,
    };
    Ok(HashPolicy { source, is_terminal: message.terminal })
}

/// Reads a retry policy of a route or a virtual host.
pub(super) fn retry(message: &rds::RetryPolicy) -> Result<RetryPolicy, Fault> {
    let conditions = RetryConditions::parse(&message.retry_on);
    let retries = message.num_retries.as_ref().map(|it| it.value);
    let backoff = message.retry_back_off.as_ref().map(backoff).transpose();
    Ok(RetryPolicy::new(conditions, retries, backoff.at("retry_back_off")?)?)
}

fn backoff(message: &rds::retry_policy::RetryBackOff) -> Result<RetryBackoff, Fault> {
    let base = values::some_duration(message.base_interval.as_ref()).at("base_interval")?;
    let max = values::some_duration(message.max_interval.as_ref()).at("max_interval")?;
    // An interval that is missing is as wrong as one of zero.
    Ok(RetryBackoff { base: base.unwrap_or(Duration::ZERO), max })
}

#[cfg(test)]
mod tests {
    use chancery_calls::Code;
    use chancery_calls::matching::Rewrite;
    use serde_json::{Value, json};

    use super::super::routes::Routes;
    use super::super::support::{any, fault_of, read};
    use super::*;

    fn config(action: Value) -> Value {
        let mut route = action;
        route["match"] = json!({"prefix": ""});
        json!({"virtualHosts": [{"domains": ["*"], "routes": [route]}]})
    }

    fn action_of(action: Value) -> Action {
        let routes = read::<Routes>(&config(action)).unwrap();
        routes.0.hosts()[0].routes[0].action.clone()
    }

    /// Returns the action of a route to a cluster with these fields.
    fn forward_of(fields: Value) -> ForwardAction {
        match action_of(json!({"route": to_cluster(fields)})) {
            Action::Forward(action) => action,
            other => panic!("{other:?}"),
        }
    }

    fn to_cluster(fields: Value) -> Value {
        let mut route = fields;
        route["cluster"] = json!("c");
        route
    }

    /// Returns the reason for which the `route` of a route is rejected.
    fn fault(route: Value) -> String {
        let fault = fault_of::<Routes>(&config(json!({"route": route})));
        let path = "virtual_hosts[0].routes[0].route.";
        fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault:?}")).to_owned()
    }

    #[test]
    fn actions_that_forward_nothing_are_told_apart() {
        // C-098
        let fails = |action| matches!(action_of(action), Action::Unsupported);
        assert!(fails(json!({"redirect": {"hostRedirect": "a"}})));
        assert!(fails(json!({"directResponse": {"status": 200}})));
        assert!(fails(json!({"filterAction": {}})));
        assert!(fails(json!({})));
        let non_forwarding = action_of(json!({"nonForwardingAction": {}}));
        assert!(matches!(non_forwarding, Action::NonForwarding));
    }

    #[test]
    fn a_cluster_that_is_named_in_an_unknown_way_makes_the_route_ignored() {
        // C-098
        let plugin = any("config.cluster.v3.Cluster", json!({}));
        let inline = json!({"extension": {"name": "p", "typedConfig": plugin}});
        for route in [
            json!({"clusterHeader": "h"}),
            json!({"inlineClusterSpecifierPlugin": inline}),
            json!({}),
        ] {
            let action = action_of(json!({"route": route}));
            assert!(matches!(action, Action::Ignored(IgnoredRoute::ClusterSpecifier)));
        }
    }

    #[test]
    fn weights_add_up_to_more_than_zero_and_at_most_32_bits() {
        // C-098
        let weighted = |weights: &[Value]| {
            let cluster = |weight: &Value| json!({"name": "c", "weight": weight});
            json!({"weightedClusters": {"clusters": weights.iter().map(cluster).collect::<Vec<_>>()}})
        };
        let good = weighted(&[json!(0), Value::Null, json!(u32::MAX - 1), json!(1)]);
        let Action::Forward(action) = action_of(json!({"route": good})) else { panic!("no way") };
        let RouteTarget::Weighted(clusters) = action.target else { panic!("no weights") };
        assert_eq!((clusters.clusters().len(), clusters.total()), (2, u32::MAX));
        let zero =
            "weighted_clusters: the weights of the clusters add up to 0, and have to be more";
        for weights in [&[][..], &[Value::Null], &[json!(0), json!(0)]] {
            assert_eq!(fault(weighted(weights)), zero);
        }
        let large = fault(weighted(&[json!(u32::MAX), json!(1)]));
        assert!(large.starts_with("weighted_clusters: the weights of the clusters"), "{large}");
    }

    #[test]
    fn clusters_have_names() {
        // C-098
        assert_eq!(fault(json!({"cluster": ""})), "cluster: it must be set");
        let weighted = json!({"weightedClusters": {"clusters": [{"weight": 1}]}});
        assert_eq!(fault(weighted), "weighted_clusters.clusters[0].name: it must be set");
    }

    #[test]
    fn calls_have_the_limits_of_their_route() {
        // C-102: `timeout` is ignored.
        let limits = |fields| forward_of(fields).limits;
        assert_eq!(limits(json!({"timeout": "3s"})), StreamLimits::default());
        let both = json!({"maxStreamDuration":
            {"maxStreamDuration": "2s", "grpcTimeoutHeaderMax": "0s"}});
        assert_eq!(
            limits(both),
            StreamLimits {
                grpc_timeout_header_max: Some(Duration::ZERO),
                max_stream_duration: Some(Duration::from_secs(2)),
            }
        );
        for (key, field) in [
            ("maxStreamDuration", "max_stream_duration"),
            ("grpcTimeoutHeaderMax", "grpc_timeout_header_max"),
        ] {
            let fault = fault(to_cluster(json!({"maxStreamDuration": {key: "-1s"}})));
            let path = format!("max_stream_duration.{field}: a duration must be from 0");
            assert!(fault.starts_with(&path), "{fault}");
        }
    }

    #[test]
    fn calls_are_hashed_by_headers_and_channel() {
        // C-104
        let rewrite = json!({"pattern": {"regex": "a"}, "substitution": "b"});
        let policies = json!([
            {"header": {"headerName": "H"}, "terminal": true},
            {"header": {"headerName": "i", "regexRewrite": rewrite}},
            {"filterState": {"key": "io.grpc.channel_id"}},
            {"filterState": {"key": "other"}},
            {"cookie": {"name": "c"}},
            {"connectionProperties": {"sourceIp": true}},
            {"queryParameter": {"name": "q"}},
            {},
        ]);
        let read = forward_of(json!({"hashPolicy": policies})).hash_policies;
        let header = |name, rewrite| HashSource::Header { key: HeaderKey::new(name), rewrite };
        let mut expected = vec![
            HashPolicy { source: header("h", None), is_terminal: true },
            HashPolicy { source: header("i", Rewrite::new("a", "b").ok()), is_terminal: false },
            HashPolicy { source: HashSource::ChannelId, is_terminal: false },
        ];
        let unsupported = HashPolicy { source: HashSource::Unsupported, is_terminal: false };
        expected.extend(std::iter::repeat_n(unsupported, 5));
        assert_eq!(*read, expected);
        let bad = json!({"pattern": {"regex": "("}});
        let bad = json!([{"header": {"headerName": "i", "regexRewrite": bad}}]);
        let fault = fault(to_cluster(json!({"hashPolicy": bad})));
        assert!(fault.starts_with("hash_policy[0].header.regex_rewrite: the pattern"), "{fault}");
    }

    #[test]
    fn the_authority_is_rewritten_if_the_route_says_so() {
        // gRFC A81
        for (fields, expected) in [
            (json!({"autoHostRewrite": true}), true),
            (json!({"autoHostRewrite": false}), false),
            (json!({"hostRewriteLiteral": "a"}), false),
            (json!({}), false),
        ] {
            assert_eq!(forward_of(fields).rewrites_authority, expected);
        }
    }

    #[test]
    fn a_retry_policy_is_read_and_checked() {
        // gRFC A44
        let policy = |policy: Value| to_cluster(json!({"retryPolicy": policy}));
        let retry = |fields: Value| {
            forward_of(json!({"retryPolicy": fields})).retry.expect("a retry policy")
        };
        let read = retry(json!({"retryOn": "5xx,cancelled", "numRetries": 9}));
        assert_eq!(read.attempts(), 5);
        assert!(read.conditions().contain(Code::Cancelled));
        assert!(!read.conditions().contain(Code::Unavailable));
        assert!(retry(json!({})).conditions().is_empty());
        let max = json!({"baseInterval": "1s", "maxInterval": "2s"});
        let max = retry(json!({"retryBackOff": max}));
        assert_eq!(
            max,
            Arc::new(
                RetryPolicy::new(
                    RetryConditions::parse(""),
                    None,
                    Some(RetryBackoff {
                        base: Duration::from_secs(1),
                        max: Some(Duration::from_secs(2))
                    }),
                )
                .unwrap()
            )
        );
        for (fields, expected) in [
            (
                json!({"numRetries": 0}),
                "retry_policy: `num_retries` is 0, and has to be at least 1",
            ),
            (json!({"retryBackOff": {}}), "retry_policy: `base_interval` has to be above zero"),
            (
                json!({"retryBackOff": {"baseInterval": "0s"}}),
                "retry_policy: `base_interval` has to be above zero",
            ),
            (
                json!({"retryBackOff": {"baseInterval": "1s", "maxInterval": "0s"}}),
                "retry_policy: `max_interval` has to be above zero",
            ),
            (
                json!({"retryBackOff": {"baseInterval": "2s", "maxInterval": "1s"}}),
                "retry_policy: `max_interval` is 1s, which is less than `base_interval`, 2s",
            ),
            (
                json!({"retryBackOff": {"baseInterval": "-1s"}}),
                "retry_policy.retry_back_off.base_interval: a duration must be from 0 to \
                 315576000000 seconds",
            ),
        ] {
            assert_eq!(fault(policy(fields)), expected);
        }
    }
}
