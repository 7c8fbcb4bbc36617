//! The identity of a client, and the optional parts of the protocol that follow from it (S-023 to
//! S-026, [client features]).
//!
//! A server holds one node for each stream, and Envoy's node is some 77 kB, nearly all of it the list
//! of its extensions. So only the parts that the choice of a snapshot and the protocol need are kept.
//!
//! [client features]: https://www.envoyproxy.io/docs/envoy/latest/api/client_features

use std::collections::BTreeMap;
use std::sync::Arc;

/// One xDS client, as it describes itself. Nobody has verified it: S-137 says what to compare it
/// with before trusting it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The id that the client gives itself.
    pub id: String,
    /// The service that the client belongs to.
    pub cluster: String,
    /// The place where the client runs.
    pub locality: Locality,
    /// Free-form values for the choice of a snapshot. A node whose parameters change shares them with
    /// the one before.
    pub metadata: Arc<BTreeMap<String, Value>>,
    /// The name of the program, as `envoy` or `gRPC Go`.
    pub user_agent_name: String,
    /// The version of the program, as `1.40.0`; empty if it is not stated.
    pub user_agent_version: String,
    /// The optional parts of the protocol that the client announces.
    pub client_features: Arc<[String]>,
    /// The parameters that may change during a stream (S-025), by type URL and key.
    pub dynamic_parameters: BTreeMap<String, BTreeMap<String, String>>,
}

/// The place where a node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the fields are named as on the wire")]
pub struct Locality {
    pub region: String,
    pub zone: String,
    pub sub_zone: String,
}

/// A value of a node's metadata.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the variants are those of JSON")]
pub enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Map(BTreeMap<String, Self>),
}

/// The optional parts of the protocol that a client takes part in (Appendix B of
/// `docs/rules/server.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// True if TTLs and heartbeats may be sent on delta streams (S-086).
    pub ttl: bool,
    /// True if SotW resources may be wrapped in `Resource` (S-085). Without a wrapper a SotW
    /// resource has no TTL.
    pub wrapped_sotw: bool,
    /// True if SotW heartbeats have to have bodies: Envoy takes an entry without one for a
    /// deletion, or crashes when the resource expires.
    pub bodies_in_beats: bool,
}

impl Node {
    /// The optional parts of the protocol that this client takes part in.
    pub fn features(&self) -> Features {
        let announced = |name: &str| self.client_features.iter().any(|feature| feature == name);
        Features {
            ttl: announced("xds.config.supports-resource-ttl") || self.is_envoy_with_ttl(),
            // Two spellings are in use (S-026).
            wrapped_sotw: announced("xds.config.resource-in-sotw")
                || announced("xds.config.supports-resource-in-sotw"),
            bodies_in_beats: self.user_agent_name == "envoy",
        }
    }

    /// The client feature of a program that looks at what a node would be given, and holds nothing: no load
    /// waits for it, and it is no node that comes and goes.
    pub const LOOKS: &'static str = "chancery.looks";

    /// Returns true if the client says that it only looks.
    pub fn only_looks(&self) -> bool {
        self.client_features.iter().any(|feature| feature == Self::LOOKS)
    }

    /// The bytes that are kept of the node, about.
    pub fn held_bytes(&self) -> usize {
        self.fixed_bytes() + self.parameter_bytes()
    }

    /// The bytes of all but the parameters.
    fn fixed_bytes(&self) -> usize {
        let Locality { region, zone, sub_zone } = &self.locality;
        let (name, version) = (&self.user_agent_name, &self.user_agent_version);
        let texts = [&self.id, &self.cluster, region, zone, sub_zone, name, version];
        let texts = texts.into_iter().chain(self.client_features.iter());
        let features = self.client_features.len() * size_of::<String>();
        size_of::<Self>()
            + texts.map(text_bytes).sum::<usize>()
            + features
            + fields_bytes(&self.metadata)
    }

    /// The bytes that are kept of the parameters, about.
    pub(crate) fn parameter_bytes(&self) -> usize {
        let parameters = self.dynamic_parameters.values();
        let params = |of: &BTreeMap<String, String>| {
            let texts = of.iter().map(|(key, value)| text_bytes(key) + text_bytes(value));
            map_nodes(of) + texts.sum::<usize>()
        };
        let keys = self.dynamic_parameters.keys().map(text_bytes).sum::<usize>();
        let parameters = parameters.map(params).sum::<usize>();
        map_nodes(&self.dynamic_parameters) + keys + parameters
    }

    /// Returns true for an Envoy that knows TTLs. It does since 1.17, and announces no features on
    /// its discovery streams.
    fn is_envoy_with_ttl(&self) -> bool {
        let mut numbers = self.user_agent_version.split('.').map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return false;
        };
        self.user_agent_name == "envoy" && (major, minor) >= (1, 17)
    }
}

fn fields_bytes(fields: &BTreeMap<String, Value>) -> usize {
    let inside = fields.iter().map(|(key, value)| text_bytes(key) + value_bytes(value));
    map_nodes(fields) + inside.sum::<usize>()
}

/// The bytes behind a value, whose depth its decoder bounds.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::Text(text) => text_bytes(text),
        Value::List(values) => {
            let inside = values.iter().map(value_bytes).sum::<usize>();
            values.capacity() * size_of::<Value>() + PIECE + inside
        }
        Value::Map(fields) => fields_bytes(fields),
    }
}

/// The bytes of the nodes of a B-tree, which have room for eleven entries each.
fn map_nodes<K, V>(map: &BTreeMap<K, V>) -> usize {
    map.len().div_ceil(11) * (11 * (size_of::<K>() + size_of::<V>()) + 2 * PIECE)
}

fn text_bytes(text: &String) -> usize {
    if text.capacity() == 0 { 0 } else { text.capacity() + PIECE }
}

/// The share of the allocator in each piece of memory.
const PIECE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn announcing(feature: &str) -> Features {
        Node { client_features: [feature.to_owned()].into(), ..Node::default() }.features()
    }

    #[test]
    fn optional_behaviour_follows_the_announced_features() {
        // S-026: every feature on and off
        assert_eq!(Node::default().features(), Features::default());
        assert!(announcing("xds.config.supports-resource-ttl").ttl);
        assert!(announcing("xds.config.resource-in-sotw").wrapped_sotw);
        assert!(announcing("xds.config.supports-resource-in-sotw").wrapped_sotw);
        assert_eq!(announcing("envoy.lrs.supports_send_all_clusters"), Features::default());
    }

    #[test]
    fn envoy_keeps_ttls_without_saying_so() {
        let envoy = |version: &str| {
            let node = Node {
                user_agent_name: "envoy".to_owned(),
                user_agent_version: version.to_owned(),
                ..Node::default()
            };
            node.features()
        };
        assert!(envoy("1.40.0").ttl);
        assert!(!envoy("1.16.2").ttl);
        assert!(!envoy("").ttl);
        assert!(!envoy("1.40.0").wrapped_sotw);
    }
}
