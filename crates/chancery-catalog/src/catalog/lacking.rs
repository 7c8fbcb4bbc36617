//! The references that lead nowhere in what audiences see, as somebody asks.
//!
//! Not here: what is told of them, and when it is the same (`references`).

use std::sync::{Arc, PoisonError};

use chancery_core::ResourceName;

use super::Catalog;
use crate::audience::Audience;
use crate::external::External;
use crate::references::{Lacking, References};
use crate::told;

impl Catalog {
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
}

/// The number of audiences with values of nodes whose references are told.
const MOST_WITH_VALUES: usize = 100;
