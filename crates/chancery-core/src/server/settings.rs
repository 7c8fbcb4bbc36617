//! The settings of the protocol: waits and limits, each with a name and a default.

use std::time::Duration;

use crate::TypeUrl;

/// The waits and limits of every stream of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The time after which an unanswered response no longer holds up the next one of its type
    /// (S-042).
    pub ack_wait: Duration,
    /// The longest time for which routes and listeners wait for the endpoints of clusters that are
    /// new to the client (S-097).
    pub warm_wait: Duration,
    /// The longest time for which a removal waits until the client has acknowledged what stopped
    /// using the resource (S-098).
    pub removal_wait: Duration,
    /// The longest time for which a client waits for a name that is pending, because the source
    /// does not know yet whether it exists. Then the name is answered as absent.
    pub source_wait: Duration,
    /// The size above which a response is split where the protocol allows that (S-110). Clients
    /// commonly accept 4 MiB.
    pub max_response_bytes: usize,
    /// The most names of one stream, of all types together; and the most names in one list of a
    /// request. A name that is unsubscribed and still told about, because of a wildcard or glob, counts
    /// until then.
    pub max_names: usize,
    /// The most bytes of one name or type URL, and of the texts by which a node says who and where it
    /// is.
    pub max_name_length: usize,
    /// The most bytes of all names of one stream, of all types together; and of all names and
    /// versions in one request.
    pub max_name_bytes: usize,
    /// The most types of one stream.
    pub max_types: usize,
    /// The most bytes of the node in a request, as it is on the wire. What is kept of it may take eight
    /// times as much.
    pub max_node_bytes: usize,
    /// The types for which an empty first request is a wildcard (true) or is not (false), where
    /// [`crate::TypeRules`] says otherwise (S-053).
    pub legacy_wildcard: Vec<(TypeUrl, bool)>,
    /// True if SotW clients are sent errors of missing names in responses of their own. If false,
    /// these errors go into responses that are sent anyway (S-066, S-068).
    pub report_missing: bool,
    /// True if this stream may carry secrets (S-137). If false, names of SDS are answered with
    /// PERMISSION_DENIED, and a response of another type with a secret in it ends the stream.
    pub secrets_allowed: bool,
    /// True if streams in the same state share the work of their responses. If false, each stream
    /// works out its own; the responses are the same, which tests show by comparing both ways.
    pub share_responses: bool,
}

/// The limits on one request, which its decoder applies before it keeps anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The most names in one list.
    pub max_names: usize,
    /// The most bytes of one name or type URL.
    pub max_name_length: usize,
    /// The most bytes of all names and versions.
    pub max_name_bytes: usize,
    /// The most bytes of the node.
    pub max_node_bytes: usize,
}

impl Settings {
    /// The limits on one request.
    pub fn request_limits(&self) -> RequestLimits {
        RequestLimits {
            max_names: self.max_names,
            max_name_length: self.max_name_length,
            max_name_bytes: self.max_name_bytes,
            max_node_bytes: self.max_node_bytes,
        }
    }
}

impl RequestLimits {
    /// No limits, for readers who trust the sender.
    pub const NONE: Self = Self {
        max_names: usize::MAX,
        max_name_length: usize::MAX,
        max_name_bytes: usize::MAX,
        max_node_bytes: usize::MAX,
    };

    /// The most bytes that may be kept of the node: eight times those that it may have.
    pub fn max_node_memory(&self) -> usize {
        self.max_node_bytes.saturating_mul(NODE_GROWTH)
    }
}

/// The most that a node may take in memory, as a multiple of what it may have on the wire. Metadata of
/// texts takes four times as much.
const NODE_GROWTH: usize = 8;

impl Default for Settings {
    fn default() -> Self {
        Self {
            ack_wait: Duration::from_secs(10),
            warm_wait: Duration::from_secs(10),
            removal_wait: Duration::from_secs(20),
            source_wait: Duration::from_secs(10),
            max_response_bytes: 4 * 1024 * 1024 - 64 * 1024,
            max_names: 250_000,
            max_name_length: 4 * 1024,
            max_name_bytes: 64 * 1024 * 1024,
            max_types: 256,
            max_node_bytes: 1024 * 1024,
            legacy_wildcard: Vec::new(),
            report_missing: false,
            secrets_allowed: true,
            share_responses: true,
        }
    }
}
