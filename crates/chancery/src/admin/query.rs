//! The query of a request: `key=value&…`, with percent signs for whatever is not plain.

use chancery_core::percent;

/// The pairs of a query, decoded; `None` if a part is no pair.
pub(super) fn pairs(query: &str) -> Option<Vec<(&str, String)>> {
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

fn pair(part: &str) -> Option<(&str, String)> {
    let (key, value) = part.split_once('=')?;
    Some((key, percent::decode(value).ok()?))
}
