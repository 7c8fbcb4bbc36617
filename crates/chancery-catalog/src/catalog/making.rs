//! The views of audiences, made from states: the first one, and those after a commit.
//!
//! Not here: the notes of who asked for which (`view_cache`), and how a view grows from another one (`view`).

use std::sync::Arc;

use super::{Catalog, Proposed};
use crate::audience::Audience;
use crate::layer::Layer;
use crate::parents::{Parents, make_over};
use crate::state::{CatalogState, LayerState};
use crate::view::{Place, View};
use crate::view_cache::{Affected, AskedView};

impl Catalog {
    /// The view of base alone. It grows from the last one there was.
    pub(super) fn root(&self, state: &CatalogState) -> Option<Arc<View>> {
        let LayerState::Good(base) = state.layer(&Layer::Base) else { return None };
        let own = Some(Arc::clone(base));
        let before = self.lock().history.root();
        match before {
            Some(before) if before.is_of(&own) => Some(before),
            before => Some(View::of(Place::Inner, own, None, before.as_ref())),
        }
    }

    /// The view of an audience in a state that serves it, from the one it had `before`.
    pub(super) fn make(
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
    pub(super) fn refresh(
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
}
