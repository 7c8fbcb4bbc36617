//! The endpoints of a policy that are ready, as its pickers have them.
//!
//! ```text
//!   members:   |  a b c d  |  e f g h  |  i j k    in parts of as many
//!   ready:     |  a   c d  |           |  i j k    a part is shared by pickers as long as nothing in it changes
//! ```
//!
//! So an event of one among many endpoints does not cost a copy of all. Not here: the choice among them.

use std::sync::Arc;

use super::endpoint_set::Member;

/// The parts of the last list of a policy.
#[derive(Debug)]
pub(super) struct ReadyParts<R>(Vec<Part<R>>);

#[derive(Debug)]
struct Part<R> {
    /// The changes of its members.
    changes: Vec<u64>,
    ready: Arc<[R]>,
}

/// All that are ready, in their order.
#[derive(Debug)]
pub(super) struct ReadyList<R> {
    /// The parts that have some, with the number of those in it and in the parts before it.
    parts: Box<[(usize, Arc<[R]>)]>,
    /// The number of all.
    len: usize,
}

impl<R> ReadyParts<R> {
    /// Returns the list of these members, of which `ready` makes what pickers need of one that is ready. It must make
    /// the same of a member that has not changed.
    pub(super) fn list<T>(
        &mut self,
        members: &[Member<T>],
        ready: impl Fn(&Member<T>) -> Option<R>,
    ) -> ReadyList<R> {
        let mut before = std::mem::take(&mut self.0).into_iter();
        let parts = members.chunks(PART).map(|members| {
            let known = before.next().filter(|part| part.is_of(members));
            known.unwrap_or_else(|| Part::of(members, &ready))
        });
        self.0 = parts.collect();
        ReadyList::of(&self.0)
    }
}

impl<R> Part<R> {
    fn of<T>(members: &[Member<T>], ready: impl Fn(&Member<T>) -> Option<R>) -> Self {
        let changes = members.iter().map(Member::changed).collect();
        Self { changes, ready: members.iter().filter_map(ready).collect() }
    }

    fn is_of<T>(&self, members: &[Member<T>]) -> bool {
        self.changes.iter().copied().eq(members.iter().map(Member::changed))
    }
}

impl<R> ReadyList<R> {
    fn of(parts: &[Part<R>]) -> Self {
        let mut len = 0;
        let parts = parts.iter().filter(|part| !part.ready.is_empty()).map(|part| {
            len += part.ready.len();
            (len, Arc::clone(&part.ready))
        });
        Self { parts: parts.collect(), len }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, place: usize) -> Option<&R> {
        // No part is before this one, as none has more than so many; it is this one if all are full.
        let least = place / PART;
        let mut part = self.parts.get(least)?;
        if part.0 <= place {
            let after = &self.parts[least..];
            part = after.get(after.partition_point(|(end, _)| *end <= place))?;
        }
        let (end, ready) = part;
        ready.get(place + ready.len() - end)
    }
}

impl<R> Default for ReadyParts<R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The number of members in a part.
const PART: usize = 32;
