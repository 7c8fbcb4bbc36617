//! Who is asking: the identity an xDS client states, and what follows from it for the protocol.
//!
//! Only what selection and the protocol need is kept. Envoy's node is some 77 kB, nearly all of it
//! the list of its extensions, and a server holds one per stream.

use std::collections::BTreeMap;

/// One xDS client, as it describes itself. Self-declared: see S-137 before trusting it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// What the client calls itself.
    pub id: String,
    /// The service it belongs to.
    pub cluster: String,
    /// Where it runs.
    pub locality: Locality,
    /// Free-form facts, for selection.
    pub metadata: BTreeMap<String, Value>,
    /// `envoy`, `gRPC Go`, and so on.
    pub user_agent_name: String,
    /// As text, `1.40.0`; empty if not told.
    pub user_agent_version: String,
    /// The optional parts of the protocol the client announces.
    pub client_features: Vec<String>,
    /// Parameters that may vary during a stream (S-025), by type URL and key.
    pub dynamic_parameters: BTreeMap<String, BTreeMap<String, String>>,
}

/// Where a node runs.
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

/// The optional parts of the protocol a client takes part in (Appendix B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// TTLs and heartbeats may be sent on delta streams (S-086).
    pub ttl: bool,
    /// SotW resources may be wrapped in `Resource` (S-085), which alone can carry a TTL there.
    pub wrapped_sotw: bool,
    /// SotW heartbeats must carry their bodies: Envoy takes one without for a deletion, or crashes
    /// when it expires.
    pub bodies_in_beats: bool,
}

impl Node {
    /// What may be sent to this client.
    pub fn features(&self) -> Features {
        let announced = |name: &str| self.client_features.iter().any(|feature| feature == name);
        Features {
            ttl: announced("xds.config.supports-resource-ttl") || self.is_envoy_with_ttl(),
            // Two spellings are in circulation (S-026).
            wrapped_sotw: announced("xds.config.resource-in-sotw")
                || announced("xds.config.supports-resource-in-sotw"),
            bodies_in_beats: self.user_agent_name == "envoy",
        }
    }

    /// Envoy keeps TTLs since 1.17 and announces no features on its discovery streams.
    fn is_envoy_with_ttl(&self) -> bool {
        let mut numbers = self.user_agent_version.split('.').map(str::parse::<u32>);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return false;
        };
        self.user_agent_name == "envoy" && (major, minor) >= (1, 17)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcing(feature: &str) -> Features {
        Node { client_features: vec![feature.to_owned()], ..Node::default() }.features()
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
