//! The known name that is closest to a misspelt one, and the question if it is meant.

use std::borrow::Cow;
use std::fmt::Write;

/// The candidate with the fewest edits, if they are few for its length. Case does not count, nor `-`
/// beside `_`, nor a letter beside one that looks like it. A text of more than 128 bytes has none.
pub fn closest<'c>(found: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 128;
    if found.len() > LONGEST {
        return None;
    }
    let found: Vec<char> = found.chars().map(normal).collect();
    let bound = (found.len() / 3).clamp(1, 4);
    let candidates = candidates.into_iter();
    let near =
        candidates.filter(|candidate| candidate.chars().count().abs_diff(found.len()) <= bound);
    let near = near.filter_map(|candidate| Some((distance(&found, candidate, bound)?, candidate)));
    near.min().map(|(_, candidate)| candidate)
}

/// The question if a known name is meant by one that is not, as `did you mean `shop`?`. If the two may look the same, the
/// letters in them that are none of ASCII are spelled out.
pub fn did_you_mean(found: &str, near: &str) -> String {
    did_you_mean_this(found, near, |near| format!("`{near}`"))
}

/// The same question, with other words around the name.
pub fn did_you_mean_this(found: &str, near: &str, words: impl Fn(&str) -> String) -> String {
    match (spelled(found, near), spelled(near, found)) {
        (Cow::Borrowed(_), near) => format!("did you mean {}?", words(&near)),
        (found, near) => format!("did you mean {} in place of `{found}`?", words(&near)),
    }
}

/// A name with its letters spelled out that are none of ASCII, if it has some of ASCII too, or the name beside it has no
/// others: such a name may look like another one. A name in letters of another script stays as it is.
fn spelled<'n>(name: &'n str, beside: &str) -> Cow<'n, str> {
    let may_deceive = beside.is_ascii() || name.chars().any(|it| it.is_ascii_alphabetic());
    if name.is_ascii() || !may_deceive {
        return Cow::Borrowed(name);
    }
    let mut text = String::new();
    for character in name.chars() {
        match character.is_ascii() {
            true => text.push(character),
            false => _ = write!(text, "{}", character.escape_unicode()),
        }
    }
    Cow::Owned(text)
}

/// Maps `connectTimeout`, `connect-timeout` and `connect_timeout` to similar texts.
fn normal(character: char) -> char {
    let alike = LOOKALIKES.iter().find(|(other, _)| *other == character);
    match alike.filter(|_| !character.is_ascii()).map_or(character, |(_, latin)| *latin) {
        '-' => '_',
        character => character.to_ascii_lowercase(),
    }
}

/// Letters that look like a Latin one, and hyphens.
const LOOKALIKES: [(char, char); 20] = [
    ('\u{430}', 'a'),
    ('\u{435}', 'e'),
    ('\u{43a}', 'k'),
    ('\u{43e}', 'o'),
    ('\u{440}', 'p'),
    ('\u{441}', 'c'),
    ('\u{443}', 'y'),
    ('\u{445}', 'x'),
    ('\u{455}', 's'),
    ('\u{456}', 'i'),
    ('\u{458}', 'j'),
    ('\u{501}', 'd'),
    ('\u{3b1}', 'a'),
    ('\u{3bd}', 'v'),
    ('\u{3bf}', 'o'),
    ('\u{3c1}', 'p'),
    ('\u{2010}', '-'),
    ('\u{2011}', '-'),
    ('\u{2013}', '-'),
    ('\u{2212}', '-'),
];

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
    fn names_that_look_the_same_are_told_apart() {
        let (latin, mixed, cyrillic) = ("shop", "sh\u{43e}\u{440}", "\u{441}\u{43e}\u{440}\u{430}");
        assert_eq!(closest(mixed, ["other", latin]), Some(latin));
        assert_eq!(closest(latin, ["other", mixed]), Some(mixed));
        assert_eq!(closest(cyrillic, ["copa"]), Some("copa"));
        assert_eq!(did_you_mean("shpo", latin), "did you mean `shop`?");
        let told = "did you mean `shop` in place of `sh\\u{43e}\\u{440}`?";
        assert_eq!(did_you_mean(mixed, latin), told);
        assert_eq!(did_you_mean(latin, mixed), "did you mean `sh\\u{43e}\\u{440}`?");
        let hidden = did_you_mean("shop\u{200b}", latin);
        assert_eq!(hidden, "did you mean `shop` in place of `shop\\u{200b}`?");
        let words = |name: &str| format!("eds `{name}`, to which nothing refers");
        let told = did_you_mean_this(cyrillic, "copa", words);
        assert!(told.ends_with("refers in place of `\\u{441}\\u{43e}\\u{440}\\u{430}`?"), "{told}");
        // In a script of its own a name is read as it is.
        let (slip, meant) = ("\u{441}\u{43e}\u{440}-1", "\u{441}\u{43e}\u{440}-2");
        assert_eq!(did_you_mean(slip, meant), format!("did you mean `{meant}`?"));
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
