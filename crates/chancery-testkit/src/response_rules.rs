//! The rules for a response that do not depend on any request. The only memory they need is that of
//! the nonces.
//!
//! Scripts and reference clients apply them to every response.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_core::Variant;
use chancery_core::server::{Response, ResponseEntry};

/// The check of the responses of one stream, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseRules {
    nonces: BTreeSet<Arc<str>>,
}

impl ResponseRules {
    /// The fault of the next response, if it breaks a rule.
    pub(crate) fn fault(&mut self, response: &Response) -> Option<String> {
        // S-028
        if response.nonce.is_empty() {
            return Some("a response has no nonce (S-028)".to_owned());
        }
        if !self.nonces.insert(Arc::clone(&response.nonce)) {
            return Some(format!("nonce `{}` was used before (S-028)", response.nonce));
        }
        repeated_name(response)
            .or_else(|| response.entries.iter().find_map(|it| entry_fault(response, &it)))
    }
}

/// The fault of a response in which a name stands twice (S-060, S-069).
fn repeated_name(response: &Response) -> Option<String> {
    let mut given = BTreeSet::new();
    for entry in response.entries.iter() {
        if !given.insert(Arc::clone(&entry.name)) {
            return Some(format!("`{}` is in one response twice (S-060)", entry.name));
        }
    }
    let mut removed = BTreeSet::new();
    for name in &response.removed {
        if !removed.insert(name) || given.contains(name) {
            return Some(format!("removed name `{name}` is in one response twice (S-060)"));
        }
    }
    let mut failed = BTreeSet::new();
    for error in &response.errors {
        if given.contains(&error.name) || !failed.insert(&error.name) {
            return Some(format!("failed name `{}` is in one response twice (S-069)", error.name));
        }
        // An error is about one name, or about a glob as such, and never about `*`: xRFC TP3,
        // <https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md>.
        if &*error.name == "*" {
            return Some("an error is about `*` (S-071)".to_owned());
        }
    }
    None
}

/// The fault of an entry with fields that only a wrapper can carry (S-084, S-085, S-086).
fn entry_fault(response: &Response, entry: &ResponseEntry) -> Option<String> {
    let bare = response.variant == Variant::Sotw && !response.wrapped;
    let name = &entry.name;
    if bare && (entry.heartbeat || entry.ttl || entry.resource.is_none()) {
        return Some(format!("`{name}` needs a wrapper and has none (S-085)"));
    }
    if entry.heartbeat && !entry.ttl {
        return Some(format!("the heartbeat of `{name}` carries no TTL (S-087)"));
    }
    if entry.ttl && entry.resource.as_ref().is_some_and(|resource| resource.ttl().is_none()) {
        return Some(format!("`{name}` has no TTL but says so (S-086)"));
    }
    if response.variant == Variant::Sotw && !response.removed.is_empty() {
        return Some("a SotW response removes names (S-058)".to_owned());
    }
    None
}
