//! The known name that is closest to a misspelt one.

/// The candidate with the fewest edits, if they are few for its length. Case does not count, nor `-`
/// beside `_`. A text of more than 128 bytes has none.
pub fn closest<'c>(found: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 128;
    if found.len() > LONGEST {
        return None;
    }
    let found: Vec<char> = found.chars().map(normal).collect();
    let bound = (found.len() / 3).clamp(1, 4);
    let candidates = candidates.into_iter();
    let near = candidates.filter(|candidate| candidate.len().abs_diff(found.len()) <= bound);
    let near = near.filter_map(|candidate| Some((distance(&found, candidate, bound)?, candidate)));
    near.min().map(|(_, candidate)| candidate)
}

/// Maps `connectTimeout`, `connect-timeout` and `connect_timeout` to similar texts.
fn normal(character: char) -> char {
    if character == '-' { '_' } else { character.to_ascii_lowercase() }
}

/// The number of insertions, deletions, replacements and swaps of neighbours between two texts, if
/// they are not more than `bound`.
///
/// A cell of the table is the number for two beginnings. It is at least the difference of their
/// lengths, so only cells near the diagonal are worked out.
fn distance(from: &[char], to: &str, bound: usize) -> Option<usize> {
    let to: Vec<char> = to.chars().map(normal).collect();
    let too_many = bound + 1;
    let mut before_last = vec![too_many; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, wanted) in from.iter().enumerate() {
        let mut current = vec![too_many; to.len() + 1];
        current[0] = row + 1;
        let (first, end) = (row.saturating_sub(bound), to.len().min(row + bound + 1));
        for (column, found) in to.iter().enumerate().take(end).skip(first) {
            let replaced = last[column] + usize::from(wanted != found);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *wanted == to[column - 1] && from[row - 1] == *found {
                best = best.min(before_last[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        // No row has a smaller minimum than the one before.
        if current.iter().all(|edits| *edits > bound) {
            return None;
        }
        before_last = last;
        last = current;
    }
    Some(last[to.len()]).filter(|edits| *edits <= bound)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_distance_is_exact_up_to_the_bound(
            from in "[ab-]{0,9}", to in "[ab_]{0,9}", bound in 0..9_usize,
        ) {
            let from: Vec<_> = from.chars().map(normal).collect();
            // With this bound all cells are worked out.
            let exact = distance(&from, &to, 9);
            prop_assert_eq!(distance(&from, &to, bound), exact.filter(|edits| *edits <= bound));
        }
    }

    #[test]
    fn the_closest_name_is_offered_only_if_it_is_close() {
        let names = ["connect_timeout", "cluster_type", "type", "name"];
        assert_eq!(closest("conect_timeout", names), Some("connect_timeout"));
        assert_eq!(closest("connect-timeout", names), Some("connect_timeout"));
        assert_eq!(closest("nmae", names), Some("name"));
        assert_eq!(closest("tpye", names), Some("type"));
        assert_eq!(closest("zzzz", names), None);
        assert_eq!(closest("", names), None);
        assert_eq!(closest(&"x".repeat(100_000), names), None);
    }
}
