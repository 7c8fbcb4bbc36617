//! Commits: from what a source says to the next state, judged by the gate, and the revision that it is.
//!
//! ```text
//!   change --> next state --> [judge]: what the gate holds --> [take_over]: the newest state, and its views
//! ```
//!
//! Not here: the state after a change (`state`), and the views (`making`).

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use super::{Catalog, Inner, Proposed};
use crate::audience::Audience;
use crate::changes::{Author, ChangeSet};
use crate::gate::Seen;
use crate::layer::Layer;
use crate::lineage::Lineage;
use crate::memory::Memory;
use crate::parents::make_over;
use crate::revision::{ContentHash, Reassigned, Revision};
use crate::state::CatalogState;
use crate::view::View;
use crate::view_cache::Affected;

impl Catalog {
    /// Takes over what a source says. Returns what that changed; `None` if it is nothing.
    ///
    /// It takes a lock for which other commits wait, and makes the new views of all audiences that it
    /// concerns and that somebody asked for: call it on a thread that may block.
    pub fn commit(&self, changes: ChangeSet) -> Option<Arc<Revision>> {
        let lineage = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.lock().history.newest().cloned();
        let time = changes.time.unwrap_or_else(SystemTime::now);
        let author = changes.author.clone();
        let nothing = CatalogState::default();
        let next = before.as_deref().unwrap_or(&nothing).after(changes);
        // The first commit makes base known, if only as empty.
        let first = || before.is_none().then(|| (nothing.clone(), BTreeSet::new()));
        let (mut state, touched) = next.or_else(first)?;
        state.lineage = lineage.clone();
        state.root = self.root(&state);
        let affected = Affected::of(before.as_deref(), &state, &touched);
        let proposed = self.judge(&mut state, &affected);
        Some(self.take_over(state, before.as_deref(), &touched, &proposed, time, author))
    }

    /// Puts another lineage in force: the layers of some groups stand on others. Returns what that changed;
    /// `None` if it is nothing, or nothing was committed so far.
    ///
    /// Like [`commit`](Self::commit), it may block.
    pub fn extend(&self, lineage: Lineage, author: impl Into<Author>) -> Option<Arc<Revision>> {
        let mut in_force = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.clone_from(&lineage);
        let before = self.lock().history.newest().cloned()?;
        let groups = lineage.differing(&before.lineage);
        let touched: BTreeSet<_> = groups.map(|group| Layer::Group(Arc::clone(group))).collect();
        if touched.is_empty() {
            return None;
        }
        let mut state = CatalogState::clone(&before);
        state.lineage = lineage;
        let affected = Affected::of(Some(&before), &state, &touched);
        let proposed = self.judge(&mut state, &affected);
        let time = SystemTime::now();
        Some(self.take_over(state, Some(&before), &touched, &proposed, time, author.into()))
    }

    /// Has the gate judge again what it holds, and what it let pass. Returns what that changed; `None`
    /// if it is nothing.
    ///
    /// Like [`commit`](Self::commit), it may block.
    pub fn judge_again(&self, author: impl Into<Author>) -> Option<Arc<Revision>> {
        let _one_at_a_time = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.lock().history.newest().cloned()?;
        let mut state = CatalogState::clone(&before);
        let nothing = BTreeSet::new();
        let proposed = self.judge(&mut state, &Affected::of(Some(&before), &before, &nothing));
        if state.held == before.held {
            return None;
        }
        let time = SystemTime::now();
        Some(self.take_over(state, Some(&before), &nothing, &proposed, time, author.into()))
    }

    /// The states that audiences see, for whoever keeps them over a restart.
    pub fn memory(&self) -> Memory {
        Memory { states: self.lock().history.states().to_vec() }
    }

    /// Begins with states that another catalog had: its audiences see them, and what is committed later is
    /// judged beside them. Returns false if something was committed already; then nothing changes.
    ///
    /// The source of the layers has to know them ([`Memory::layers`]): only it can say that one is gone.
    pub fn restore(&self, memory: &Memory) -> bool {
        let mut in_force = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock().history.newest().is_some() || memory.is_empty() {
            return false;
        }
        for state in memory.states.iter().rev() {
            let mut state = CatalogState::clone(state);
            state.root = self.root(&state);
            self.lock().push(&Arc::new(state));
        }
        *in_force = memory.lineage();
        let mut inner = self.lock();
        let Some(newest) = inner.history.newest().cloned() else { return false };
        inner.revision = Some(Arc::new(Revision {
            number: inner.number,
            content: ContentHash(newest.digest.wrapping_add(newest.lineage.digest())),
            time: SystemTime::now(),
            author: Author::new("state"),
            layers: newest.layers().collect(),
            edits: Vec::new(),
            changed: Vec::new(),
            reassigned: Reassigned::Everybody,
        }));
        true
    }

    /// Asks the gate for each audience that may see something else, and notes in the state which of them
    /// it holds. Returns the views that it was shown.
    fn judge(&self, state: &mut CatalogState, affected: &Affected<'_>) -> Proposed {
        let mut proposed = Proposed::new();
        let held_before = std::mem::take(&mut state.held);
        let Some(gate) = &self.0.gate else { return proposed };
        let judged = self.lock().judged(state, affected);
        for audience in judged {
            if !state.serves(&audience) {
                // It cannot be judged while a layer of it is held back, so it is held as it was.
                if held_before.contains(&audience) {
                    state.held.insert(audience);
                }
                continue;
            }
            let before = self.in_force(&audience);
            let after = self.propose(state, &audience, before.as_ref(), &proposed);
            let is_same = before
                .as_ref()
                .is_some_and(|before| before.shows_same(&after) && before.fills_same(&after));
            let before = before.as_ref().map(Seen::new);
            if !is_same && !gate.lets_pass(&audience, before.as_ref(), &Seen::new(&after)) {
                state.held.insert(audience.clone());
            }
            proposed.insert(audience, after);
        }
        gate.judged(&mut state.held.iter());
        proposed
    }

    /// The view that the nodes of an audience have now, be it that of another audience.
    ///
    /// A node is not asked for by that: its view goes when nobody holds it any more.
    fn in_force(&self, audience: &Audience) -> Option<Arc<View>> {
        let now = self.audience(audience.group.as_deref(), audience.node.as_deref());
        let made = self.lock().views.get(&now).filter(|_| now.node.is_some());
        made.or_else(|| self.view(&now).0)
    }

    /// The view that a state has for an audience, whose nodes see `before`.
    fn propose(
        &self,
        state: &CatalogState,
        audience: &Audience,
        before: Option<&Arc<View>>,
        proposed: &Proposed,
    ) -> Arc<View> {
        match state.lineage.below(audience).and_then(|parent| proposed.get(&parent)) {
            Some(parent) => {
                let own = state.content(&audience.strongest()).cloned();
                make_over(audience, own, Arc::clone(parent), before)
            }
            None => self.make(state, audience, before.cloned()),
        }
    }

    /// Makes a state the newest one, and brings the views along that somebody asked for.
    fn take_over(
        &self,
        state: CatalogState,
        before: Option<&CatalogState>,
        touched: &BTreeSet<Layer>,
        proposed: &Proposed,
        time: SystemTime,
        author: Author,
    ) -> Arc<Revision> {
        let layers = state.changed_since(before, touched);
        let edits = state.edits_since(before, &layers);
        let content = ContentHash(state.digest.wrapping_add(state.lineage.digest()));
        let state = Arc::new(state);
        let (number, mut reassigned, asked) = self.lock().push(&state);
        if before.is_some_and(|before| state.refills(before, touched)) {
            reassigned = Reassigned::Everybody;
        }
        let affected = Affected::of(before, &state, touched);
        let changed = self.refresh(asked, &affected, proposed, number);
        let revision = Arc::new(Revision {
            number,
            content,
            time,
            author,
            layers,
            edits,
            changed,
            reassigned,
        });
        self.lock().revision = Some(revision.kept());
        revision
    }
}

impl Inner {
    /// The audiences that the gate is asked for, parents first: of base, every group, and the nodes with
    /// an overlay that somebody asked for or from which it holds something, those that are affected.
    fn judged(&self, state: &CatalogState, affected: &Affected<'_>) -> Vec<Audience> {
        let of_group = |name: &Arc<str>| Audience::of(Some(Arc::clone(name)), None);
        let held = self.history.newest().into_iter().flat_map(|newest| newest.held.iter());
        // Nodes with values see what others see, but for those: they are held with them.
        let known = self.views.audiences().filter(|it| it.values.is_none()).chain(held);
        let known = known.filter(|it| affected.contains(it) && self.history.has(it));
        let base = Some(Audience::default()).filter(|base| affected.contains(base));
        let groups = affected.groups(state).map(of_group).filter(|audience| {
            let is_there = |name| state.groups.contains_key(name);
            audience.group.as_ref().is_some_and(is_there) || self.history.has(audience)
        });
        let judged: BTreeSet<_> = known.cloned().chain(groups).chain(base).collect();
        let mut judged: Vec<_> = judged.into_iter().collect();
        judged.sort_by_cached_key(|audience| affected.depth(audience));
        judged
    }
}
