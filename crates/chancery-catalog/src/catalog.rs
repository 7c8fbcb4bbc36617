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

mod commit;
mod lacking;
mod listing;
mod making;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_core::Snapshot;

use crate::audience::Audience;
use crate::entry::{Entry, Key};
use crate::gate::Gate;
use crate::history::History;
use crate::layer::Layer;
use crate::lineage::Lineage;
use crate::references::ReferenceState;
use crate::revision::{Reassigned, Revision};
use crate::state::CatalogState;
use crate::stated::StatedTable;
use crate::view::View;
use crate::view_cache::{AskedView, ViewCache};

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

    /// Notes that somebody asks for an audience, and looks up what it sees.
    fn ask(&mut self, audience: &Audience) -> Question {
        let before = self.views.ask(audience);
        let state = self.history.serving(audience).cloned();
        Question { state, number: self.number, before }
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Catalog")
            .field("audiences", &inner.views.audiences().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
