//! The virtual host that a client of VHDS means by a host (S-092, [VHDS]).
//!
//! A host can match many patterns: each of its ends with a `*` before it, and each of its beginnings
//! with one behind it. Only those are looked up whose lengths there are in the set, so that a host
//! costs what the operator's patterns ask for, and not the square of its length.
//!
//! [VHDS]: https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds

use std::sync::Arc;

use super::{Content, ResourceSet};
use crate::Resource;

/// The most bytes of the name of a host ([RFC 1035], 2.3.4, with the dots).
///
/// [RFC 1035]: https://www.rfc-editor.org/rfc/rfc1035#section-2.3.4
const MAX_HOST: usize = 255;

/// A pattern that matches more than one host, with its length without the `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// A `*` and an end.
    Suffix(u8),
    /// A beginning and a `*`.
    Prefix(u8),
}

/// The lengths of the patterns of a set.
#[derive(Default)]
struct PatternLengths {
    suffixes: Lengths,
    prefixes: Lengths,
}

/// A set of lengths, with a bit for each.
#[derive(Default)]
struct Lengths([u64; 4]);

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
        for length in lengths.suffixes.below(host.len()) {
            let end = host.get(host.len() - length..);
            if let Some(found) = end.and_then(|end| find(["*", end])) {
                return Some(found);
            }
        }
        for length in lengths.prefixes.below(host.len()) {
            if let Some(found) = host.get(..length).and_then(|begin| find([begin, "*"])) {
                return Some(found);
            }
        }
        find(["*", ""])
    }

    /// The lengths of the patterns of all resources. An overlay may hide one, which costs a look-up.
    fn pattern_lengths(&self) -> PatternLengths {
        let (mut lengths, mut set) = (PatternLengths::default(), self);
        loop {
            match &set.content {
                Content::Plain(plain) => {
                    plain.keys.patterns().for_each(|pattern| lengths.add(*pattern));
                    return lengths;
                }
                Content::Overlaid(over) => {
                    over.patterns().for_each(|pattern| lengths.add(*pattern));
                    set = &over.below;
                }
            }
        }
    }
}

impl Pattern {
    /// The pattern of a further key. One that is longer than the name of a host is none.
    pub(super) fn of(key: &str) -> Option<Self> {
        let domain = key.rsplit_once('/').map_or(key, |(_, domain)| domain);
        let length = u8::try_from(domain.len().checked_sub(1)?).ok()?;
        if length == 0 {
            None
        } else if domain.starts_with('*') {
            Some(Self::Suffix(length))
        } else {
            domain.ends_with('*').then_some(Self::Prefix(length))
        }
    }
}

impl PatternLengths {
    fn add(&mut self, pattern: Pattern) {
        match pattern {
            Pattern::Suffix(length) => self.suffixes.add(length),
            Pattern::Prefix(length) => self.prefixes.add(length),
        }
    }
}

impl Lengths {
    fn add(&mut self, length: u8) {
        self.0[usize::from(length / 64)] |= 1 << (length % 64);
    }

    /// The lengths below another, the longest first.
    fn below(&self, end: usize) -> impl Iterator<Item = usize> {
        let has =
            |length: &usize| self.0.get(length / 64).is_some_and(|it| it >> (length % 64) & 1 == 1);
        (0..end).rev().filter(has)
    }
}
