//! Sources that gRPC does not have: a client for gRPC must refuse resources that name them.
//!
//! gRPC gets more resources from the stream, or from another server of the bootstrap, and in no
//! other way. It cannot follow a resource that names a file or a management server of its own. The
//! resource is rejected when it arrives, and not only when an RPC needs it.
//!
//! The rules are C-080 and C-081 ([gRFC
//! A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md)) and C-028 (seen in
//! grpc-go). Not here: filters, routes and endpoints, which are the business of the data plane.

use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage};

use super::{ALL, Findings};
use crate::facts::{ConfigSource, LOAD_SERVER, is_eds};
use crate::walk::{message_in, text_in, walk};

/// A field that names a source which gRPC does not have.
struct Refusal {
    path: String,
    why: String,
}

/// Returns true if bodies of this type may name sources at all. Endpoints come often, and do not.
pub(crate) fn may_name(type_url: &TypeUrl) -> bool {
    matches!(type_url.api(), Api::Lds | Api::Cds)
}

/// Checks that a gRPC client may use a body of this type.
///
/// # Errors
/// Returns a reason for the operator of the server.
pub(crate) fn check(type_url: &TypeUrl, message: &DynamicMessage) -> Result<(), String> {
    let first = refusals(type_url, message).into_iter().next();
    first.map_or(Ok(()), |Refusal { path, why }| Err(format!("`{path}` {why}")))
}

/// Adds what is found in a body of this type. A listener may name sources of other things too.
pub(super) fn lint(type_url: &TypeUrl, message: &DynamicMessage, found: &mut Findings) {
    let is_api = message_in(message, "api_listener").is_some();
    if type_url.api() == Api::Lds && !is_api && !super::is_server(message) {
        return;
    }
    for Refusal { path, why } in refusals(type_url, message) {
        found.rejected(ALL, path, &why);
    }
    if type_url.api() == Api::Lds {
        walk(message, &mut |path, message| {
            let is_source = message.descriptor().full_name() == SOURCE;
            let is_told = path.ends_with("rds.config_source");
            if is_source && !is_told && !is_on_the_stream(Some(message)) {
                found.rejected(ALL, path, FROM_THE_STREAM);
            }
        });
    }
}

fn refusals(type_url: &TypeUrl, message: &DynamicMessage) -> Vec<Refusal> {
    match type_url.api() {
        Api::Lds => routes(message),
        Api::Cds => cluster(message),
        _ => Vec::new(),
    }
}

/// Checks C-080 for routes.
fn routes(listener: &DynamicMessage) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    walk(listener, &mut |path, message| {
        let is_rds = message.descriptor().full_name() == RDS;
        if is_rds && !is_on_the_stream(message_in(message, "config_source")) {
            refusals.push(Refusal::of_source(format!("{path}.config_source")));
        }
    });
    refusals
}

fn cluster(cluster: &DynamicMessage) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    // C-081
    if let Some(server) = message_in(cluster, LOAD_SERVER)
        && ConfigSource::of(server) != ConfigSource::OwnServer
    {
        let (path, why) = (LOAD_SERVER.to_owned(), "must be `self`, or be left out".to_owned());
        refusals.push(Refusal { path, why });
    }
    if !is_eds(cluster) {
        return refusals;
    }
    let config = message_in(cluster, "eds_cluster_config");
    // C-080
    if !is_on_the_stream(config.and_then(|config| message_in(config, "eds_config"))) {
        refusals.push(Refusal::of_source("eds_cluster_config.eds_config".to_owned()));
    }
    // C-028: the name is in the namespace of clusters, so it cannot be a name of endpoints too.
    let service = config.map_or("", |config| text_in(config, "service_name"));
    if service.is_empty() && text_in(cluster, "name").starts_with("xdstp:") {
        let path = "eds_cluster_config.service_name".to_owned();
        let why = "must be set in a cluster with an `xdstp:` name".to_owned();
        refusals.push(Refusal { path, why });
    }
    refusals
}

impl Refusal {
    fn of_source(path: String) -> Self {
        Self { path, why: FROM_THE_STREAM.to_owned() }
    }
}

fn is_on_the_stream(source: Option<&DynamicMessage>) -> bool {
    let source = source.map(ConfigSource::of);
    matches!(source, Some(ConfigSource::Aggregated | ConfigSource::OwnServer))
}

const FROM_THE_STREAM: &str = "must be `ads` or `self`: gRPC has no other source";
const RDS: &str = "envoy.extensions.filters.network.http_connection_manager.v3.Rds";
const SOURCE: &str = "envoy.config.core.v3.ConfigSource";

#[cfg(test)]
mod tests {
    use serde::de::DeserializeSeed;
    use serde_json::{Value, json};

    use super::*;
    use crate::schema::Schema;

    fn message(type_name: &str, json: &Value) -> DynamicMessage {
        let descriptor = Schema::bundled().message(type_name).unwrap();
        descriptor.deserialize(json).unwrap()
    }

    /// All sources, each with true if gRPC has it.
    fn sources() -> [(Value, bool); 5] {
        [
            (json!({"ads": {}}), true),
            (json!({"self": {}}), true),
            (json!({"pathConfigSource": {"path": "/etc/xds/a.yaml"}}), false),
            (json!({"apiConfigSource": {"apiType": "GRPC"}}), false),
            (json!({}), false),
        ]
    }

    fn cluster_of(json: &Value) -> Result<(), String> {
        const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
        check(&TypeUrl::new(CLUSTER), &message(CLUSTER, json))
    }

    #[test]
    fn routes_and_endpoints_come_from_ads_or_self() {
        // C-080
        let manager = "type.googleapis.com/envoy.extensions.filters.network.\
             http_connection_manager.v3.HttpConnectionManager";
        for (source, good) in sources() {
            let rds = json!({"@type": manager, "rds":
                {"configSource": source, "routeConfigName": "r"}});
            let api = json!({"name": "l", "apiListener": {"apiListener": rds}});
            let chain = json!({"name": "l", "filterChains": [{"filters":
                [{"name": "f", "typedConfig": rds}]}]});
            for listener in [api, chain] {
                const LISTENER: &str = "envoy.config.listener.v3.Listener";
                let checked = check(&TypeUrl::new(LISTENER), &message(LISTENER, &listener));
                assert_eq!(checked.is_ok(), good, "{listener}: {checked:?}");
            }
            let cluster = json!({"name": "c", "type": "EDS",
                "edsClusterConfig": {"edsConfig": source}});
            assert_eq!(cluster_of(&cluster).is_ok(), good, "{cluster}");
        }
        let nowhere = cluster_of(&json!({"name": "c", "type": "EDS"})).unwrap_err();
        assert!(nowhere.contains("`eds_cluster_config.eds_config` must be `ads` or `self`"));
        assert!(cluster_of(&json!({"name": "c", "type": "LOGICAL_DNS"})).is_ok());
    }

    #[test]
    fn loads_are_reported_to_the_server_of_the_cluster_or_nowhere() {
        // C-081
        assert!(cluster_of(&json!({"name": "c", "type": "LOGICAL_DNS"})).is_ok());
        for (source, _) in sources() {
            let good = source.get("self").is_some();
            let cluster = json!({"name": "c", "type": "LOGICAL_DNS", "lrsServer": source});
            assert_eq!(cluster_of(&cluster).is_ok(), good, "{cluster}");
        }
    }

    #[test]
    fn a_cluster_with_a_new_name_says_what_its_endpoints_are_called() {
        // C-028
        let name = "xdstp://a/envoy.config.cluster.v3.Cluster/c";
        let named = |service: &str| {
            json!({"name": name, "type": "EDS",
                "edsClusterConfig": {"edsConfig": {"ads": {}}, "serviceName": service}})
        };
        let error = cluster_of(&named("")).unwrap_err();
        assert!(error.contains("`eds_cluster_config.service_name`"), "{error}");
        assert!(cluster_of(&named("c")).is_ok());
        assert!(cluster_of(&json!({"name": name, "type": "LOGICAL_DNS"})).is_ok());
    }
}
