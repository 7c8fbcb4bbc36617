//! The query of a request: `key=value&…`, with percent signs for whatever is not plain.

use std::collections::BTreeSet;

use chancery_core::percent;

/// The pairs of a query, decoded; `None` if a part is no pair.
pub(super) fn pairs(query: &str) -> Option<Vec<(&str, String)>> {
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn pair(part: &str) -> Option<(&str, String)> {
    let (key, value) = part.split_once('=')?;
    Some((key, percent::decode(value).ok()?))
}

/// The keys and values of a query in which each key stands once.
pub(super) fn distinct_pairs(text: &str) -> Option<Vec<(&str, String)>> {
    let (pairs, mut known) = (pairs(text)?, BTreeSet::new());
    pairs.iter().all(|(key, _)| known.insert(*key)).then_some(pairs)
}
