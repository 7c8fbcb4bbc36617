//! Empty load assignments for clusters that have no endpoints.
//!
//! A client waits for the load assignment of a cluster before it uses the cluster, and at boot
//! before it uses anything. No endpoints is therefore said by an empty `ClusterLoadAssignment`,
//! never by silence (S-101).

use chancery_core::{Api, Resource, ResourceName, Snapshot};

use crate::references::missing;

/// Gives every cluster that waits for endpoints a load assignment, empty where there is none.
pub fn complete(snapshot: &mut Snapshot) {
    let lacking: Vec<_> = missing(snapshot)
        .filter(|(_, _, link)| link.type_url.api() == Api::Eds)
        .map(|(_, _, link)| (link.type_url.clone(), link.name.clone()))
        .collect();
    for (type_url, name) in lacking {
        snapshot.insert(&type_url, empty(name));
    }
}

/// A `ClusterLoadAssignment` with a name and no endpoints; v3 and v2 agree on its encoding.
fn empty(cluster: ResourceName) -> Resource {
    const CLUSTER_NAME: u32 = 1;
    let mut body = Vec::new();
    prost::encoding::string::encode(CLUSTER_NAME, &cluster.to_string(), &mut body);
    Resource::new(cluster, body.into())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use chancery_core::TypeUrl;
    use prost_reflect::DynamicMessage;
    use serde::de::DeserializeSeed;

    use super::*;
    use crate::resource::{Wrapper, resource, resource_from_bytes};
    use crate::schema::Schema;

    fn with_cluster(snapshot: &mut Snapshot, type_name: &str, name: &str) {
        let json = serde_json::json!({"name": name, "type": "EDS",
            "edsClusterConfig": {"edsConfig": {"ads": {}}}});
        let message: DynamicMessage =
            Schema::bundled().message(type_name).unwrap().deserialize(json).unwrap();
        let type_url = TypeUrl::new(type_name);
        snapshot.insert(&type_url, resource(&type_url, &message, Wrapper::default()).unwrap());
    }

    #[test]
    fn a_cluster_without_endpoints_gets_an_empty_load_assignment() {
        // S-101
        let eds = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
        let mut snapshot = Snapshot::new();
        with_cluster(&mut snapshot, "envoy.config.cluster.v3.Cluster", "a");
        with_cluster(&mut snapshot, "envoy.config.cluster.v3.Cluster", "b");
        let bytes = Bytes::from_static(b"\x0a\x01b\x22\x02\x1a\x00");
        let own = resource_from_bytes(&Schema::bundled(), &eds, &bytes, Wrapper::default());
        snapshot.insert(&eds, own.unwrap());
        complete(&mut snapshot);
        let set = snapshot.set(&eds);
        assert_eq!(set.get("a").unwrap().body().as_ref(), b"\x0a\x01a");
        assert_eq!(*set.get("b").unwrap().body(), bytes, "what is there stays");
        let again = snapshot.clone();
        complete(&mut snapshot);
        assert_eq!(snapshot, again);
    }

    #[test]
    fn a_v2_cluster_gets_one_of_v2() {
        // S-010, S-101
        let mut snapshot = Snapshot::new();
        with_cluster(&mut snapshot, "envoy.api.v2.Cluster", "a");
        complete(&mut snapshot);
        let eds = TypeUrl::new("envoy.api.v2.ClusterLoadAssignment");
        assert!(snapshot.set(&eds).get("a").is_some());
        assert_eq!(snapshot.len(), 2);
    }
}
