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
    /// The most names of one subscription.
    pub max_names: usize,
    /// The most types of one stream.
    pub max_types: usize,
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            ack_wait: Duration::from_secs(10),
            warm_wait: Duration::from_secs(10),
            removal_wait: Duration::from_secs(20),
            source_wait: Duration::from_secs(10),
            max_response_bytes: 4 * 1024 * 1024 - 64 * 1024,
            max_names: 250_000,
            max_types: 256,
            legacy_wildcard: Vec::new(),
            report_missing: false,
            secrets_allowed: true,
            share_responses: true,
        }
    }
}
