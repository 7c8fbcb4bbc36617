//! The numbers of faults and warnings by file, for those that are not told one by one. Not here: one
//! fault in full (`finding`).

use std::collections::BTreeMap;
use std::path::Path;

use chancery_core::printable::Printable;

/// The number of faults or warnings that are told one by one, and of files that are named after them.
pub(crate) const MOST_TOLD: usize = 20;

/// The numbers of faults or warnings by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountsByFile(BTreeMap<String, usize>);

impl CountsByFile {
    /// Counts more of them in a file.
    pub(crate) fn add(&mut self, file: &str, more: usize) {
        match self.0.get_mut(file) {
            Some(count) => *count += more,
            None => drop(self.0.insert(file.to_owned(), more)),
        }
    }

    /// The number in all files.
    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// The files with their numbers.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(file, count)| (file.as_str(), *count))
    }

    /// The numbers of things with this name in one line, whatever the names of the files are; `None`
    /// if there are none.
    pub(crate) fn line(&self, noun: &str) -> Option<String> {
        let named = self.files().take(MOST_TOLD);
        let named = named.map(|(file, count)| format!("{}: {count}", Printable(file)));
        let mut named: Vec<_> = named.collect();
        if self.0.len() > MOST_TOLD {
            named.push(format!("and in {} more files", self.0.len() - MOST_TOLD));
        }
        let plural = if self.total() == 1 { "" } else { "s" };
        (self.total() > 0)
            .then(|| format!("{} more {noun}{plural} ({})", self.total(), named.join(", ")))
    }
}

impl<'a, P: AsRef<Path> + 'a> FromIterator<(&'a P, &'a usize)> for CountsByFile {
    fn from_iter<I: IntoIterator<Item = (&'a P, &'a usize)>>(counts: I) -> Self {
        let mut all = Self::default();
        counts
            .into_iter()
            .for_each(|(file, count)| all.add(&file.as_ref().display().to_string(), *count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_are_not_told_are_counted_by_file() {
        let mut counts = CountsByFile::default();
        assert_eq!(counts.line("fault"), None);
        counts.add("b.yaml", 2);
        counts.add("a.yaml", 1);
        counts.add("b.yaml", 3);
        assert_eq!(counts.line("fault").unwrap(), "6 more faults (a.yaml: 1, b.yaml: 5)");
        (0..30).for_each(|file| counts.add(&format!("c{file:02}.yaml"), 1));
        let line = counts.line("fault").unwrap();
        assert!(line.starts_with("36 more faults (a.yaml: 1, b.yaml: 5, c00.yaml: 1, "), "{line}");
        assert!(line.ends_with("c17.yaml: 1, and in 12 more files)"), "{line}");
    }

    #[test]
    fn the_name_of_a_file_begins_no_line() {
        let mut counts = CountsByFile::default();
        counts.add("a\n\u{1b}[31m.yaml", 1);
        assert_eq!(counts.line("fault").unwrap(), "1 more fault (a\\n\\u{1b}[31m.yaml: 1)");
    }
}
