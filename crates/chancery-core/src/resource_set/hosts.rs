//! The virtual host that a client of VHDS means by a host (S-092, [VHDS]).
//!
//! A host can match many patterns: each of its ends with a `*` before it, and each of its beginnings
//! with one behind it. Only those are looked up whose lengths there are in the set, so that a host
//! costs what the operator's patterns ask for, and not the square of its length.
//!
//! [VHDS]: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Content, ResourceSet};
use crate::Resource;

/// The most bytes of the name of a host ([RFC 1035], 2.3.4, with the dots).
///
/// [RFC 1035]: https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4
const MAX_HOST: usize = 255;

/// The lengths of the patterns that match more than one host, without their `*`.
#[derive(Clone, Debug, Default)]
pub(crate) struct PatternLengths {
    /// Those of `*` and an end.
    suffixes: BTreeSet<usize>,
    /// Those of a beginning and `*`.
    prefixes: BTreeSet<usize>,
}

impl ResourceSet {
    /// The virtual host that `<route configuration>/<host>` means. A domain that equals the host
    /// comes first, then the longest suffix wildcard, then the longest prefix wildcard, then `*`
    /// (S-092). A longer name than that of a host names nothing.
    pub fn get_host(&self, asked: &str) -> Option<&Arc<Resource>> {
        if let Some(found) = self.get_aliased(asked) {
            return Some(found);
        }
        let (route, host) = asked.rsplit_once('/').filter(|(_, host)| host.len() <= MAX_HOST)?;
        if self.is_plain() {
            return None;
        }
        let host = host.to_ascii_lowercase();
        let lengths = self.pattern_lengths();
        let mut key = format!("{route}/{host}");
        let mut find = |parts: [&str; 2]| {
            key.truncate(route.len() + 1);
            key.extend(parts);
            self.get_by_key(&key)
        };
        if let Some(found) = find([&host, ""]) {
            return Some(found);
        }
        for length in lengths.suffixes.range(..host.len()).rev() {
            let end = host.get(host.len() - length..);
            if let Some(found) = end.and_then(|end| find(["*", end])) {
                return Some(found);
            }
        }
        for length in lengths.prefixes.range(..host.len()).rev() {
            if let Some(found) = host.get(..*length).and_then(|begin| find([begin, "*"])) {
                return Some(found);
            }
        }
        find(["*", ""])
    }

    /// The lengths of the patterns of all resources, worked out once for a set.
    fn pattern_lengths(&self) -> &PatternLengths {
        self.memo.pattern_lengths(|| {
            let mut lengths = match &self.content {
                Content::Plain(_) => PatternLengths::default(),
                Content::Overlaid(over) => over.below.pattern_lengths().clone(),
            };
            match &self.content {
                Content::Plain(plain) => plain.keys.iter().for_each(|key| lengths.add(key)),
                Content::Overlaid(over) => over.keys().for_each(|key| lengths.add(key)),
            }
            lengths
        })
    }
}

impl PatternLengths {
    fn add(&mut self, key: &str) {
        let domain = key.rsplit_once('/').map_or(key, |(_, domain)| domain);
        if domain == "*" {
            return;
        }
        if let Some(end) = domain.strip_prefix('*') {
            self.suffixes.insert(end.len());
        } else if let Some(begin) = domain.strip_suffix('*') {
            self.prefixes.insert(begin.len());
        }
    }
}
