//! The kinds of refusals of which only Envoy can know, each with words that Envoy says.
//!
//! `docs/checks.md` lists them for users. A refusal that is of none of them is to be found by our checks,
//! or is a kind of its own.

use super::stage::Answer;

/// A kind, and words of Envoy that belong to it.
const CLASSES: &[(&str, &[&str])] = &[
    (
        "files and variables of its machine",
        &[
            "Invalid path",
            "invalid file path",
            "unable to add filesystem watch",
            "must refer to an existing path",
            "Environment variable doesn't exist",
            "unable to open file",
            "Failed to load incomplete",
        ],
    ),
    (
        "extensions that are not part of it, or are of another kind",
        &[
            "Didn't find a registered",
            "cannot find filter factory",
            "factory found for a required type URL",
            "filter config has type URL",
            "This Envoy binary does not support",
            "Unknown address resolver",
            "Unable to unpack as",
            "doesn't support virtual host or route specific",
            "Failed to load private key provider",
            "ClusterConfigValidationError.Clusters",
            "Original IP detection extension not found",
        ],
    ),
    (
        "extensions that come by ECDS",
        &["unsupported dynamic configuration", "envoy.filters.http.fault is the last filter"],
    ),
    ("scripts", &["script load error"]),
    ("the size of a compiled pattern", &["RE2 program size"]),
    (
        "inputs of matchers",
        &["requirement violation while creating", "not supported by RBAC network filter"],
    ),
    (
        "what its bootstrap has",
        &[
            "Unknown static secret",
            "Unknown static certificate validation context",
            "unknown cluster",
        ],
    ),
    ("times below zero in fields where nothing says so", &["Expected positive duration"]),
    ("certificates and keys", &["KEY_VALUES_MISMATCH"]),
    (
        "what several resources make together",
        &[
            "SAN-based verification of peer certificates without trusted CA",
            "with different settings",
        ],
    ),
    ("keys of tokens", &["invalid local jwks"]),
    ("names of xdstp", &["does not have a xdstp:"]),
    ("filters of upstreams", &["upstream HTTP filter", "router upstream http filter chain"]),
    ("sources of configuration", &["Missing config source specifier"]),
];

/// The kind of a refusal.
pub(super) fn of(answer: &Answer) -> Option<&'static str> {
    let said = answer.said();
    if said.trim_end().ends_with(':') {
        return Some("refusals without a word");
    }
    let is_of = |words: &&[&str]| words.iter().any(|words| said.contains(words));
    CLASSES.iter().find(|(_, words)| is_of(words)).map(|(class, _)| *class)
}
