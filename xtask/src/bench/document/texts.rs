//! The texts of the document that are not figures: `xtask/data/bench`.

/// The introduction of the document.
pub(super) const INTRO: &str = include_str!("../../../data/bench/intro.md");

/// The text on the method that all comparisons share.
pub(super) const HOW: &str = include_str!("../../../data/bench/how.md");

/// The text of each goal: the measurement, then after a line `---` the reason why it is missed.
const GOALS: [&str; 25] = [
    include_str!("../../../data/bench/G1.md"),
    include_str!("../../../data/bench/G2.md"),
    include_str!("../../../data/bench/G3.md"),
    include_str!("../../../data/bench/G4.md"),
    include_str!("../../../data/bench/G5.md"),
    include_str!("../../../data/bench/G6.md"),
    include_str!("../../../data/bench/G7.md"),
    include_str!("../../../data/bench/G8.md"),
    include_str!("../../../data/bench/G9.md"),
    include_str!("../../../data/bench/G10.md"),
    include_str!("../../../data/bench/G11.md"),
    include_str!("../../../data/bench/G12.md"),
    include_str!("../../../data/bench/G13.md"),
    include_str!("../../../data/bench/G14.md"),
    include_str!("../../../data/bench/G15.md"),
    include_str!("../../../data/bench/G16.md"),
    include_str!("../../../data/bench/G17.md"),
    include_str!("../../../data/bench/G18.md"),
    include_str!("../../../data/bench/G19.md"),
    include_str!("../../../data/bench/G20.md"),
    include_str!("../../../data/bench/G21.md"),
    include_str!("../../../data/bench/G22.md"),
    include_str!("../../../data/bench/G23.md"),
    include_str!("../../../data/bench/G24.md"),
    include_str!("../../../data/bench/G25.md"),
];

/// The text on the measurement of a goal.
pub(super) fn setup(goal: &str) -> &'static str {
    parts(goal).0
}

/// The reason why a goal is missed, if it is known.
pub(super) fn missed(goal: &str) -> Option<&'static str> {
    parts(goal).1.filter(|why| !why.trim().is_empty())
}

fn parts(goal: &str) -> (&'static str, Option<&'static str>) {
    let number = goal.strip_prefix('G').and_then(|number| number.parse::<usize>().ok());
    let text = number.and_then(|number| GOALS.get(number.checked_sub(1)?)).copied().unwrap_or("");
    match text.split_once("\n---\n") {
        Some((setup, why)) => (setup, Some(why)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_has_a_text() {
        for number in 1..=23 {
            assert!(!setup(&format!("G{number}")).trim().is_empty(), "G{number}");
        }
        assert_eq!((setup("G26"), missed("G0")), ("", None));
    }
}
