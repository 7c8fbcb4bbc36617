//! Views that stand on others: the one over a parent, and the parents that one commit made.
//!
//! Not here: which audience stands on which ([`crate::lineage`]), and the order in which a commit makes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::audience::Audience;
use crate::state::CatalogState;
use crate::view::{Place, Slot, View};

/// The views of base and of groups that a commit made, by the address of their state, which the history
/// of the commit keeps alive. The views that follow are built over them.
#[derive(Default)]
pub(crate) struct Parents(BTreeMap<usize, BTreeMap<Audience, Arc<View>>>);

impl Parents {
    /// The view of an audience in a state. If it was not made so far, it is, and is kept.
    pub(crate) fn get_or_make(
        &mut self,
        state: &Arc<CatalogState>,
        audience: &Audience,
        make: impl FnOnce() -> Arc<View>,
    ) -> Arc<View> {
        let of_state = self.0.entry(Arc::as_ptr(state).addr()).or_default();
        if let Some(view) = of_state.get(audience) {
            return Arc::clone(view);
        }
        let view = make();
        of_state.insert(audience.clone(), Arc::clone(&view));
        view
    }

    /// Keeps a view, if others may be made over it.
    pub(crate) fn keep(
        &mut self,
        state: &Arc<CatalogState>,
        audience: &Audience,
        view: &Arc<View>,
    ) {
        if audience.is_of_group() {
            let of_state = self.0.entry(Arc::as_ptr(state).addr()).or_default();
            of_state.insert(audience.clone(), Arc::clone(view));
        }
    }
}

/// The view of an audience with an overlay, over that of its parent.
pub(crate) fn make_over(
    audience: &Audience,
    own: Slot,
    parent: Arc<View>,
    before: Option<&Arc<View>>,
) -> Arc<View> {
    if let Some(before) = before.filter(|before| before.is_over(&own, &parent)) {
        return Arc::clone(before);
    }
    let place = if audience.is_of_group() { Place::Inner } else { Place::Leaf };
    View::of(place, own, Some(parent), before)
}
