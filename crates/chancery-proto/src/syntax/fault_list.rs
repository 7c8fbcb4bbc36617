//! The faults of a text: the first of them, and the number of the others.
//!
//! A text of a few megabytes may have a million faults, and nobody reads them. So their number is
//! exact, and only [`MAX_FAULTS`] of them are described and kept.

use super::Fault;

/// The number of faults of one text that are described.
pub const MAX_FAULTS: usize = 100;

/// The first faults of a text, in the order in which they were found, and their number.
#[derive(Debug, Default)]
pub(crate) struct FaultList {
    first: Vec<Fault>,
    count: usize,
}

impl FaultList {
    /// The number of faults.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a fault, which is described only if it is kept.
    pub(crate) fn push(&mut self, describe: impl FnOnce() -> Fault) {
        if self.first.len() < MAX_FAULTS {
            self.first.push(describe());
        }
        self.count += 1;
    }

    /// The faults of several lists by their positions, and the number of those that are left out.
    pub(crate) fn merged<const N: usize>(lists: [Self; N]) -> (Vec<Fault>, usize) {
        let count: usize = lists.iter().map(Self::count).sum();
        let mut all: Vec<_> = lists.into_iter().flat_map(|list| list.first).collect();
        all.sort_by_key(|fault| fault.position);
        all.truncate(MAX_FAULTS);
        let more = count - all.len();
        (all, more)
    }

    /// The faults that are kept.
    #[cfg(test)]
    pub(crate) fn first(&self) -> &[Fault] {
        &self.first
    }

    /// The first fault.
    pub(crate) fn into_first(self) -> Option<Fault> {
        self.first.into_iter().next()
    }
}

impl From<Fault> for FaultList {
    fn from(fault: Fault) -> Self {
        Self { first: vec![fault], count: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Position;

    #[test]
    fn faults_beyond_the_limit_are_counted_and_not_described() {
        let mut described = 0;
        let mut list = FaultList::default();
        for line in 1..=MAX_FAULTS + 5 {
            list.push(|| {
                described += 1;
                Fault::new("a").at(Position::new(line, 1))
            });
        }
        assert_eq!((described, list.count()), (MAX_FAULTS, MAX_FAULTS + 5));
        let early = FaultList::from(Fault::new("b").at(Position::START));
        let (first, more) = FaultList::merged([list, early]);
        assert_eq!((first.len(), more), (MAX_FAULTS, 6));
        assert_eq!(first[1].message, "b");
    }
}
