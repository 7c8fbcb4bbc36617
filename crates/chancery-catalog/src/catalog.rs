//! All that sources say, and what each audience sees of it, now and through faults.
//!
//! The catalog remembers the states that somebody still depends on. An audience sees the newest
//! state in which none of its layers was held back, whole: while a group's layer is held, its nodes
//! keep that group's and base's last state together, and all others go on. This does not depend on
//! who asked when, so a node that connects while a layer is held gets what its peers have.
//!
//! ```text
//!   commit:    next state of the newest one     then the views that somebody asked for
//!   question:  note the audience, look up its state     then make its view
//! ```
//!
//! Views are made outside the lock that questions take. A question is noted under the same lock as
//! the state is looked up: so each one is either answered with the newest state, or its audience is
//! among those the commit finds changed. No change is missed between the two.

mod listing;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use chancery_core::{ResourceName, Snapshot};

use crate::audience::Audience;
use crate::changes::{Author, ChangeSet};
use crate::entry::{Entry, Key};
use crate::external::External;
use crate::gate::{Gate, Seen};
use crate::history::History;
use crate::layer::Layer;
use crate::lineage::Lineage;
use crate::memory::Memory;
use crate::parents::{Parents, make_over};
use crate::references::{Lacking, ReferenceState, References};
use crate::revision::{ContentHash, Reassigned, Revision};
use crate::state::{CatalogState, LayerState};
use crate::stated::StatedTable;
use crate::told;
use crate::view::{Place, View};
use crate::view_cache::{Affected, AskedView, ViewCache};

/// The layers that sources commit, and the snapshots that audiences see. Clones are the same
/// catalog.
#[derive(Clone, Default)]
pub struct Catalog(Arc<Shared>);

/// The snapshot that an audience sees.
#[derive(Clone, Debug)]
pub struct AudienceSnapshot {
    /// The snapshot: the same `Arc` until its content changes.
    pub snapshot: Arc<Snapshot>,
    /// The number of the revision that it was looked up in.
    pub revision: u64,
}

/// A resource of the catalog.
#[derive(Clone, Debug)]
pub struct ListedEntry {
    /// The layer it belongs to.
    pub layer: Layer,
    /// Its type and name.
    pub key: Key,
    /// The resource and its origin.
    pub entry: Entry,
}

#[derive(Default)]
struct Shared {
    gate: Option<Box<dyn Gate>>,
    /// The groups that extend others, in the states that are committed from now on. It is held by a
    /// commit, so that there is one at a time.
    writer: Mutex<Lineage>,
    inner: Mutex<Inner>,
    /// Taken while no other lock is held.
    references: Mutex<ReferenceState>,
}

#[derive(Default)]
struct Inner {
    history: History,
    /// The number of the newest state.
    number: u64,
    /// The revision that was finished last.
    revision: Option<Arc<Revision>>,
    views: ViewCache,
    stated: StatedTable,
}

/// A question that was noted.
struct Question {
    /// The newest state that serves the audience.
    state: Option<Arc<CatalogState>>,
    /// The number of the newest revision.
    number: u64,
    /// The last view of the audience that was made.
    before: Option<Arc<View>>,
}

/// The views that a commit has for the audiences that the gate was asked for, in the newest state.
type Proposed = BTreeMap<Audience, Arc<View>>;

impl Catalog {
    /// A catalog in which nothing was committed.
    pub fn new() -> Self {
        Self::default()
    }

    /// A catalog in which nothing was committed, with a gate that every commit passes.
    ///
    /// With a gate, the views of base and of all groups are kept, asked for or not.
    pub fn gated(gate: impl Gate + 'static) -> Self {
        let inner = Inner { views: ViewCache::keeping_groups(), ..Inner::default() };
        let (gate, inner) = (Some(Box::new(gate) as Box<dyn Gate>), Mutex::new(inner));
        Self(Arc::new(Shared { gate, inner, ..Shared::default() }))
    }

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

    /// The last revision, if anything was committed. The audiences that it changed are named without the values of
    /// their nodes, of which one set each is kept for as long as somebody has it.
    pub fn revision(&self) -> Option<Arc<Revision>> {
        self.lock().revision.clone()
    }

    /// The audience a node of this group belongs to.
    pub fn audience(&self, group: Option<&str>, node: Option<&str>) -> Audience {
        self.lock().history.audience(group, node)
    }

    /// Returns true if there is something to see for the audience: some state was not held back
    /// from it.
    pub fn is_served(&self, audience: &Audience) -> bool {
        let inner = self.lock();
        inner.history.serving(audience).is_some() || inner.views.get(audience).is_some()
    }

    /// The snapshot that a node of this group sees; `None` if every state so far is held back from it.
    ///
    /// The same `Arc` comes back until the content changes.
    pub fn snapshot(&self, group: Option<&str>, node: Option<&str>) -> Option<Arc<Snapshot>> {
        self.seen_by(&self.audience(group, node)).map(|seen| seen.snapshot)
    }

    /// The snapshot that an audience sees; `None` if every state so far is held back from it, or its resources
    /// cannot be filled with its values.
    pub fn seen_by(&self, audience: &Audience) -> Option<AudienceSnapshot> {
        let (view, revision) = self.view(audience);
        let mut inner = self.lock();
        inner.views.is_for_clients(audience);
        if audience.values.is_some() {
            // Their references are told of nodes without values, as far as both have the same.
            inner.views.is_for_clients(&audience.without_values());
        }
        drop(inner);
        // Nodes that do not state what a commit asks for are told so, and keep what they have until then.
        let view = view.filter(|view| view.unfit().is_none())?;
        Some(AudienceSnapshot { snapshot: Arc::clone(&view.snapshot), revision })
    }

    /// The snapshots of the audiences that a revision changed, as of that revision or a later one.
    /// An audience without one is left out: every state so far is held back from it.
    pub fn changed<'a>(&self, revision: &'a Revision) -> Vec<(&'a Audience, AudienceSnapshot)> {
        let (mut seen, mut unknown) = (Vec::with_capacity(revision.changed.len()), Vec::new());
        self.lock().views.ask_all(&revision.changed, |audience, made| match made {
            Some((view, _)) if view.unfit().is_some() => {}
            Some((view, revision)) => {
                let snapshot = Arc::clone(&view.snapshot);
                seen.push((audience, AudienceSnapshot { snapshot, revision }));
            }
            None => unknown.push(audience),
        });
        let later = unknown.into_iter().filter_map(|it| Some((it, self.seen_by(it)?)));
        seen.extend(later);
        seen
    }

    /// The references that lead nowhere for an audience that was asked for, or a group; or for base, if
    /// there are no groups to complete it (S-103). And the resources that nothing refers to.
    ///
    /// The same `Arc` comes back until one of them changes.
    pub fn references(&self, external: &External) -> Arc<References> {
        let groups = self.groups();
        for name in groups.iter() {
            self.view(&Audience::of(Some(Arc::clone(name)), None));
        }
        let base = Audience::default();
        let (mut views, root, newest) = {
            let inner = self.lock();
            let root = inner.history.serving(&base).and_then(|state| state.root.clone());
            (inner.views.made(), root, inner.history.newest().cloned())
        };
        // Nobody is said to have asked for base, so that groups which come later complete it.
        if groups.is_empty() && !views.iter().any(|(audience, _)| *audience == base) {
            views.extend(root.map(|root| (base, root)));
        }
        // Very many sets of values may lack the same.
        let mut with_values = 0;
        let found = views.into_iter().filter(|(audience, view)| {
            let is_own = audience.values.is_none()
                || view.parent().is_none_or(|parent| !parent.flaws.is_same(&view.flaws));
            // Nodes whose resources cannot be filled are shown nothing.
            let is_shown = view.own().as_ref().is_none_or(|own| own.unfit().is_none());
            with_values += usize::from(audience.values.is_some() && is_own);
            is_own && is_shown && with_values <= MOST_WITH_VALUES && !view.flaws.are_none()
        });
        let found = found.map(|(audience, view)| {
            let is_known = |name: &ResourceName| external.knows(&audience, name.as_str());
            let told = match &audience.values {
                Some(stated) => told::without_values(&view, stated.values(), is_known),
                None => view.flaws.clone(),
            };
            // A set of values is known for as long as somebody has it.
            let audience = audience.without_values();
            Lacking {
                audience,
                flaws: view.flaws.clone(),
                told,
                snapshot: Arc::clone(&view.snapshot),
            }
        });
        let found: Vec<_> = found.collect();
        let state = &self.0.references;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.follow(&found, newest.as_deref(), external)
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

    /// The view of an audience, and the number of the revision that it was looked up in.
    fn view(&self, audience: &Audience) -> (Option<Arc<View>>, u64) {
        let is_above = |parent: &Audience| parent.group.is_some() || audience.values.is_some();
        let may_be = audience.group.is_some() || audience.values.is_some();
        let below = may_be.then(|| self.lineage().below(audience)).flatten();
        if let Some(parent) = below.filter(is_above) {
            // Those above a group share its view, also if nobody belongs to the group alone; and so do nodes
            // with values that of nodes without.
            self.view(&parent);
        }
        loop {
            let Question { state, number, before } = self.lock().ask(audience);
            let Some(state) = state else { return (before, number) };
            let view = self.make(&state, audience, before);
            // Several commits may have been made since, and have forgotten that somebody asked.
            if let Some(view) = self.lock().views.keep(audience, view, number) {
                return (Some(view), number);
            }
        }
    }

    /// The view of base alone. It grows from the last one there was.
    fn root(&self, state: &CatalogState) -> Option<Arc<View>> {
        let LayerState::Good(base) = state.layer(&Layer::Base) else { return None };
        let own = Some(Arc::clone(base));
        let before = self.lock().history.root();
        match before {
            Some(before) if before.is_of(&own) => Some(before),
            before => Some(View::of(Place::Inner, own, None, before.as_ref())),
        }
    }

    /// The view of an audience in a state that serves it, from the one it had `before`.
    fn make(
        &self,
        state: &CatalogState,
        audience: &Audience,
        before: Option<Arc<View>>,
    ) -> Arc<View> {
        let Some(parent) = state.lineage.below(audience) else {
            // A state without a root serves nobody.
            let base = || state.content(&Layer::Base).cloned();
            return state
                .root
                .clone()
                .unwrap_or_else(|| View::of(Place::Inner, base(), None, None));
        };
        let parent = self.make_parent(state, &parent, before.as_ref());
        let own = match &audience.values {
            Some(stated) => parent.filled(stated, before.as_ref()),
            None => state.content(&audience.strongest()).cloned(),
        };
        make_over(audience, own, parent, before.as_ref())
    }

    /// The view of the parent of an audience that had the view `before`.
    fn make_parent(
        &self,
        state: &CatalogState,
        parent: &Audience,
        before: Option<&Arc<View>>,
    ) -> Arc<View> {
        let cached = self.lock().views.get(parent);
        let below = || before.and_then(|before| before.parent().cloned());
        self.make(state, parent, cached.or_else(below))
    }

    /// Brings the views of these audiences to the newest state, the parents first. Returns those
    /// that see something else.
    fn refresh(
        &self,
        asked: Vec<AskedView>,
        affected: &Affected<'_>,
        proposed: &Proposed,
        number: u64,
    ) -> Vec<Audience> {
        let history = self.lock().history.clone();
        let mut parents = Parents::default();
        let mut made = Vec::new();
        let mut asked: Vec<_> =
            asked.into_iter().filter(|asked| affected.contains(&asked.audience)).collect();
        asked.sort_by_cached_key(|asked| affected.depth(&asked.audience));
        for asked in asked {
            let Some(state) = history.serving(&asked.audience) else { continue };
            let is_newest = history.newest().is_some_and(|newest| Arc::ptr_eq(newest, state));
            let view = match proposed.get(&asked.audience).filter(|_| is_newest) {
                Some(view) => Arc::clone(view),
                None => self.remake(state, &asked, affected, &mut parents),
            };
            parents.keep(state, &asked.audience, &view);
            made.push((asked, view));
        }
        made.sort_by(|(one, _), (other, _)| one.audience.cmp(&other.audience));
        let mut changed = Vec::new();
        self.lock().views.keep_all(made, number, |AskedView { audience, before }, view| {
            if before.is_none_or(|before| !Arc::ptr_eq(&before.snapshot, &view.snapshot)) {
                changed.push(audience);
            }
        });
        changed
    }

    /// The view of an audience after a commit, in the state that serves it.
    fn remake(
        &self,
        state: &Arc<CatalogState>,
        asked: &AskedView,
        affected: &Affected<'_>,
        parents: &mut Parents,
    ) -> Arc<View> {
        let AskedView { audience, before } = asked;
        let Some(parent) = state.lineage.below(audience) else {
            return self.make(state, audience, before.clone());
        };
        let parent = parents
            .get_or_make(state, &parent, || self.make_parent(state, &parent, before.as_ref()));
        let strongest = audience.strongest();
        let own = match (before, &audience.values) {
            (before, Some(stated)) => parent.filled(stated, before.as_ref()),
            (Some(before), None) if !affected.has(&strongest) => before.own().clone(),
            _ => state.content(&strongest).cloned(),
        };
        make_over(audience, own, parent, before.as_ref())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic runs under this lock.
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Makes a state the newest, and forgets the views that nobody needs. Returns the number of its
    /// revision, the nodes that may belong elsewhere, and the audiences that somebody asked for.
    fn push(&mut self, state: &Arc<CatalogState>) -> (u64, Reassigned, Vec<AskedView>) {
        self.number += 1;
        let reassigned = self.history.push(Arc::clone(state));
        let are_same = reassigned.is_nobody();
        let asked = self.views.sweep(|audience| are_same || self.history.has(audience));
        (self.number, reassigned, asked)
    }

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

    /// Notes that somebody asks for an audience, and looks up what it sees.
    fn ask(&mut self, audience: &Audience) -> Question {
        let before = self.views.ask(audience);
        let state = self.history.serving(audience).cloned();
        Question { state, number: self.number, before }
    }
}

/// The number of audiences with values of nodes whose references are told.
const MOST_WITH_VALUES: usize = 100;

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Catalog")
            .field("audiences", &inner.views.audiences().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
