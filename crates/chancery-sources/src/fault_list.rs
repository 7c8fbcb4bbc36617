//! The faults of a load, of which a bounded number is kept.
//!
//! A load may find as many faults as there are lines. The number of them is exact, and so is what
//! they hold back; the first of them are kept with their places, and the others are counted by file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::fault::{Fault, Scope};

/// The number of faults of a load that are kept.
pub(crate) const MAX_FAULTS_OF_LOAD: usize = 1000;

/// Faults, of which the first are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultList {
    kept: Vec<Fault>,
    /// The number of the others, by file.
    more: BTreeMap<PathBuf, usize>,
    /// The parts that any of them holds back.
    scopes: BTreeSet<Scope>,
}

impl FaultList {
    /// Adds a fault.
    pub(crate) fn push(&mut self, fault: Fault) {
        if !self.scopes.contains(&fault.scope) {
            self.scopes.insert(fault.scope.clone());
        }
        if self.kept.len() < MAX_FAULTS_OF_LOAD {
            self.kept.push(fault);
        } else {
            self.count(&fault.file, 1);
        }
    }

    /// Counts faults of a file that nobody keeps.
    pub(crate) fn count(&mut self, file: &Path, more: usize) {
        if more == 0 {
            return;
        }
        match self.more.get_mut(file) {
            Some(count) => *count += more,
            None => drop(self.more.insert(file.to_owned(), more)),
        }
    }

    /// Adds the faults of another list.
    pub(crate) fn append(&mut self, other: &Self) {
        self.kept.extend(other.kept.iter().cloned());
        other.more.iter().for_each(|(file, more)| self.count(file, *more));
        self.scopes.extend(other.scopes.iter().cloned());
    }

    /// The number of faults that are kept.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Keeps so many faults at most, and one at least.
    pub(crate) fn cut(&mut self, most: usize) {
        for fault in self.kept.split_off(most.max(1).min(self.kept.len())) {
            self.count(&fault.file, 1);
        }
    }

    /// Returns true if there is no fault.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns true if a fault holds back this part.
    pub(crate) fn holds(&self, scope: &Scope) -> bool {
        self.scopes.contains(scope)
    }

    /// Returns true if a fault is about this path, or about a directory above it and below the top.
    pub(crate) fn concerns(&self, path: &Path, top: &Path) -> bool {
        self.kept.iter().any(|fault| fault.file != top && path.starts_with(&fault.file))
            || path.ancestors().any(|above| above != top && self.more.contains_key(above))
    }

    /// The first faults by file and place, and the number of the others by file.
    pub(crate) fn into_sorted(mut self) -> (Vec<Fault>, BTreeMap<PathBuf, usize>) {
        self.kept.sort_by(|a, b| order(a).cmp(&order(b)));
        self.cut(MAX_FAULTS_OF_LOAD);
        (self.kept, self.more)
    }
}

fn order(fault: &Fault) -> (&Path, Option<(u32, u32)>) {
    (&fault.file, fault.position.map(|position| (position.line, position.column)))
}

#[cfg(test)]
mod tests {
    use chancery_catalog::Layer;

    use super::*;
    use crate::fault::Wrong;

    fn fault(file: usize, scope: Scope) -> Fault {
        Wrong::NameNotUtf8.at(scope, Path::new(&format!("{file:04}")), None)
    }

    #[test]
    fn what_is_not_kept_is_counted_and_holds_back_all_the_same() {
        let mut list = FaultList::default();
        for file in 0..MAX_FAULTS_OF_LOAD {
            list.push(fault(file + 1, Scope::Layer(Layer::Base)));
        }
        list.push(fault(7, Scope::Groups));
        list.count(Path::new("0007"), 2);
        let mut other = FaultList::default();
        other.push(fault(0, Scope::Nodes));
        list.append(&other);
        assert!(list.holds(&Scope::Groups) && list.holds(&Scope::Nodes));
        assert!(!list.holds(&Scope::Directory));
        let concerns = |path: &str| list.concerns(Path::new(path), Path::new("0002"));
        assert!(concerns("0001") && concerns("0007/below") && concerns("1000"));
        assert!(!concerns("0002/below") && !concerns("00011") && !concerns("1001"));
        let (kept, more) = list.into_sorted();
        assert_eq!((kept.len(), kept[0].file.clone()), (MAX_FAULTS_OF_LOAD, "0000".into()));
        assert_eq!(more, [("0007".into(), 3), ("1000".into(), 1)].into());
    }
}
