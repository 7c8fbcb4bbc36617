//! Comments in a file that let a finding pass: `# chancery: allow CODE: REASON`.
//!
//! A comment stands directly above what it is about. If a resource begins there, it counts for all of the
//! resource, and otherwise for the one line. It hides nothing of a file that cannot be used. Not here: the
//! codes that exist, and the comments that let nothing pass, which only whoever knows all findings can tell.

use chancery_proto::document::{Format, Position};

use crate::allowed_places::LineIndex;

/// A comment that lets a finding pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The line of the comment.
    pub line: u32,
    /// The code of the finding, or its class.
    pub code: String,
    /// True if it let something pass when the file was read.
    pub is_used: bool,
    /// The first and the last line that it counts for.
    from: u32,
    to: u32,
    /// The first line of the resource that these are of.
    pub(crate) resource: u32,
}

/// The comments of a text.
#[derive(Debug, Default)]
pub(crate) struct Allowances {
    all: Vec<Allowance>,
    index: LineIndex,
    /// The lines of those that are no such comment, or have no reason.
    pub(crate) malformed: Vec<u32>,
}

impl Allowance {
    /// The first and the last line that it counts for; `None` if nothing stands below it.
    pub(crate) fn lines(&self) -> Option<[u32; 2]> {
        (self.from <= self.to).then_some([self.from, self.to])
    }

    /// The same comment in a text that begins so many lines later.
    pub(crate) fn moved(mut self, lines: u32) -> Self {
        for line in [&mut self.line, &mut self.from, &mut self.to, &mut self.resource] {
            *line = line.saturating_add(lines);
        }
        self
    }
}

/// Returns true if a code is this one, or of this class.
pub(crate) fn is_of(code: &str, wanted: &str) -> bool {
    code == wanted || class(code) == Some(wanted)
}

/// The class of a code, if it is of one.
pub(crate) fn class(code: &str) -> Option<&str> {
    code.split_once('/').map(|(class, _)| class)
}

impl Allowances {
    /// Reads the comments of a text whose resources begin at these positions.
    pub(crate) fn read(
        format: Format,
        bytes: &[u8],
        starts: impl Iterator<Item = Position>,
    ) -> Self {
        let mut found = Self::default();
        let has_comments = matches!(format, Format::Yaml | Format::Text);
        let text = str::from_utf8(bytes).ok().filter(|text| has_comments && text.contains(MARK));
        let Some(text) = text else { return found };
        let mut starts: Vec<_> = starts.map(|start| start.line).collect();
        starts.sort_unstable();
        // A text may be a piece of a file, and nothing behind it is meant.
        let last = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
        // Those above the next line that is no comment.
        let mut waiting: Vec<(u32, &str)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if let Some(words) = line.strip_prefix(MARK) {
                match allowed(words) {
                    Some(code) => waiting.push((number, code)),
                    None => found.malformed.push(number),
                }
            } else if !line.is_empty() && !line.starts_with('#') {
                let next = starts.partition_point(|start| *start <= number);
                let is_start = next.checked_sub(1).is_some_and(|at| starts[at] == number);
                let end = starts.get(next).map_or(last, |next| next - 1);
                let to = if is_start { end } else { number };
                let resource = next.checked_sub(1).map_or(0, |at| starts[at]);
                found.all.extend(waiting.drain(..).map(|(line, code)| Allowance {
                    line,
                    code: code.to_owned(),
                    is_used: false,
                    from: number,
                    to,
                    resource,
                }));
            }
        }
        // Those below which nothing stands count for nothing.
        let nothing = |(line, code): (u32, &str)| Allowance {
            line,
            code: code.to_owned(),
            is_used: false,
            from: 1,
            to: 0,
            resource: 0,
        };
        found.all.extend(waiting.into_iter().map(nothing));
        for (at, allowance) in found.all.iter().enumerate() {
            found.index.add(at, allowance);
        }
        found
    }

    /// Returns true if a finding of this code may pass, which is at this place.
    pub(crate) fn let_pass(&mut self, position: Option<Position>, code: &str) -> bool {
        let Some(Position { line, .. }) = position else { return false };
        let mut passes = false;
        for first in self.index.at(line, code) {
            self.all[first].is_used = true;
            passes = true;
        }
        passes
    }

    /// The comments, each with the answer if it was used.
    pub(crate) fn into_all(mut self) -> Vec<Allowance> {
        for at in 0..self.all.len() {
            let first = self.index.first(&self.all[at]).unwrap_or(at);
            self.all[at].is_used = self.all[first].is_used;
        }
        self.all
    }
}

/// The code in `allow CODE: REASON`, if it has all its parts.
fn allowed(words: &str) -> Option<&str> {
    let (code, reason) = words.trim_start().strip_prefix("allow ")?.split_once(':')?;
    let code = code.trim();
    let is_code = !code.is_empty() && code.len() <= LONGEST_CODE && !code.contains(' ');
    (is_code && !reason.trim().is_empty()).then_some(code)
}

/// The beginning of a comment that is meant for this program.
const MARK: &str = "# chancery:";

/// The longest code that is looked at.
const LONGEST_CODE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, starts: &[u32]) -> Allowances {
        let starts = starts.iter().map(|line| Position { line: *line, column: 1 });
        Allowances::read(Format::Yaml, text.as_bytes(), starts)
    }

    #[test]
    fn a_comment_counts_for_a_resource_or_for_a_line() {
        let text = "\
# chancery: allow rule: old clients only
# another comment

- name: a
  # chancery: allow grpc/x: only here
  b: 1
  c: 1
- name: b
  # chancery: allow rule/y: nothing stands below
";
        let all = read(text, &[4, 8]).into_all();
        let [whole, line, none] = &all[..] else { panic!("{all:?}") };
        assert_eq!([whole, line, none].map(Allowance::lines), [Some([4, 7]), Some([6, 6]), None]);
        assert_eq!((whole.line, line.line, none.line), (1, 5, 9));
        assert_eq!((whole.resource, line.resource), (4, 4));
        let moved = whole.clone().moved(10);
        assert_eq!((moved.lines(), moved.resource), (Some([14, 17]), 14));
    }

    #[test]
    fn a_comment_needs_a_code_and_a_reason() {
        for comment in ["allow rule", "allow rule:", "allow: why", "alow rule: why", "allow a b: c"]
        {
            let read = read(&format!("# chancery: {comment}\nname: a\n"), &[2]);
            assert_eq!((read.all.len(), read.malformed), (0, vec![1]), "{comment}");
        }
        assert!(read("# chancery serves this\nname: a\n", &[2]).malformed.is_empty());
    }
}
