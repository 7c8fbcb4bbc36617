//! The comments of many files that let findings pass, to be looked up by the place of a finding.
//!
//! There may be many comments and many findings, also in one file, so a finding is compared with none but those
//! that count for its line. Equal comments for the same lines are one. Not here: how a comment is read (`allowance`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use crate::allowance::{Allowance, class};

/// The comments in files that let findings pass. Two are equal if they have equal comments.
#[derive(Debug, Default)]
pub struct AllowedPlaces {
    all: Vec<(Arc<Path>, Allowance)>,
    files: HashMap<Arc<Path>, LineIndex>,
}

/// The comments that were needed so far.
#[derive(Debug)]
pub struct NeededAllowances {
    places: Arc<AllowedPlaces>,
    is_needed: Vec<bool>,
}

/// The comments of one text, by the lines that they count for.
#[derive(Debug, Default)]
pub(crate) struct LineIndex {
    lines: BTreeMap<u32, Codes>,
    /// Those for whole resources, which lie one behind the other, by their first lines.
    resources: BTreeMap<u32, (u32, Codes)>,
    /// All of them, by the first lines of the resources in which they stand.
    inside: BTreeMap<u32, BTreeMap<String, Vec<usize>>>,
}

/// Comments by their codes, each as the first one of those that are equal.
type Codes = BTreeMap<String, usize>;

impl AllowedPlaces {
    /// Those of files, in their order.
    pub fn new(all: Vec<(Arc<Path>, Allowance)>) -> Self {
        let mut files: HashMap<Arc<Path>, LineIndex> = HashMap::new();
        for (at, (file, allowance)) in all.iter().enumerate() {
            files.entry(Arc::clone(file)).or_default().add(at, allowance);
        }
        Self { all, files }
    }

    /// All comments, with their files.
    pub fn all(&self) -> &[(Arc<Path>, Allowance)] {
        &self.all
    }

    /// Returns true if a comment lets a finding of this code pass, which is at this line.
    pub fn let_pass(&self, file: &Path, line: u32, code: &str) -> bool {
        self.files.get(file).is_some_and(|index| index.at(line, code).next().is_some())
    }

    /// Returns true if a comment lets a finding of this code pass, which is somewhere in the resource that begins at
    /// this line.
    pub fn let_pass_inside(&self, file: &Path, line: u32, code: &str) -> bool {
        self.files.get(file).is_some_and(|index| index.inside(line, code).next().is_some())
    }
}

impl PartialEq for AllowedPlaces {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl NeededAllowances {
    /// None but those that were needed when the files were read.
    pub fn new(places: Arc<AllowedPlaces>) -> Self {
        let mut is_needed = vec![false; places.all.len()];
        for (at, (file, allowance)) in places.all.iter().enumerate() {
            let first = places.files.get(file).and_then(|index| index.first(allowance));
            is_needed[first.unwrap_or(at)] |= allowance.is_used;
        }
        Self { places, is_needed }
    }

    /// Returns true if a comment lets a finding of this code pass, which is at this line. It is needed then.
    pub fn let_pass(&mut self, file: &Path, line: u32, code: &str) -> bool {
        let Some(index) = self.places.files.get(file) else { return false };
        let mut passes = false;
        for first in index.at(line, code) {
            self.is_needed[first] = true;
            passes = true;
        }
        passes
    }

    /// Returns true if a comment lets a finding of this code pass, which is somewhere in the resource that begins at
    /// this line. All such comments in it are needed then: nobody knows which of them is meant.
    pub fn let_pass_inside(&mut self, file: &Path, line: u32, code: &str) -> bool {
        let Some(index) = self.places.files.get(file) else { return false };
        let mut passes = false;
        for at in index.inside(line, code) {
            self.is_needed[at] = true;
            passes = true;
        }
        passes
    }

    /// All comments with their files, and true for those that were needed.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<Path>, &Allowance, bool)> {
        self.places.all.iter().enumerate().map(|(at, (file, allowance))| {
            let first = self.places.files.get(file).and_then(|index| index.first(allowance));
            (file, allowance, self.is_needed[first.unwrap_or(at)])
        })
    }
}

impl LineIndex {
    /// Adds a comment, which is found as this number unless an equal one is there.
    pub(crate) fn add(&mut self, at: usize, allowance: &Allowance) {
        let Some([from, to]) = allowance.lines() else { return };
        let code = || allowance.code.clone();
        let codes = match from == to {
            true => self.lines.entry(from).or_default(),
            false => &mut self.resources.entry(from).or_insert_with(|| (to, Codes::new())).1,
        };
        if let Entry::Vacant(new) = codes.entry(code()) {
            new.insert(at);
            let inside = self.inside.entry(allowance.resource).or_default();
            inside.entry(code()).or_default().push(at);
        }
    }

    /// The comments that let a finding of this code pass, which is at this line.
    pub(crate) fn at(&self, line: u32, code: &str) -> impl Iterator<Item = usize> {
        let before = self.resources.range(..=line).next_back();
        let whole = before.filter(|(_, (to, _))| line <= *to).map(|(_, (_, codes))| codes);
        self.lines.get(&line).into_iter().chain(whole).flat_map(move |codes| of(codes, code))
    }

    /// The comments for findings of this code in the resource that begins at this line.
    fn inside(&self, resource: u32, code: &str) -> impl Iterator<Item = usize> {
        let codes = self.inside.get(&resource);
        let both = [Some(code), class(code)].into_iter().flatten();
        both.filter_map(move |code| codes?.get(code)).flatten().copied()
    }

    /// The first of the comments that are equal to this one.
    pub(crate) fn first(&self, allowance: &Allowance) -> Option<usize> {
        let [from, to] = allowance.lines()?;
        let codes = match from == to {
            true => self.lines.get(&from)?,
            false => &self.resources.get(&from)?.1,
        };
        codes.get(&allowance.code).copied()
    }
}

/// Those of this code, and of its class.
fn of(codes: &Codes, code: &str) -> impl Iterator<Item = usize> {
    let both = [Some(code), class(code)].into_iter().flatten();
    both.filter_map(|code| codes.get(code).copied())
}

#[cfg(test)]
mod tests {
    use chancery_proto::document::{Format, Position};

    use super::*;
    use crate::allowance::Allowances;

    /// The comments of a text whose resources begin at these lines.
    fn places(text: &str, starts: &[u32]) -> Arc<AllowedPlaces> {
        let starts = starts.iter().map(|line| Position { line: *line, column: 1 });
        let read = Allowances::read(Format::Yaml, text.as_bytes(), starts).into_all();
        let file: Arc<Path> = Path::new("a").into();
        Arc::new(AllowedPlaces::new(read.into_iter().map(|it| (Arc::clone(&file), it)).collect()))
    }

    #[test]
    fn a_finding_is_found_by_its_line_whoever_else_is_allowed() {
        let text = "\
# chancery: allow rule: all of it
- name: a
  b: 1
  # chancery: allow x/y: only here
  c: 1
- name: b
";
        let places = places(text, &[2, 6]);
        let file = Path::new("a");
        assert!(places.let_pass(file, 2, "rule/x") && places.let_pass(file, 5, "rule"));
        assert!(places.let_pass(file, 5, "x/y") && !places.let_pass(file, 3, "x/y"));
        assert!(!places.let_pass(file, 6, "rule/x") && !places.let_pass(Path::new("b"), 2, "rule"));
        assert!(places.let_pass_inside(file, 2, "x/y") && !places.let_pass_inside(file, 6, "x/y"));
        let mut needed = NeededAllowances::new(places);
        assert!(needed.let_pass(file, 3, "rule/x"));
        assert_eq!(needed.all().map(|(.., needed)| needed).collect::<Vec<_>>(), [true, false]);
        assert!(needed.let_pass_inside(file, 2, "x/y") && !needed.let_pass_inside(file, 6, "x/y"));
        assert!(needed.all().all(|(.., needed)| needed));
    }

    #[test]
    fn many_comments_and_findings_cost_no_product() {
        // A thousand times the same comment above one resource, and another one above each of its lines.
        let same = "# chancery: allow rule: why\n".repeat(1000);
        let lines: String =
            (0..1000).map(|at| format!("# chancery: allow c/x{at}: why\nf{at}: 1\n")).collect();
        let places = places(&format!("{same}name: a\n{lines}"), &[1001]);
        let index = &places.files[Path::new("a")];
        assert_eq!(places.all().len(), 2000);
        for line in 1001..3001 {
            assert!(index.at(line, "rule/x").count() <= 2, "{line}");
            assert!(index.at(line, "c/x7").count() <= 1, "{line}");
        }
        let mut needed = NeededAllowances::new(places);
        assert!(needed.let_pass(Path::new("a"), 1500, "rule/x"));
        assert_eq!(needed.all().filter(|(.., needed)| *needed).count(), 1000, "all that are equal");
    }
}
