//! Findings of the new form of a resource that its old form does not have, wherever they stand.
//!
//! The index of a field says little of what it was before: who inserts a filter chain in front of others moves all that
//! is wrong with them. So as many findings of one key are old as there were before, those at the same path first.

use std::collections::BTreeMap;

/// The findings that were not there before, of those that are there now.
pub(super) fn fresh<T, K: Ord>(
    was: &[T],
    now: Vec<T>,
    key: impl Fn(&T) -> K,
    path: impl Fn(&T) -> &str,
) -> Vec<T> {
    let mut old: BTreeMap<K, Vec<&str>> = BTreeMap::new();
    for finding in was {
        old.entry(key(finding)).or_default().push(path(finding));
    }
    old.values_mut().for_each(|paths| paths.sort_unstable());
    let is_at_same_place = |finding: &T| {
        let paths = old.get(&key(finding));
        paths.is_some_and(|paths| paths.binary_search(&path(finding)).is_ok())
    };
    let (same, moved): (Vec<_>, Vec<_>) = now.into_iter().partition(is_at_same_place);
    // From here on their number counts alone.
    for finding in &same {
        old.get_mut(&key(finding)).map(Vec::pop);
    }
    let is_new = |finding: &T| old.get_mut(&key(finding)).and_then(Vec::pop).is_none();
    moved.into_iter().filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(was: &[(&str, &'a str)], now: &[(&'a str, &'a str)]) -> Vec<&'a str> {
        let was: Vec<(&str, &str)> = was.to_vec();
        let found = fresh(&was, now.to_vec(), |it| it.0.to_owned(), |it| it.1);
        found.into_iter().map(|it| it.1).collect()
    }

    #[test]
    fn what_has_only_moved_is_not_new() {
        let was = [("a", "chains[0]"), ("a", "chains[1]")];
        assert_eq!(of(&was, &[("a", "chains[1]"), ("a", "chains[2]")]), [""; 0]);
        assert_eq!(of(&was, &[("b", "chains[0]"), ("a", "chains[1]")]), ["chains[0]"]);
        let all = [("a", "chains[0]"), ("a", "chains[1]"), ("a", "chains[2]")];
        assert_eq!(of(&was, &all), ["chains[2]"]);
        assert_eq!(of(&was[1..], &all), ["chains[0]", "chains[2]"]);
    }
}
