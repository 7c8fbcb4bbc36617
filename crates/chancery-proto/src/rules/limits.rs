//! The limits of numbers, and of what is compared like one: a constant, a range, and lists.
//!
//! Integers, durations in nanoseconds and enum numbers are compared as `i128`, so nothing is rounded.
//! Not here: the reading of the options (`options`), and the values (`check`).

use std::fmt::Write as _;

use super::name::{LimitNames, RuleName};

/// The limits of a value.
#[derive(Debug)]
pub(super) struct Limits<T> {
    pub(super) names: &'static LimitNames,
    pub(super) constant: Option<T>,
    pub(super) lower: Option<Bound<T>>,
    pub(super) upper: Option<Bound<T>>,
    pub(super) one_of: Vec<T>,
    pub(super) none_of: Vec<T>,
    /// True if a zero is no value.
    pub(super) ignore_empty: bool,
}

/// One end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound<T> {
    pub(super) at: T,
    /// True if the bound itself is allowed.
    pub(super) inclusive: bool,
}

impl<T: Copy + Default + PartialOrd> Limits<T> {
    /// No limits.
    pub(super) fn none(names: &'static LimitNames) -> Self {
        Self {
            names,
            constant: None,
            lower: None,
            upper: None,
            one_of: Vec::new(),
            none_of: Vec::new(),
            ignore_empty: false,
        }
    }

    /// Returns true if there are no limits.
    pub(super) fn is_none(&self) -> bool {
        self.constant.is_none()
            && self.lower.is_none()
            && self.upper.is_none()
            && self.one_of.is_empty()
            && self.none_of.is_empty()
    }

    /// Tells `broken` the rules that the value breaks. A value that cannot be compared (NaN) breaks
    /// no bound.
    pub(super) fn judge(&self, value: T, broken: &mut dyn FnMut(RuleName)) {
        if self.ignore_empty && value == T::default() {
            return;
        }
        if self.constant.is_some_and(|constant| value != constant) {
            broken(self.names.constant);
        }
        let below = self.lower.filter(|lower| lower.is_broken_below(value));
        let above = self.upper.filter(|upper| upper.is_broken_above(value));
        match (below, above) {
            (Some(_), Some(_)) if self.is_outside() => broken(self.names.outside),
            _ if self.is_outside() => {}
            (Some(lower), _) if lower.inclusive => broken(self.names.gte),
            (Some(_), _) => broken(self.names.gt),
            (None, Some(upper)) if upper.inclusive => broken(self.names.lte),
            (None, Some(_)) => broken(self.names.lt),
            (None, None) => {}
        }
        if !self.one_of.is_empty() {
            if !self.one_of.contains(&value) {
                broken(self.names.one_of);
            }
        } else if self.none_of.contains(&value) {
            broken(self.names.none_of);
        }
    }

    /// Returns true if the range is all that lies outside of the two bounds.
    fn is_outside(&self) -> bool {
        self.lower.zip(self.upper).is_some_and(|(lower, upper)| {
            // A range of one value is inside of nothing, as in protoc-gen-validate.
            upper.at.partial_cmp(&lower.at) != Some(std::cmp::Ordering::Greater)
        })
    }

    /// The sentence of a rule, with the limits as `show` writes them.
    pub(super) fn describe(&self, rule: RuleName, show: impl Fn(T) -> String) -> String {
        let list = |values: &[T]| listed(values.iter().map(|value| show(*value)));
        if rule == self.names.constant {
            return format!("must be {}", self.constant.map_or_else(String::new, show));
        }
        if rule == self.names.one_of {
            return format!("must be {}", list(&self.one_of));
        }
        if rule == self.names.none_of {
            return format!("must not be {}", list(&self.none_of));
        }
        let lower = self.lower.map(|lower| {
            let word = if lower.inclusive { "at least" } else { "greater than" };
            format!("{word} {}", show(lower.at))
        });
        let upper = self.upper.map(|upper| {
            let word = if upper.inclusive { "at most" } else { "less than" };
            format!("{word} {}", show(upper.at))
        });
        match (lower, upper) {
            (Some(lower), Some(upper)) if self.is_outside() => {
                format!("must be {upper} or {lower}")
            }
            (Some(lower), Some(upper)) => format!("must be {lower} and {upper}"),
            (lower, upper) => {
                format!("must be {}", lower.into_iter().chain(upper).collect::<String>())
            }
        }
    }
}

impl<T: PartialOrd> Bound<T> {
    fn is_broken_below(&self, value: T) -> bool {
        if self.inclusive { value < self.at } else { value <= self.at }
    }

    fn is_broken_above(&self, value: T) -> bool {
        if self.inclusive { value > self.at } else { value >= self.at }
    }
}

/// Values as people list them: `a`, or `a or b`, or `a, b or c`. Of a long list the first are shown.
pub(super) fn listed(values: impl ExactSizeIterator<Item = String>) -> String {
    const MOST: usize = 12;
    let (count, mut text) = (values.len(), String::new());
    for (at, value) in values.take(MOST).enumerate() {
        let before = match at {
            0 => "",
            _ if at + 1 == count => " or ",
            _ => ", ",
        };
        let _ = write!(text, "{before}{value}");
    }
    if count > MOST {
        let _ = write!(text, " or {} others", count - MOST);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::name::NUMBER;
    use super::*;

    fn limits(lower: Option<(i128, bool)>, upper: Option<(i128, bool)>) -> Limits<i128> {
        let bound = |(at, inclusive)| Bound { at, inclusive };
        let (lower, upper) = (lower.map(bound), upper.map(bound));
        Limits { lower, upper, ..Limits::none(&NUMBER) }
    }

    fn broken(limits: &Limits<i128>, value: i128) -> Vec<String> {
        let mut all = Vec::new();
        limits.judge(value, &mut |rule| {
            all.push(format!("{rule}: {}", limits.describe(rule, |value| value.to_string())));
        });
        all
    }

    #[test]
    fn a_range_says_which_end_was_passed() {
        let range = limits(Some((1, true)), Some((5, false)));
        assert_eq!(broken(&range, 0), ["number.gte: must be at least 1 and less than 5"]);
        assert_eq!(broken(&range, 5), ["number.lt: must be at least 1 and less than 5"]);
        assert_eq!(broken(&range, 1), [""; 0]);
        let above = limits(Some((0, false)), None);
        assert_eq!(broken(&above, 0), ["number.gt: must be greater than 0"]);
    }

    #[test]
    fn a_range_whose_ends_are_swapped_is_what_lies_outside() {
        let range = limits(Some((5, false)), Some((1, true)));
        for (value, is_broken) in [(1, false), (2, true), (5, true), (6, false)] {
            assert_eq!(broken(&range, value).len(), usize::from(is_broken), "{value}");
        }
        assert_eq!(broken(&range, 3), ["number.outside: must be at most 1 or greater than 5"]);
    }

    #[test]
    fn a_value_that_is_no_number_breaks_no_bound() {
        let bounds =
            Limits { lower: Some(Bound { at: 0.0, inclusive: false }), ..Limits::none(&NUMBER) };
        bounds.judge(f64::NAN, &mut |rule| panic!("{rule}"));
    }

    #[test]
    fn a_zero_is_no_value_where_that_is_said() {
        let limits = Limits { ignore_empty: true, ..limits(Some((3, true)), None) };
        assert_eq!(broken(&limits, 0), [""; 0]);
        assert_eq!(broken(&limits, 1).len(), 1);
    }

    #[test]
    fn lists_are_told_in_words() {
        let limits = Limits { one_of: vec![1, 2, 3], ..Limits::none(&NUMBER) };
        assert_eq!(broken(&limits, 4), ["number.in: must be 1, 2 or 3"]);
        let limits = Limits { none_of: vec![4], ..Limits::none(&NUMBER) };
        assert_eq!(broken(&limits, 4), ["number.not_in: must not be 4"]);
    }
}
