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
        Some(ClusterSpecifier::Cluster(name)) => RouteTarget::Cluster(name.as_str().into()),
        Some(ClusterSpecifier::WeightedClusters(clusters)) => {
            RouteTarget::Weighted(weighted(clusters).at("weighted_clusters")?)
        }
        Some(ClusterSpecifier::ClusterSpecifierPlugin(name)) => match plugins.get(name.as_str()) {
            Some(true) => RouteTarget::Plugin(name.as_str().into()),
            Some(false) => return Ok(Err(IgnoredRoute::UnknownPlugin)),
            None => {
                let name = quoted(name);
                let why = format!("`cluster_specifier_plugins` has none of the name `{name}`");
                return Err(why).at("cluster_specifier_plugin");
            }
        },
        _ => return Ok(Err(IgnoredRoute::ClusterSpecifier)),
    };
    Ok(Ok(target))
}

fn weighted(message: &rds::WeightedCluster) -> Result<WeightedClusters, Fault> {
    let mut clusters = Vec::new();
    for (at, cluster) in message.clusters.iter().enumerate() {
        let weight = cluster.weight.as_ref().map_or(0, |weight| weight.value);
        if weight == 0 {
            continue; // gRPC does not look at the rest of it.
        }
        let overrides = filters::overrides(&cluster.typed_per_filter_config);
        let overrides = overrides.at(format_args!("clusters[{at}]"))?;
        let name = cluster.name.as_str().into();
        clusters.push(WeightedCluster { name, weight, overrides });
    }
    Ok(WeightedClusters::new(clusters)?)
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
