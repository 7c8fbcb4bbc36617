//! Sources that gRPC does not have: a client for gRPC must refuse resources that name them.
//!
//! gRPC gets more resources from the stream, or from another server of the bootstrap, and in no
//! other way. It cannot follow a resource that names a file or a management server of its own. The
//! resource is rejected when it arrives, and not only when an RPC needs it.
//!
//! The rules are C-080 and C-081 ([gRFC
//! A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md)) and C-028 (seen in
//! grpc-go). Filters, routes and endpoints are not checked here: they are the business of the data
//! plane.

use chancery_core::{Api, TypeUrl};
use prost_reflect::{DynamicMessage, ReflectMessage};

use crate::facts::{ConfigSource, LOAD_SERVER, is_eds};
use crate::walk::{message_in, text_in, walk};

/// Checks that a gRPC client may use a body of this type.
///
/// # Errors
/// Returns a reason for the operator of the server.
pub(crate) fn check(type_url: &TypeUrl, message: &DynamicMessage) -> Result<(), String> {
    match type_url.api() {
        Api::Lds => routes(message),
        Api::Cds => cluster(message),
        _ => Ok(()),
    }
}

/// Checks C-080 for routes.
fn routes(listener: &DynamicMessage) -> Result<(), String> {
    const RDS: &str = "envoy.extensions.filters.network.http_connection_manager.v3.Rds";
    let mut outcome = Ok(());
    walk(listener, &mut |_, message| {
        if outcome.is_ok() && message.descriptor().full_name() == RDS {
            let source = message_in(message, "config_source");
            outcome = on_the_stream(source, "rds.config_source");
        }
    });
    outcome
}

fn cluster(cluster: &DynamicMessage) -> Result<(), String> {
    // C-081
    if let Some(server) = message_in(cluster, LOAD_SERVER)
        && ConfigSource::of(server) != ConfigSource::OwnServer
    {
        return Err(format!("`{LOAD_SERVER}` must be `self`, or be left out"));
    }
    if !is_eds(cluster) {
        return Ok(());
    }
    let config = message_in(cluster, "eds_cluster_config");
    // C-080
    let source = config.and_then(|config| message_in(config, "eds_config"));
    on_the_stream(source, "eds_cluster_config.eds_config")?;
    // C-028: the name is in the namespace of clusters, so it cannot be a name of endpoints too.
    let service = config.map_or("", |config| text_in(config, "service_name"));
    if service.is_empty() && text_in(cluster, "name").starts_with("xdstp:") {
        return Err(
            "a cluster with an `xdstp:` name must say `eds_cluster_config.service_name`".to_owned()
        );
    }
    Ok(())
}

fn on_the_stream(source: Option<&DynamicMessage>, field: &str) -> Result<(), String> {
    match source.map(ConfigSource::of) {
        Some(ConfigSource::Aggregated | ConfigSource::OwnServer) => Ok(()),
        Some(ConfigSource::OtherServer | ConfigSource::Elsewhere) | None => {
            Err(format!("`{field}` must be `ads` or `self`: gRPC has no other source"))
        }
    }
}

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
