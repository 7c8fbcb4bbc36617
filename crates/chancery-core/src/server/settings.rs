//! What an operator can set about the protocol: waits and limits, each with a name and a default.

use std::time::Duration;

use crate::TypeUrl;

/// Waits and limits of every stream of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How long a response may stay unanswered before the next one of its type is sent all the
    /// same (S-042).
    pub ack_wait: Duration,
    /// How long routes and listeners wait for the endpoints of clusters new to the client (S-097).
    pub warm_wait: Duration,
    /// How long removals wait for the acknowledgement of what stopped using them (S-098).
    pub removal_wait: Duration,
    /// How long a client waits for a name of which the source cannot tell yet whether it exists; it
    /// is answered as absent then.
    pub source_wait: Duration,
    /// Responses above this are split where the protocol allows it (S-110). Clients commonly
    /// accept 4 MiB.
    pub max_response_bytes: usize,
    /// How many names one subscription may have.
    pub max_names: usize,
    /// How many types one stream may ask for.
    pub max_types: usize,
    /// Types whose empty first request means something else than [`crate::TypeRules`] says (S-053).
    pub legacy_wildcard: Vec<(TypeUrl, bool)>,
    /// Whether a SotW client is told of missing names in a response of their own. Off: the errors
    /// ride on responses that are sent anyway (S-066, S-068).
    pub report_missing: bool,
    /// Whether this stream may carry secrets (S-137); if not, they are withheld with an error.
    pub secrets_allowed: bool,
    /// True if streams in the same state share the work of their responses. Off, each stream works
    /// out its own: the responses are the same, which tests show by comparing both ways.
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
