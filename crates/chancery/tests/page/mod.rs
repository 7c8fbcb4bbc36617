//! A page of the documentation as it is followed: commands in a terminal, and a program in a second one.
//!
//! Not here: what the commands are.

use std::collections::VecDeque;

/// A thing that the reader of a page does or sees.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A command, and what it prints.
    Command { words: String, printed: Vec<String> },
    /// A line that the program in the second terminal prints at some time.
    Seen(String),
    /// The end of the program in the second terminal.
    Interrupt,
}

/// Returns the steps in the indented blocks of a page. Lines of the program in the second terminal begin with
/// this word.
pub(crate) fn steps(page: &str, second: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut is_fenced = false;
    for line in page.lines() {
        is_fenced ^= line.starts_with("```");
        let Some(line) = line.strip_prefix("    ").filter(|_| !is_fenced) else { continue };
        if let Some(words) = line.strip_prefix("$ ") {
            steps.push(Step::Command { words: words.to_owned(), printed: Vec::new() });
        } else if line == "^C" {
            steps.push(Step::Interrupt);
        } else if line.starts_with(second) {
            steps.push(Step::Seen(line.to_owned()));
        } else if let Some(Step::Command { printed, .. }) = steps.last_mut() {
            printed.push(line.to_owned());
        } else {
            panic!("nothing prints `{line}`");
        }
    }
    steps
}

/// Returns the fenced blocks in this language.
pub(crate) fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let rest = page.split(&fence).skip(1);
    rest.map(|text| text.split_once("```").expect("its end").0).collect()
}

/// Returns the lines without what differs each time: times, versions, and the numbers of calls and loads.
pub(crate) fn alike<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    lines.into_iter().filter(|line| !line.trim().is_empty()).map(alike_line).collect()
}

fn alike_line(line: &str) -> String {
    let mut words: VecDeque<_> = line.split_whitespace().map(alike_word).collect();
    let counts =
        ["has landed", "calls failed", "were tried again"].iter().any(|part| line.contains(part));
    if counts || words.iter().any(|word| matches!(*word, "TIME" | "DATE")) {
        for word in &mut words {
            if word.trim_end_matches(',').bytes().all(|byte| byte.is_ascii_digit()) {
                *word = "NUMBER";
            }
        }
    }
    Vec::from(words).join(" ")
}

fn alike_word(word: &str) -> &str {
    let number = word.trim_end_matches("ms").trim_end_matches('s');
    if number.len() < word.len() && number.parse::<f64>().is_ok() {
        return "TIME";
    }
    if word.len() == "2026-11-26T10:17:56Z:".len() && word.ends_with("Z:") {
        return "DATE";
    }
    if word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return "VERSION";
    }
    word
}

#[test]
fn a_page_is_read() {
    let page = "\
text
    $ a b
    one

    two
    order 1

```yaml
    $ no
```
    ^C
";
    let printed = vec!["one".to_owned(), "two".to_owned()];
    let expected = [
        Step::Command { words: "a b".to_owned(), printed },
        Step::Seen("order 1".to_owned()),
        Step::Interrupt,
    ];
    assert_eq!(steps(page, "order "), expected);
    assert_eq!(blocks(page, "yaml"), ["    $ no\n"]);
    let one = "orders-v1  eu/a      127.0.0.1:50051     87   0.2ms  0.4ms  OK 87";
    let other = "orders-v1  eu/a  127.0.0.1:50051  9  12.2ms  1s  OK 9";
    assert_eq!(alike([one, " "]), alike([other]));
    assert_ne!(alike(["  priority 0"]), alike(["  priority 1"]));
}
