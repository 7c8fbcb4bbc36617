//! Subsets of the endpoints of a cluster, and the routes that ask for one: `metadata_match`, `subset_selectors` and
//! the metadata of endpoints.
//!
//! There is no answer where nobody can tell for certain: a policy that falls back to other endpoints, lists of values, and
//! policies of load balancing that stand elsewhere. Not here: the judgement of a change (the gate).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use chancery_core::{ResourceName, TypeUrl};
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value};

use super::decoded;
use crate::canonical;
use crate::schema::Schema;
use crate::walk::{list_in, message_in, messages_in, number_in, text_in, texts_in, value_in, walk};

/// The values of metadata, by key: their canonical bytes.
pub type LbMetadata = BTreeMap<String, Vec<u8>>;

/// A route that asks for some of the endpoints of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsetRequest {
    /// The name of the cluster.
    pub cluster: ResourceName,
    /// The path of the route, or of one of its weighted clusters.
    pub path: String,
    /// The values that the endpoints must have.
    pub wanted: LbMetadata,
    /// The same for people: `version: "v2"`.
    pub words: String,
}

/// The subsets of a cluster that has no endpoint for whoever asks for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsets {
    /// The keys of each subset, and true if nobody gets endpoints of another one in its place.
    selectors: Vec<(BTreeSet<String>, bool)>,
    /// The metadata of the endpoints that stand in the cluster.
    pub endpoints: Vec<LbMetadata>,
}

/// The reason for which a request finds no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSubset {
    /// No selector has these keys.
    Selector,
    /// No endpoint has these values.
    Endpoint,
}

impl Subsets {
    /// The reason for which a request finds none among these endpoints; `None` if it finds one, or may.
    pub fn lacks(&self, wanted: &LbMetadata, endpoints: &[LbMetadata]) -> Option<NoSubset> {
        let is_it = |(keys, _): &&(BTreeSet<String>, bool)| keys.iter().eq(wanted.keys());
        let Some((_, is_strict)) = self.selectors.iter().find(is_it) else {
            return Some(NoSubset::Selector);
        };
        let has_all = |endpoint: &LbMetadata| {
            wanted.iter().all(|(key, value)| endpoint.get(key) == Some(value))
        };
        (*is_strict && !endpoints.iter().any(has_all)).then_some(NoSubset::Endpoint)
    }
}

/// The routes in a resource that ask for subsets, so many at most. A cluster that has no weight is asked for nothing.
pub fn subset_requests(
    schema: &Schema,
    type_url: &TypeUrl,
    body: &Bytes,
    most: usize,
) -> Vec<SubsetRequest> {
    let mut found = Vec::new();
    let Some(message) = decoded(schema, type_url, body) else { return found };
    walk(&message, &mut |path, action| {
        if !ACTIONS.contains(&action.descriptor().full_name()) || found.len() >= most {
            return;
        }
        let all = message_in(action, "metadata_match").map(metadata).unwrap_or_default();
        found.extend(request(text_in(action, "cluster"), path.to_owned(), &all));
        let clusters = message_in(action, "weighted_clusters").into_iter();
        for (at, cluster) in clusters.flat_map(|it| messages_in(it, "clusters")).enumerate() {
            if weight(cluster) == 0 {
                continue;
            }
            let mut wanted = all.clone();
            wanted.extend(message_in(cluster, "metadata_match").map(metadata).unwrap_or_default());
            let path = format!("{path}.weighted_clusters.clusters[{at}]");
            found.extend(request(text_in(cluster, "name"), path, &wanted));
        }
    });
    found.truncate(most);
    found
}

const ACTIONS: [&str; 2] =
    ["envoy.config.route.v3.RouteAction", "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy"];

/// The weight of a cluster, in a wrapper or not.
fn weight(cluster: &DynamicMessage) -> u32 {
    match message_in(cluster, "weight") {
        Some(wrapped) => number_in(wrapped, "value"),
        None => number_in(cluster, "weight"),
    }
}

fn request(cluster: &str, path: String, wanted: &Metadata) -> Option<SubsetRequest> {
    let cluster = ResourceName::parse(cluster).ok().filter(|_| !wanted.is_empty())?;
    let words = wanted.iter().map(|(key, (_, words))| format!("{key}: {words}"));
    let words = words.collect::<Vec<_>>().join(", ");
    let wanted = wanted.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
    Some(SubsetRequest { cluster, path, wanted, words })
}

/// The subsets of a cluster; `None` if it has none, or if requests may go to other endpoints.
pub fn subsets(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Option<Subsets> {
    let cluster = decoded(schema, type_url, body)?;
    let config = message_in(&cluster, "lb_subset_config")?;
    let number = |message: &DynamicMessage, field| {
        value_in(message, field).and_then(Value::as_enum_number).unwrap_or_default()
    };
    let is_true = |field| value_in(config, field).and_then(Value::as_bool) == Some(true);
    let is_certain = number(config, "fallback_policy") == NO_FALLBACK
        && number(config, "metadata_fallback_policy") == 0
        && !["list_as_any", "allow_redundant_keys", "panic_mode_any"].iter().any(|it| is_true(it))
        && message_in(&cluster, "load_balancing_policy").is_none();
    let selectors = messages_in(config, "subset_selectors").map(|selector| {
        let keys: BTreeSet<_> = texts_in(selector, "keys").map(str::to_owned).collect();
        (keys, number(selector, "fallback_policy") <= SELECTOR_NO_FALLBACK)
    });
    let selectors: Vec<_> = selectors.collect();
    let is_simple = !selectors.is_empty() && selectors.iter().all(|(keys, _)| !keys.is_empty());
    let endpoints = message_in(&cluster, "load_assignment").map(of_endpoints).unwrap_or_default();
    (is_certain && is_simple).then_some(Subsets { selectors, endpoints })
}

/// In `LbSubsetFallbackPolicy`.
const NO_FALLBACK: i32 = 0;
/// In `LbSubsetSelectorFallbackPolicy`, in which 0 is the policy of the cluster.
const SELECTOR_NO_FALLBACK: i32 = 1;

/// The metadata of the endpoints in a load assignment; `None` where they come from elsewhere.
pub fn lb_metadata(schema: &Schema, type_url: &TypeUrl, body: &Bytes) -> Option<Vec<LbMetadata>> {
    let assignment = decoded(schema, type_url, body)?;
    let mut localities = messages_in(&assignment, "endpoints");
    let is_elsewhere =
        localities.any(|it| message_in(it, "leds_cluster_locality_config").is_some());
    (!is_elsewhere).then(|| of_endpoints(&assignment))
}

fn of_endpoints(assignment: &DynamicMessage) -> Vec<LbMetadata> {
    let localities = messages_in(assignment, "endpoints");
    let endpoints = localities.flat_map(|it| list_in(it, "lb_endpoints"));
    let endpoints = endpoints.filter_map(Value::as_message);
    let of = |endpoint: &DynamicMessage| {
        let all = message_in(endpoint, "metadata").map(metadata).unwrap_or_default();
        all.into_iter().map(|(key, (value, _))| (key, value)).collect()
    };
    endpoints.map(of).collect()
}

/// Values by key: their canonical bytes, and their words.
type Metadata = BTreeMap<String, (Vec<u8>, String)>;

/// The part of metadata by which endpoints are chosen.
fn metadata(message: &DynamicMessage) -> Metadata {
    let key = MapKey::String("envoy.lb".to_owned());
    let all = value_in(message, "filter_metadata").and_then(Value::as_map);
    let of_lb = all.and_then(|all| all.get(&key)).and_then(Value::as_message);
    let fields = of_lb.and_then(|it| value_in(it, "fields")).and_then(Value::as_map);
    let one = |(key, value): (&MapKey, &Value)| {
        let (key, value) = (key.as_str()?.to_owned(), value.as_message()?);
        Some((key, (canonical::encode(value), words(value))))
    };
    fields.into_iter().flatten().filter_map(one).collect()
}

/// A value for people: a number and a text differ.
fn words(value: &DynamicMessage) -> String {
    if let Some(text) = value_in(value, "string_value").and_then(Value::as_str) {
        return format!("{text:?}");
    }
    if let Some(number) = value_in(value, "number_value").and_then(Value::as_f64) {
        return format!("{number} (a number)");
    }
    match value_in(value, "bool_value").and_then(Value::as_bool) {
        Some(value) => format!("{value} (no text)"),
        None => "a value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde::de::DeserializeSeed;
    use serde_json::{Value as Json, json};

    use super::*;

    fn resource(name: &str, json: &Json) -> (TypeUrl, Bytes) {
        let message = Schema::bundled().message(name).unwrap().deserialize(json).unwrap();
        (TypeUrl::new(name), message.encode_to_vec().into())
    }

    fn lb(version: Json) -> Json {
        json!({"filterMetadata": {"envoy.lb": {"version": version}, "other": {"a": 1}}})
    }

    fn requests(routes: &Json) -> Vec<SubsetRequest> {
        let hosts = json!({"virtualHosts": [{"routes": [{"route": routes}]}]});
        let (type_url, body) = resource("envoy.config.route.v3.RouteConfiguration", &hosts);
        subset_requests(&Schema::bundled(), &type_url, &body, 10)
    }

    fn cluster(config: &Json) -> Option<Subsets> {
        let json = json!({"name": "c", "lbSubsetConfig": config});
        let (type_url, body) = resource("envoy.config.cluster.v3.Cluster", &json);
        subsets(&Schema::bundled(), &type_url, &body)
    }

    fn endpoints(versions: &[Json]) -> Vec<LbMetadata> {
        let all: Vec<_> = versions.iter().map(|it| json!({"metadata": lb(it.clone())})).collect();
        let json = json!({"clusterName": "c", "endpoints": [{"lbEndpoints": all}]});
        let (type_url, body) = resource("envoy.config.endpoint.v3.ClusterLoadAssignment", &json);
        lb_metadata(&Schema::bundled(), &type_url, &body).unwrap()
    }

    #[test]
    fn routes_and_their_weighted_clusters_ask_for_subsets() {
        let told = |routes: Json| {
            let all = requests(&routes);
            all.iter()
                .map(|it| format!("{} {} {}", it.cluster, it.path, it.words))
                .collect::<Vec<_>>()
        };
        let at = "virtual_hosts[0].routes[0].route";
        let one = json!({"cluster": "c", "metadataMatch": lb(json!("v1"))});
        assert_eq!(told(one), [format!("c {at} version: \"v1\"")]);
        assert_eq!(told(json!({"cluster": "c"})), [""; 0]);
        let weighted = json!({"metadataMatch": lb(json!("v1")), "weightedClusters": {"clusters": [
            {"name": "a", "weight": 1}, {"name": "b", "weight": 2, "metadataMatch": lb(json!(1))},
            {"name": "none", "weight": 0}]}});
        let at = format!("{at}.weighted_clusters.clusters");
        assert_eq!(
            told(weighted),
            [format!("a {at}[0] version: \"v1\""), format!("b {at}[1] version: 1 (a number)")]
        );
    }

    #[test]
    fn a_request_needs_a_selector_with_its_keys_and_an_endpoint_with_its_values() {
        let wanted = |version: Json| {
            requests(&json!({"cluster": "c", "metadataMatch": lb(version)})).remove(0).wanted
        };
        let subsets = cluster(&json!({"subsetSelectors": [{"keys": ["version"]}]})).unwrap();
        let endpoints = endpoints(&[json!("v1"), json!("1")]);
        assert_eq!(subsets.lacks(&wanted(json!("v1")), &endpoints), None);
        assert_eq!(subsets.lacks(&wanted(json!("v2")), &endpoints), Some(NoSubset::Endpoint));
        assert_eq!(subsets.lacks(&wanted(json!(1)), &endpoints), Some(NoSubset::Endpoint));
        let others = cluster(&json!({"subsetSelectors": [{"keys": ["versions"]}]})).unwrap();
        assert_eq!(others.lacks(&wanted(json!("v1")), &endpoints), Some(NoSubset::Selector));
        let selector = json!({"keys": ["version"], "fallbackPolicy": "ANY_ENDPOINT"});
        let any = cluster(&json!({"subsetSelectors": [selector]})).unwrap();
        assert_eq!(any.lacks(&wanted(json!("v2")), &endpoints), None);
    }

    #[test]
    fn a_cluster_that_falls_back_has_no_answer() {
        let selectors = json!([{"keys": ["version"]}]);
        assert!(cluster(&json!({"subsetSelectors": selectors})).is_some());
        for more in [
            json!({"fallbackPolicy": "ANY_ENDPOINT", "subsetSelectors": selectors}),
            json!({"listAsAny": true, "subsetSelectors": selectors}),
            json!({"subsetSelectors": []}),
        ] {
            assert_eq!(cluster(&more), None, "{more}");
        }
    }
}
