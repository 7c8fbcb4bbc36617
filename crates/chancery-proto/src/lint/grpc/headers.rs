//! Matchers of headers in routes, and matchers of texts in these and in RBAC, that gRPC rejects (C-096, C-129).

use prost_reflect::DynamicMessage;

use super::{ALL, CORE, Findings, GO, JAVA};
use crate::rules::is_pattern;
use crate::walk::{message_in, text_in};

/// Adds what is found in a matcher of a header of a route.
pub(super) fn lint(path: &str, header: &DynamicMessage, found: &mut Findings) {
    lint_presence(path, header, found);
    let text = message_in(header, "string_match");
    if let Some(text) = text {
        lint_text(&format!("{path}.string_match"), text, found);
    }
    let regexes = [
        ("string_match.safe_regex", text.and_then(|it| message_in(it, "safe_regex"))),
        ("safe_regex_match", message_in(header, "safe_regex_match")),
    ];
    for (field, regex) in regexes {
        if regex.is_some_and(|regex| !is_pattern(text_in(regex, "regex"))) {
            let why = "the pattern cannot be parsed, which ends a program with gRPC Node";
            found.rejected(ALL, format!("{path}.{field}.regex"), why);
        }
    }
}

/// Adds it if a header is compared with nothing.
pub(super) fn lint_presence(path: &str, header: &DynamicMessage, found: &mut Findings) {
    if !MATCHES.iter().any(|field| header.has_field_by_name(field)) {
        let why = "a header must be compared with something; `present_match: true` is for any";
        found.rejected(GO.and(CORE).and(JAVA), path, why);
    }
}

/// Adds what is found in a matcher of a text, but for its pattern.
pub(super) fn lint_text(path: &str, text: &DynamicMessage, found: &mut Findings) {
    if ["exact", "prefix", "suffix", "safe_regex", "contains"]
        .iter()
        .all(|field| !text.has_field_by_name(field))
    {
        let why =
            "a text must be compared by `exact`, `prefix`, `suffix`, `safe_regex` or `contains`";
        found.rejected(GO.and(CORE).and(JAVA), path, why);
    }
    for field in ["prefix", "suffix", "contains"] {
        if text.has_field_by_name(field) && text_in(text, field).is_empty() {
            found.rejected(GO, format!("{path}.{field}"), "must not be empty");
        }
    }
}

/// The name of the matchers of texts.
pub(super) const TEXT: &str = "envoy.type.matcher.v3.StringMatcher";

/// The ways to compare a header.
const MATCHES: [&str; 8] = [
    "exact_match",
    "safe_regex_match",
    "range_match",
    "present_match",
    "prefix_match",
    "suffix_match",
    "contains_match",
    "string_match",
];
