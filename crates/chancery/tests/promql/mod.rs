//! The metrics and labels that an expression of PromQL names. It does not say whether the expression is right: that is
//! for `promtool`.

use std::collections::BTreeSet;

/// The names in an expression.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Names {
    pub(crate) selectors: Vec<Selector>,
    /// The labels by which it groups.
    pub(crate) grouped_by: BTreeSet<String>,
}

/// A metric, and the labels by which its series are selected, each with its text.
#[derive(Debug, PartialEq)]
pub(crate) struct Selector {
    pub(crate) metric: String,
    pub(crate) matchers: Vec<(String, String)>,
}

const WITH_LABELS: [&str; 3] = ["by", "on", "group_left"];
const WORDS: [&str; 9] = ["and", "or", "unless", "offset", "bool", "sum", "max", "min", "count"];

/// The names in an expression.
pub(crate) fn names(expression: &str) -> Names {
    let (mut names, mut left) = (Names::default(), Scanner(expression));
    while let Some(next) = left.0.chars().next() {
        match next {
            '[' => _ = left.until(']'),
            '"' => _ = left.text(),
            _ if is_first(next) => left.word_into(&mut names),
            // The letters of a number, as in `15m`, are none of a name.
            _ if next.is_ascii_digit() => _ = left.word(),
            _ => left.skip(next),
        }
    }
    names
}

/// The part of an expression that is not read yet.
struct Scanner<'a>(&'a str);

impl<'a> Scanner<'a> {
    fn word_into(&mut self, names: &mut Names) {
        let word = self.word();
        self.spaces();
        if WITH_LABELS.contains(&word) {
            let labels = self.until(')').trim_start_matches('(');
            names.grouped_by.extend(labels.split(',').map(|label| label.trim().to_owned()));
        } else if !WORDS.contains(&word) && !self.0.starts_with('(') {
            let matchers = if self.0.starts_with('{') { self.matchers() } else { Vec::new() };
            names.selectors.push(Selector { metric: word.to_owned(), matchers });
        }
    }

    fn matchers(&mut self) -> Vec<(String, String)> {
        let mut matchers = Vec::new();
        while let Some(next) = self.0.chars().next() {
            match next {
                '}' => {
                    self.skip('}');
                    break;
                }
                _ if is_first(next) => {
                    let label = self.word().to_owned();
                    let operator = self.0.find('"').expect("a label has a text");
                    self.0 = &self.0[operator..];
                    matchers.push((label, self.text().to_owned()));
                }
                _ => self.skip(next),
            }
        }
        matchers
    }

    fn word(&mut self) -> &'a str {
        let end = self.0.find(|c: char| !is_first(c) && !c.is_ascii_digit());
        let (word, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    /// A text in quotes. None here has a quote in it.
    fn text(&mut self) -> &'a str {
        self.skip('"');
        self.until('"')
    }

    /// All before a character, which is passed over.
    fn until(&mut self, end: char) -> &'a str {
        let (before, rest) = self.0.split_once(end).expect("it ends");
        self.0 = rest;
        before
    }

    fn spaces(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn skip(&mut self, next: char) {
        self.0 = &self.0[next.len_utf8()..];
    }
}

fn is_first(character: char) -> bool {
    character.is_ascii_alphabetic() || "_:".contains(character)
}

#[test]
fn names_are_told_from_functions_labels_and_times() {
    let found = names(
        "histogram_quantile(0.9, sum by (job, le) (rate(a_bucket{x=\"1\", y!~\"b|c\"}[5m]))) \
         > 0.5 * sum by (job) (d offset 15m) and time() - e > 3",
    );
    let metrics: Vec<_> = found.selectors.iter().map(|selector| &*selector.metric).collect();
    assert_eq!(metrics, ["a_bucket", "d", "e"]);
    let matchers = [("x", "1"), ("y", "b|c")].map(|(label, text)| (label.into(), text.into()));
    assert_eq!(found.selectors[0].matchers, matchers);
    assert_eq!(found.grouped_by, ["job", "le"].map(str::to_owned).into());
}
