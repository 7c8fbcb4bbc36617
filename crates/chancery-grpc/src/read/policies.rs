//! The policy of a cluster (C-112 to C-117): the first of its list that is known, or the older field.

use std::num::NonZeroU32;
use std::sync::Arc;

use cds::cluster::{LbConfig, LbPolicy};
use chancery_calls::balancing::{
    ChoiceCount, CustomPolicies, ErrorPenalty, PolicyConfig, RingHashConfig, UtilizationMetrics,
    WeightedRoundRobinConfig,
};
use envoy_types::pb::envoy::config::cluster::v3 as cds;
use envoy_types::pb::envoy::extensions::load_balancing_policies as policies;
use envoy_types::pb::google::protobuf::{Any, UInt32Value, UInt64Value};
use policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin;
use policies::least_request::v3::LeastRequest;
use policies::pick_first::v3::PickFirst;
use policies::random_subsetting::v3::RandomSubsetting;
use policies::ring_hash::v3::RingHash;
use policies::ring_hash::v3::ring_hash::HashFunction;
use policies::round_robin::v3::RoundRobin;
use policies::wrr_locality::v3::WrrLocality;

use super::fault::{At, Fault};
use super::typed_struct::TypedStruct;
use super::{json_policies, opened, quoted, values};

/// The depth to which policies may stand in each other.
const MAX_DEPTH: usize = 16;

/// The reader of a policy that is known.
type Read = Result<PolicyConfig, Fault>;

/// Reads the policy of a cluster.
pub(super) fn read(cluster: &cds::Cluster, custom: &CustomPolicies) -> Read {
    match &cluster.load_balancing_policy {
        Some(policy) => Place { depth: 1, custom }.first_known(policy).at("load_balancing_policy"),
        None => older(cluster),
    }
}

/// Reads the older field, which has fewer policies.
fn older(cluster: &cds::Cluster) -> Read {
    let in_localities = |policy| PolicyConfig::WrrLocality(Arc::new(policy));
    match LbPolicy::try_from(cluster.lb_policy) {
        Ok(LbPolicy::RoundRobin) => Ok(in_localities(PolicyConfig::RoundRobin)),
        Ok(LbPolicy::LeastRequest) => {
            let count = match &cluster.lb_config {
                Some(LbConfig::LeastRequestLbConfig(config)) => config.choice_count.as_ref(),
                _ => None,
            };
            Ok(in_localities(least_request(count).at("least_request_lb_config")?))
        }
        Ok(LbPolicy::RingHash) => match &cluster.lb_config {
            Some(LbConfig::RingHashLbConfig(config)) => older_ring(config),
            _ => Ok(PolicyConfig::RingHash(RingHashConfig::default())),
        }
        .at("ring_hash_lb_config"),
        _ => Err("it must be `ROUND_ROBIN`, `LEAST_REQUEST` or `RING_HASH`").at("lb_policy"),
    }
}

fn older_ring(config: &cds::cluster::RingHashLbConfig) -> Read {
    use cds::cluster::ring_hash_lb_config::HashFunction;
    if HashFunction::try_from(config.hash_function) != Ok(HashFunction::XxHash) {
        return Err("it must be `XX_HASH`").at("hash_function");
    }
    ring(config.minimum_ring_size.as_ref(), config.maximum_ring_size.as_ref())
}

/// The place of a policy among others.
#[derive(Clone, Copy)]
struct Place<'a> {
    depth: usize,
    /// The policies that the program has added.
    custom: &'a CustomPolicies,
}

impl Place<'_> {
    /// Reads the first policy of a list that is known. It counts even if it is not valid.
    fn first_known(self, policy: &cds::LoadBalancingPolicy) -> Read {
        if self.depth > MAX_DEPTH {
            return Err(format!("policies stand in each other more than {MAX_DEPTH} deep").into());
        }
        let configs = policy.policies.iter().enumerate().filter_map(|(at, it)| {
            let config = it.typed_extension_config.as_ref()?.typed_config.as_ref()?;
            Some((at, config))
        });
        for (at, config) in configs.clone() {
            if let Some(known) = self.known(config) {
                let path = format_args!("policies[{at}].typed_extension_config.typed_config");
                return known.at(path);
            }
        }
        let names: Vec<_> = configs.map(|(_, config)| name_of(config)).take(8).collect();
        Err(match names.is_empty() {
            true => "`policies` must have one that gRPC knows, and is empty".into(),
            false => format!("none of the policies is known: {}", names.join(", ")).into(),
        })
    }

    /// Reads a policy, if it is one that is known.
    fn known(self, config: &Any) -> Option<Read> {
        if let Some(config) = opened::<RoundRobin>(config) {
            return Some(config.map(|_| PolicyConfig::RoundRobin).map_err(Fault::from));
        }
        if let Some(config) = opened::<PickFirst>(config) {
            let read = |it: PickFirst| PolicyConfig::PickFirst { shuffle: it.shuffle_address_list };
            return Some(config.map(read).map_err(Fault::from));
        }
        if let Some(config) = opened::<LeastRequest>(config) {
            let config = config.map_err(Fault::from);
            return Some(config.and_then(|it| least_request(it.choice_count.as_ref())));
        }
        if let Some(config) = opened::<RingHash>(config) {
            return Some(config.map_err(Fault::from).and_then(|config| ring_hash(&config)));
        }
        if let Some(config) = opened::<ClientSideWeightedRoundRobin>(config) {
            return Some(config.map_err(Fault::from).and_then(|config| by_reports(&config)));
        }
        if let Some(config) = opened::<RandomSubsetting>(config) {
            return Some(config.map_err(Fault::from).and_then(|config| self.subset(&config)));
        }
        if let Some(config) = opened::<WrrLocality>(config) {
            return Some(config.map_err(Fault::from).and_then(|config| self.localities(&config)));
        }
        self.custom(TypedStruct::opened(config)?)
    }

    fn localities(self, config: &WrrLocality) -> Read {
        let child = self.child(config.endpoint_picking_policy.as_ref());
        Ok(PolicyConfig::WrrLocality(child.at("endpoint_picking_policy")?))
    }

    fn subset(self, config: &RandomSubsetting) -> Read {
        let size = config.subset_size.as_ref().and_then(|it| NonZeroU32::new(it.value));
        let size = size.ok_or("it must be at least 1").at("subset_size")?;
        let child = self.child(config.child_policy.as_ref()).at("child_policy")?;
        Ok(PolicyConfig::RandomSubsetting { size, child })
    }

    fn child(self, policy: Option<&cds::LoadBalancingPolicy>) -> Result<Arc<PolicyConfig>, Fault> {
        let policy = policy.ok_or("it must be set")?;
        let within = Self { depth: self.depth + 1, ..self };
        within.first_known(policy).map(Arc::new)
    }

    /// Reads a policy that the program has added, or else one of gRPC, if there is one of this name.
    fn custom(self, config: Result<TypedStruct, String>) -> Option<Read> {
        let config = match config {
            Ok(config) => config,
            Err(fault) => return Some(Err(fault.into())),
        };
        let fields = config.fields();
        let Some(read) = self.custom.read(config.name(), &fields.to_string()) else {
            return json_policies::read(config.name(), &fields).map(|read| read.at("value"));
        };
        Some(read.map_err(|fault| Fault::from(quoted(&fault).into_owned())))
    }
}

/// Returns the name of a policy for people: that of the type which a struct stands for, and not that of the struct.
fn name_of(config: &Any) -> String {
    match TypedStruct::opened(config) {
        Some(Ok(inner)) => format!("{} (in a `TypedStruct`)", quoted(&inner.type_url)),
        _ => quoted(&config.type_url).into_owned(),
    }
}

fn least_request(count: Option<&UInt32Value>) -> Read {
    let count = count.map(|it| ChoiceCount::new(it.value).ok_or("it must be at least 2"));
    let count = count.transpose().at("choice_count")?.unwrap_or_default();
    Ok(PolicyConfig::LeastRequest(count))
}

fn ring_hash(config: &RingHash) -> Read {
    match HashFunction::try_from(config.hash_function) {
        // The default hash is this one. Go and Java want it to be named, the C core does not.
        Ok(HashFunction::XxHash | HashFunction::DefaultHash) => {
            ring(config.minimum_ring_size.as_ref(), config.maximum_ring_size.as_ref())
        }
        _ => Err("it must be `XX_HASH`").at("hash_function"),
    }
}

fn ring(min: Option<&UInt64Value>, max: Option<&UInt64Value>) -> Read {
    let config = RingHashConfig::new(min.map(|it| it.value), max.map(|it| it.value));
    Ok(PolicyConfig::RingHash(config.map_err(|error| error.to_string())?))
}

/// Reads `weighted_round_robin`, whose weights are from the reports of endpoints.
fn by_reports(config: &ClientSideWeightedRoundRobin) -> Read {
    let default = WeightedRoundRobinConfig::default();
    let period = |message, field| values::some_duration(message).at(field);
    let reporting = period(config.oob_reporting_period.as_ref(), "oob_reporting_period")?;
    let blackout = period(config.blackout_period.as_ref(), "blackout_period")?;
    let expiration = period(config.weight_expiration_period.as_ref(), "weight_expiration_period")?;
    let update = period(config.weight_update_period.as_ref(), "weight_update_period")?;
    let penalty = config.error_utilization_penalty.as_ref();
    let penalty =
        penalty.map(|it| ErrorPenalty::new(it.value.into()).ok_or("it must be at least 0"));
    let penalty = penalty.transpose().at("error_utilization_penalty")?;
    let is_out_of_band = config.enable_oob_load_report.as_ref().is_some_and(|it| it.value);
    Ok(PolicyConfig::WeightedRoundRobin(Arc::new(WeightedRoundRobinConfig {
        out_of_band: is_out_of_band.then(|| reporting.unwrap_or(DEFAULT_REPORTING)),
        blackout_period: blackout.unwrap_or(default.blackout_period),
        weight_expiration_period: expiration.unwrap_or(default.weight_expiration_period),
        weight_update_period: update.unwrap_or(default.weight_update_period),
        error_utilization_penalty: penalty.unwrap_or(default.error_utilization_penalty),
        metrics: UtilizationMetrics::new(&config.metric_names_for_computing_utilization),
    })))
}

/// The time between two reports that are not asked for, by gRFC A58.
const DEFAULT_REPORTING: std::time::Duration = std::time::Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::clusters::Cluster;
    use chancery_calls::balancing::{Balancer, PolicyFactory};

    use super::super::support::{any, fault_of, message, read};
    use super::*;

    fn cluster(fields: Value) -> Value {
        let mut cluster = fields;
        cluster["type"] = json!("EDS");
        cluster["edsClusterConfig"] = json!({"edsConfig": {"ads": {}}});
        cluster
    }

    fn of(fields: Value) -> PolicyConfig {
        read::<Cluster>(&cluster(fields)).unwrap().policy
    }

    fn fault(fields: Value) -> String {
        fault_of::<Cluster>(&cluster(fields))
    }

    /// A list of policies, which are given by the ends of their types.
    fn list(policies: &[(&str, Value)]) -> Value {
        let policy = |(kind, fields): &(&str, Value)| {
            let config = any(&format!("extensions.load_balancing_policies.{kind}"), fields.clone());
            json!({"typedExtensionConfig": {"name": "p", "typedConfig": config}})
        };
        json!({"policies": policies.iter().map(policy).collect::<Vec<_>>()})
    }

    /// A cluster with one policy.
    fn one(kind: &str, fields: Value) -> Value {
        json!({"loadBalancingPolicy": list(&[(kind, fields)])})
    }

    /// Returns the reason for which the one policy of a cluster is rejected.
    fn fault_in(kind: &str, fields: Value) -> String {
        let fault = fault(one(kind, fields));
        let path = "load_balancing_policy.policies[0].typed_extension_config.typed_config";
        fault.strip_prefix(path).unwrap_or_else(|| panic!("{fault}")).to_owned()
    }

    const ROUND_ROBIN: &str = "round_robin.v3.RoundRobin";
    const RING_HASH: &str = "ring_hash.v3.RingHash";
    const WRR: &str = "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin";

    #[test]
    fn the_first_policy_that_is_known_counts() {
        // C-112
        let unknown = ("maglev.v3.Maglev", json!({}));
        let shuffled = json!({"shuffleAddressList": true});
        let policies =
            [unknown.clone(), ("pick_first.v3.PickFirst", shuffled), (ROUND_ROBIN, json!({}))];
        let both = json!({"loadBalancingPolicy": list(&policies), "lbPolicy": "MAGLEV"});
        assert_eq!(of(both), PolicyConfig::PickFirst { shuffle: true });
        let alone = fault(json!({"loadBalancingPolicy": list(&[unknown])}));
        assert_eq!(
            alone,
            "load_balancing_policy: none of the policies is known: \
             type.googleapis.com/envoy.extensions.load_balancing_policies.maglev.v3.Maglev"
        );
        let none = "load_balancing_policy: `policies` must have one that gRPC knows, and is empty";
        assert_eq!(fault(json!({"loadBalancingPolicy": {}})), none);
        // One that is known and not valid is no reason to look for another.
        let policies = [
            ("least_request.v3.LeastRequest", json!({"choiceCount": 1})),
            (ROUND_ROBIN, json!({})),
        ];
        let invalid = fault(json!({"loadBalancingPolicy": list(&policies)}));
        assert!(invalid.ends_with("typed_config.choice_count: it must be at least 2"), "{invalid}");
    }

    #[test]
    fn policies_stand_in_each_other_up_to_sixteen_deep() {
        // C-112
        let nested = |depth: usize| {
            let mut policy = list(&[(ROUND_ROBIN, json!({}))]);
            for _ in 1..depth {
                let outer = json!({"endpointPickingPolicy": policy});
                policy = list(&[("wrr_locality.v3.WrrLocality", outer)]);
            }
            json!({"loadBalancingPolicy": policy})
        };
        let mut expected = PolicyConfig::RoundRobin;
        for _ in 1..16 {
            expected = PolicyConfig::WrrLocality(Arc::new(expected));
        }
        assert_eq!(of(nested(16)), expected);
        let deep = fault(nested(17));
        assert!(deep.ends_with(": policies stand in each other more than 16 deep"), "{deep}");
        let missing = fault_in("wrr_locality.v3.WrrLocality", json!({}));
        assert_eq!(missing, ".endpoint_picking_policy: it must be set");
    }

    #[test]
    fn the_older_field_has_three_policies() {
        // C-112, C-114, C-115
        let in_localities = |policy| PolicyConfig::WrrLocality(Arc::new(policy));
        assert_eq!(of(json!({})), in_localities(PolicyConfig::RoundRobin));
        let least = |fields: Value| {
            of(json!({"lbPolicy": "LEAST_REQUEST", "leastRequestLbConfig": fields}))
        };
        let count =
            |count| in_localities(PolicyConfig::LeastRequest(ChoiceCount::new(count).unwrap()));
        assert_eq!(least(json!({})), count(2));
        assert_eq!(least(json!({"choiceCount": 3})), count(3));
        assert_eq!(of(json!({"lbPolicy": "LEAST_REQUEST"})), count(2));
        let ring = |fields: Value| json!({"lbPolicy": "RING_HASH", "ringHashLbConfig": fields});
        let sizes = json!({"minimumRingSize": 5, "maximumRingSize": 7});
        let expected = PolicyConfig::RingHash(RingHashConfig::new(Some(5), Some(7)).unwrap());
        assert_eq!(of(ring(sizes)), expected);
        let default = PolicyConfig::RingHash(RingHashConfig::default());
        assert_eq!(of(json!({"lbPolicy": "RING_HASH"})), default);
        for (fields, expected) in [
            (
                json!({"lbPolicy": "MAGLEV"}),
                "lb_policy: it must be `ROUND_ROBIN`, `LEAST_REQUEST` or `RING_HASH`",
            ),
            (
                json!({"lbPolicy": "LEAST_REQUEST", "leastRequestLbConfig": {"choiceCount": 1}}),
                "least_request_lb_config.choice_count: it must be at least 2",
            ),
            (
                ring(json!({"hashFunction": "MURMUR_HASH_2"})),
                "ring_hash_lb_config.hash_function: it must be `XX_HASH`",
            ),
            (
                ring(json!({"minimumRingSize": 8, "maximumRingSize": 7})),
                "ring_hash_lb_config: minimum ring size 8 is greater than the maximum, 7",
            ),
        ] {
            assert_eq!(fault(fields), expected);
        }
    }

    #[test]
    fn rings_have_sizes_up_to_8m_and_one_hash() {
        // C-114
        let sizes =
            json!({"minimumRingSize": 5, "maximumRingSize": 8 << 20, "hashFunction": "XX_HASH"});
        let expected = RingHashConfig::new(Some(5), Some(8 << 20)).unwrap();
        assert_eq!(of(one(RING_HASH, sizes)), PolicyConfig::RingHash(expected));
        let large = fault_in(RING_HASH, json!({"maximumRingSize": (8 << 20) + 1}));
        assert_eq!(large, ": ring size 8388609 is greater than 8388608");
        let murmur = fault_in(RING_HASH, json!({"hashFunction": "MURMUR_HASH_2"}));
        assert_eq!(murmur, ".hash_function: it must be `XX_HASH`");
    }

    #[test]
    fn the_fewest_calls_are_looked_for_among_two_or_more() {
        // C-115
        const KIND: &str = "least_request.v3.LeastRequest";
        let expected = |count| PolicyConfig::LeastRequest(ChoiceCount::new(count).unwrap());
        assert_eq!(of(one(KIND, json!({}))), expected(2));
        assert_eq!(of(one(KIND, json!({"choiceCount": 11}))), expected(10));
        assert_eq!(
            fault_in(KIND, json!({"choiceCount": 1})),
            ".choice_count: it must be at least 2"
        );
    }

    #[test]
    fn weights_by_reports_have_defaults_and_bounds() {
        // C-116
        let policy = |fields: Value| match of(one(WRR, fields)) {
            PolicyConfig::WeightedRoundRobin(config) => WeightedRoundRobinConfig::clone(&config),
            other => panic!("{other:?}"),
        };
        assert_eq!(policy(json!({})), WeightedRoundRobinConfig::default());
        assert_eq!(
            policy(json!({
                "enableOobLoadReport": true, "oobReportingPeriod": "1s", "blackoutPeriod": "2s",
                "weightExpirationPeriod": "3s", "weightUpdatePeriod": "4s",
                "errorUtilizationPenalty": 0.5,
                "metricNamesForComputingUtilization": ["named_metrics.queue"],
            })),
            WeightedRoundRobinConfig {
                out_of_band: Some(Duration::from_secs(1)),
                blackout_period: Duration::from_secs(2),
                weight_expiration_period: Duration::from_secs(3),
                weight_update_period: Duration::from_secs(4),
                error_utilization_penalty: ErrorPenalty::new(0.5).unwrap(),
                metrics: UtilizationMetrics::new(["named_metrics.queue"]),
            }
        );
        let out_of_band = policy(json!({"enableOobLoadReport": true})).out_of_band;
        assert_eq!(out_of_band, Some(Duration::from_secs(10)));
        assert_eq!(policy(json!({"oobReportingPeriod": "1s"})).out_of_band, None);
        let penalty = fault_in(WRR, json!({"errorUtilizationPenalty": -0.5}));
        assert_eq!(penalty, ".error_utilization_penalty: it must be at least 0");
        let period = fault_in(WRR, json!({"blackoutPeriod": "-1s"}));
        assert!(period.starts_with(".blackout_period: a duration must be"), "{period}");
    }

    #[test]
    fn a_program_adds_policies_by_their_names() {
        // C-112
        #[derive(Debug)]
        struct ByShard;

        impl PolicyFactory for ByShard {
            fn name(&self) -> &str {
                "orders.ByShard"
            }

            fn read(&self, json: &str) -> Result<Arc<dyn std::any::Any + Send + Sync>, String> {
                let config: Value = serde_json::from_str(json).map_err(|it| it.to_string())?;
                let shards = config["shards"].as_u64().ok_or("`shards` must be a number")?;
                Ok(Arc::new(shards))
            }

            fn policy(&self) -> Box<dyn Balancer> {
                unreachable!("nothing is balanced here")
            }
        }

        let typed = |name: &str, shards: Value| {
            json!({"@type": "type.googleapis.com/xds.type.v3.TypedStruct",
                "typeUrl": format!("example.com/{name}"), "value": {"shards": shards}})
        };
        let list = |configs: &[Value]| {
            let policy = |config: &Value| json!({"typedExtensionConfig": {"name": "p", "typedConfig": config}});
            json!({"policies": configs.iter().map(policy).collect::<Vec<_>>()})
        };
        let round_robin =
            any("extensions.load_balancing_policies.round_robin.v3.RoundRobin", json!({}));
        let read_with = |custom: &CustomPolicies, configs: &[Value]| {
            let mut cluster = cluster(json!({"loadBalancingPolicy": list(configs)}));
            cluster["name"] = json!("c");
            super::read(&message("envoy.config.cluster.v3.Cluster", &cluster), custom)
        };
        let custom = CustomPolicies::default().with(ByShard);
        let configs =
            [typed("orders.Other", json!(1)), typed("orders.ByShard", json!(3)), round_robin];
        let PolicyConfig::Custom(policy) = read_with(&custom, &configs).unwrap() else { panic!() };
        assert_eq!(policy.config::<u64>(), Some(&3));
        // Without it the next one counts.
        let without = read_with(&CustomPolicies::default(), &configs);
        assert_eq!(without, Ok(PolicyConfig::RoundRobin));
        let nobody = read_with(&CustomPolicies::default(), &configs[..1]).unwrap_err();
        assert_eq!(
            nobody.to_string(),
            "load_balancing_policy: none of the policies is known: example.com/orders.Other (in a \
             `TypedStruct`)"
        );
        let least = read_with(&custom, &[typed("least_request_experimental", json!(1))]);
        assert_eq!(least, Ok(PolicyConfig::LeastRequest(ChoiceCount::default())));
        let fault = read_with(&custom, &[typed("orders.ByShard", json!("x"))]).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "load_balancing_policy.policies[0].typed_extension_config.typed_config: \
             `shards` must be a number"
        );
    }

    #[test]
    fn a_subset_has_a_size_and_a_policy() {
        // C-117
        const KIND: &str = "random_subsetting.v3.RandomSubsetting";
        let child = list(&[(ROUND_ROBIN, json!({}))]);
        let size = NonZeroU32::new(3).unwrap();
        let expected =
            PolicyConfig::RandomSubsetting { size, child: Arc::new(PolicyConfig::RoundRobin) };
        assert_eq!(of(one(KIND, json!({"subsetSize": 3, "childPolicy": child}))), expected);
        for (fields, expected) in [
            (json!({"childPolicy": child}), ".subset_size: it must be at least 1"),
            (json!({"subsetSize": 0, "childPolicy": child}), ".subset_size: it must be at least 1"),
            (json!({"subsetSize": 3}), ".child_policy: it must be set"),
        ] {
            assert_eq!(fault_in(KIND, fields), expected);
        }
    }
}
