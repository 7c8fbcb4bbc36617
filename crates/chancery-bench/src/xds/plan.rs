//! The requests of a run, encoded once and shared by all clients.
//!
//! A client adds only its node, and the fields by which it acknowledges a response. Not here: the
//! choice of names and types (`settings`), the sending (`stream`), and the reading of responses
//! (`scanner`).

use std::ops::Range;
use std::sync::Arc;

use chancery_core::TypeUrl;

use super::proto::{field, varint};
use super::types::{self, Protocol};
use crate::http2;

/// The requests that all clients of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct RequestPlan {
    pub(crate) protocol: Protocol,
    /// The subscriptions in the order in which they are sent. Changes are waited for in the first.
    pub(crate) subscriptions: Vec<EncodedSubscription>,
    /// The streams of one client: one, or one for each type.
    pub(crate) streams: Vec<PlannedStream>,
    pub(crate) node: Node,
}

/// A stream that every client opens.
#[derive(Clone, Debug)]
pub(crate) struct PlannedStream {
    /// The header block of the request.
    pub(crate) headers: Vec<u8>,
    /// The places of its subscriptions in the plan.
    pub(crate) subscriptions: Range<u16>,
}

/// A subscription of every client to one type, encoded.
#[derive(Clone, Debug)]
pub(crate) struct EncodedSubscription {
    pub(crate) url: TypeUrl,
    /// The first request, without the node.
    pub(crate) first_request: Arc<[u8]>,
    /// The fields that every later request repeats.
    pub(crate) repeated: Arc<[u8]>,
    pub(crate) expect: Expect,
    /// Its resources are not counted.
    pub(crate) probe: bool,
}

/// The responses that make the first answer complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No response: the client has everything already.
    Nothing,
    /// The first response.
    Response,
    /// Responses that together hold, or remove, so many resources.
    Resources(u32),
}

/// A subscription of every client to one type, before it is encoded.
#[derive(Clone, Debug)]
pub(crate) struct PlannedSubscription {
    pub(crate) url: TypeUrl,
    pub(crate) names: Vec<String>,
    /// The names and versions of the resources that the client has already.
    pub(crate) initial_versions: Vec<(String, String)>,
    pub(crate) expect: Expect,
    pub(crate) probe: bool,
}

/// The node the clients say they are.
#[derive(Clone, Debug)]
pub struct Node {
    /// The node's id; `{}` stands for the number of the client.
    pub id: String,
    /// The cluster the node is in.
    pub cluster: String,
    /// Metadata: keys and their texts.
    pub metadata: Vec<(String, String)>,
}

/// The way in which a client acknowledges responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckMode {
    /// It acknowledges them.
    Acks,
    /// It rejects them.
    Nacks,
    /// It does not answer them.
    Silent,
}

impl RequestPlan {
    /// A plan of one stream for each client.
    pub(crate) fn aggregated(
        protocol: Protocol,
        subscriptions: Vec<PlannedSubscription>,
        node: Node,
        (secure, authority): (bool, &str),
    ) -> Self {
        let path = types::aggregated(protocol);
        let headers = http2::request_block(secure, authority, &path);
        let streams = vec![PlannedStream { headers, subscriptions: 0..subscriptions.len() as u16 }];
        let subscriptions =
            subscriptions.into_iter().map(|subscription| subscription.encoded(protocol)).collect();
        Self { protocol, subscriptions, streams, node }
    }

    /// A plan of one stream for each client, which subscribes to nothing.
    pub(crate) fn other(path: &str, node: Node, (secure, authority): (bool, &str)) -> Self {
        let headers = http2::request_block(secure, authority, path);
        let streams = vec![PlannedStream { headers, subscriptions: 0..0 }];
        Self { protocol: Protocol::Delta, subscriptions: Vec::new(), streams, node }
    }

    /// A plan of one stream for each client and type.
    ///
    /// # Errors
    /// A type has no service of its own.
    pub(crate) fn per_type(
        protocol: Protocol,
        subscriptions: Vec<PlannedSubscription>,
        node: Node,
        (secure, authority): (bool, &str),
    ) -> Result<Self, String> {
        let mut streams = Vec::new();
        for (at, subscription) in (0_u16..).zip(&subscriptions) {
            let path = types::method(&subscription.url, protocol).ok_or_else(|| {
                format!(
                    "`{}` has no service of its own; leave out `--per-type`",
                    subscription.url.short()
                )
            })?;
            let headers = http2::request_block(secure, authority, &path);
            streams.push(PlannedStream { headers, subscriptions: at..at + 1 });
        }
        let subscriptions =
            subscriptions.into_iter().map(|subscription| subscription.encoded(protocol)).collect();
        Ok(Self { protocol, subscriptions, streams, node })
    }
}

impl PlannedSubscription {
    fn encoded(&self, protocol: Protocol) -> EncodedSubscription {
        let (mut first_request, mut repeated) = (Vec::new(), Vec::new());
        let url = self.url.as_str().as_bytes();
        match protocol {
            Protocol::Sotw => {
                field(&mut first_request, 4, url);
                self.names.iter().for_each(|name| field(&mut first_request, 3, name.as_bytes()));
                // Every request of this variant names all resources that the client wants (S-043).
                repeated.clone_from(&first_request);
            }
            Protocol::Delta => {
                field(&mut first_request, 2, url);
                repeated.clone_from(&first_request);
                self.names.iter().for_each(|name| field(&mut first_request, 3, name.as_bytes()));
                for (name, version) in &self.initial_versions {
                    field(&mut first_request, 5, &map_entry(name, version.as_bytes()));
                }
            }
        }
        let Self { expect, probe, ref url, .. } = *self;
        EncodedSubscription {
            url: url.clone(),
            first_request: first_request.into(),
            repeated: repeated.into(),
            expect,
            probe,
        }
    }
}

impl Node {
    /// The `Node` message of one client.
    pub(crate) fn encoded(&self, client: u32) -> Vec<u8> {
        let mut node = Vec::new();
        field(&mut node, 1, self.id.replace("{}", &client.to_string()).as_bytes());
        field(&mut node, 2, self.cluster.as_bytes());
        if !self.metadata.is_empty() {
            let mut fields = Vec::new();
            for (key, text) in &self.metadata {
                let mut value = Vec::new();
                field(&mut value, 3, text.as_bytes());
                field(&mut fields, 1, &map_entry(key, &value));
            }
            field(&mut node, 3, &fields);
        }
        field(&mut node, 6, b"chancery-bench");
        node
    }
}

/// The fields of a request that are not shared by all clients.
pub(super) fn own_fields(protocol: Protocol, node: Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(node) = node {
        field(&mut out, if protocol == Protocol::Sotw { 2 } else { 1 }, &node);
    }
    out
}

/// Appends the fields by which a request acknowledges or rejects a response.
pub(super) fn acknowledge(
    out: &mut Vec<u8>,
    protocol: Protocol,
    ack_mode: AckMode,
    version: &[u8],
    nonce: &[u8],
) {
    let (nonce_field, error_field) = match protocol {
        Protocol::Sotw => (5, 6),
        Protocol::Delta => (6, 7),
    };
    if protocol == Protocol::Sotw && ack_mode == AckMode::Acks {
        field(out, 1, version);
    }
    field(out, nonce_field, nonce);
    if ack_mode == AckMode::Nacks {
        let mut status = Vec::new();
        varint(&mut status, 1 << 3);
        varint(&mut status, 3);
        field(&mut status, 2, b"rejected on purpose by chancery bench");
        field(out, error_field, &status);
    }
}

/// An entry of a map field.
fn map_entry(key: &str, value: &[u8]) -> Vec<u8> {
    let mut entry = Vec::new();
    field(&mut entry, 1, key.as_bytes());
    field(&mut entry, 2, value);
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xds::proto::fields;

    fn subscription(initial_versions: &[(&str, &str)]) -> PlannedSubscription {
        let initial_versions =
            initial_versions.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let names = vec!["a".to_owned(), "b".to_owned()];
        let url = types::parse_type("eds").unwrap();
        PlannedSubscription { url, names, initial_versions, expect: Expect::Response, probe: false }
    }

    fn numbers(bytes: &[u8]) -> Vec<u32> {
        fields(bytes).map(|(number, _)| number).collect()
    }

    #[test]
    fn sotw_repeats_its_names_and_delta_does_not() {
        let sotw = subscription(&[]).encoded(Protocol::Sotw);
        assert_eq!(numbers(&sotw.repeated), [4, 3, 3]);
        let delta = subscription(&[("a", "1")]).encoded(Protocol::Delta);
        assert_eq!(
            (numbers(&delta.first_request), numbers(&delta.repeated)),
            (vec![2, 3, 3, 5], vec![2])
        );
    }

    #[test]
    fn answers_say_what_the_variant_asks_for() {
        let sent = |protocol, ack_mode| {
            let mut out = Vec::new();
            acknowledge(&mut out, protocol, ack_mode, b"v", b"n");
            numbers(&out)
        };
        assert_eq!(sent(Protocol::Sotw, AckMode::Acks), [1, 5]);
        assert_eq!(sent(Protocol::Sotw, AckMode::Nacks), [5, 6]);
        assert_eq!(sent(Protocol::Delta, AckMode::Acks), [6]);
        assert_eq!(sent(Protocol::Delta, AckMode::Nacks), [6, 7]);
    }

    #[test]
    fn every_client_has_its_own_name() {
        let metadata = vec![("k".to_owned(), "v".to_owned())];
        let node = Node { id: "bench-{}".to_owned(), cluster: "c".to_owned(), metadata };
        let bytes = node.encoded(7);
        let all: Vec<_> = fields(&bytes).collect();
        assert_eq!(all[0], (1, &b"bench-7"[..]));
        assert_eq!(all.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3, 6]);
    }
}
