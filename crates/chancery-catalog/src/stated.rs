//! The values that nodes state of what their layers need, each set of them once.
//!
//! Nodes that state the same share an audience. So a set has a number, and is known for as long as somebody
//! has it; and as nodes say of themselves what they like, there is a most number of sets. Not here: which
//! variables are needed (`filled`).

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use chancery_proto::values::{Stated, StatedValue, Variable};

use crate::catalog::Catalog;

/// The values that the nodes of an audience state.
pub struct StatedValues {
    number: u64,
    values: Arc<Stated>,
}

impl StatedValues {
    /// A number that no other set of values has at the same time in the same catalog.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The value of each variable.
    pub fn values(&self) -> &Stated {
        &self.values
    }

    /// The bytes that are kept of them, about.
    pub fn held_bytes(&self) -> usize {
        let one =
            |(_, value): (&Variable, &StatedValue)| size_of::<Variable>() + value.held_bytes();
        size_of::<Self>() + self.values.iter().map(one).sum::<usize>()
    }
}

impl PartialEq for StatedValues {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for StatedValues {}

impl PartialOrd for StatedValues {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StatedValues {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

impl Hash for StatedValues {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

/// The number alone: values of metadata are never printed (S-138).
impl fmt::Debug for StatedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatedValues({})", self.number)
    }
}

/// The sets of values that somebody has.
pub(crate) struct StatedTable {
    known: BTreeMap<Arc<Stated>, Weak<StatedValues>>,
    last: u64,
    /// The most sets at a time.
    pub(crate) most: usize,
    /// The number of sets at which those are looked for that nobody has.
    room: usize,
    /// When those were looked for last while there were too many.
    swept: Option<Instant>,
}

impl Default for StatedTable {
    fn default() -> Self {
        Self { known: BTreeMap::new(), last: 0, most: Catalog::MOST_VALUES, room: 0, swept: None }
    }
}

impl StatedTable {
    /// The set with these values; `None` if there are too many others.
    pub(crate) fn get_or_add(&mut self, values: Stated) -> Option<Arc<StatedValues>> {
        if let Some(known) = self.known.get(&values).and_then(Weak::upgrade) {
            return Some(known);
        }
        let is_full = self.known.len() >= self.most;
        if (is_full && self.may_sweep()) || (!is_full && self.known.len() >= self.room.max(FEW)) {
            self.known.retain(|_, known| known.strong_count() > 0);
            self.room = self.known.len() * 2;
        }
        if self.known.len() >= self.most {
            return None;
        }
        self.last += 1;
        let values = Arc::new(values);
        let stated = Arc::new(StatedValues { number: self.last, values: Arc::clone(&values) });
        self.known.insert(values, Arc::downgrade(&stated));
        Some(stated)
    }

    /// Returns true if a look for sets that nobody has is worth it: very many are walked over once a while and
    /// not for each node that is refused, because whoever fills the table asks again at once.
    pub(crate) fn may_sweep(&self) -> bool {
        self.known.len() <= FEW || self.swept.is_none_or(|last| last.elapsed() >= REST)
    }

    /// Notes that all that nobody has was looked for, and that there are too many all the same.
    pub(crate) fn is_swept(&mut self) {
        self.swept = Some(Instant::now());
    }
}

/// The time between two looks at very many sets while there are too many.
const REST: Duration = Duration::from_secs(1);

/// The number of sets among which nobody looks for those that nobody has.
const FEW: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(text: &str) -> Stated {
        Stated::from([(Variable::Id, StatedValue::Text(text.into()))])
    }

    #[test]
    fn equal_values_are_one_set_for_as_long_as_somebody_has_it() {
        let mut table = StatedTable { most: 2, ..StatedTable::default() };
        let one = table.get_or_add(stated("a")).unwrap();
        assert!(Arc::ptr_eq(&one, &table.get_or_add(stated("a")).unwrap()));
        let two = table.get_or_add(stated("b")).unwrap();
        assert!(one != two && table.get_or_add(stated("c")).is_none());
        drop(two);
        let three = table.get_or_add(stated("c")).unwrap();
        assert_eq!((three.number(), table.known.len()), (3, 2));
    }
}
