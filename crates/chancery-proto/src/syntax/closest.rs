//! The known name that is closest to a misspelt one.

/// The candidate with the fewest edits, if they are few for its length.
pub(crate) fn closest<'c>(
    found: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    const LONGEST: usize = 128;
    if found.len() > LONGEST {
        return None;
    }
    let found: Vec<char> = found.chars().map(normal).collect();
    let bound = (found.len() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(found.len()) <= bound)
        .map(|candidate| (distance(&found, candidate), candidate))
        .filter(|(edits, _)| *edits <= bound)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Maps `connectTimeout`, `connect-timeout` and `connect_timeout` to similar texts.
fn normal(character: char) -> char {
    if character == '-' { '_' } else { character.to_ascii_lowercase() }
}

/// The number of insertions, deletions, replacements and swaps of neighbours between two texts.
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().map(normal).collect();
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, wanted) in from.iter().enumerate() {
        let mut current = vec![row + 1; to.len() + 1];
        for (column, found) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(wanted != found);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *wanted == to[column - 1] && from[row - 1] == *found {
                best = best.min(before_last[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

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
