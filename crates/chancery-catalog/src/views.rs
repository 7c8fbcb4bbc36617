//! The views that somebody asked for.
//!
//! A question is noted before its view is made, and stays noted while the view is needed: so a
//! commit knows which audiences it has to bring along, and which of them see something else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::audience::Audience;
use crate::layer::Layer;
use crate::state::CatalogState;
use crate::view::View;

/// The views that somebody asked for, by audience.
#[derive(Default)]
pub(crate) struct ViewCache(BTreeMap<Audience, CachedView>);

/// The view of an audience that somebody asked for.
#[derive(Clone, Default)]
struct CachedView {
    /// `None` until it is made.
    view: Option<Arc<View>>,
    /// The number of the revision that it was looked up in.
    revision: u64,
    /// True if somebody asked since the last commit.
    asked: bool,
}

/// The audiences that a commit can change.
pub(crate) enum Affected<'a> {
    All,
    /// Those with one of these layers.
    With(&'a BTreeSet<Layer>),
}

impl ViewCache {
    /// Notes that somebody asks for an audience. Returns its view so far.
    pub(crate) fn ask(&mut self, audience: &Audience) -> Option<Arc<View>> {
        let cached = self.0.entry(audience.clone()).or_default();
        cached.asked = true;
        cached.view.clone()
    }

    /// The view of an audience, if it was made.
    pub(crate) fn get(&self, audience: &Audience) -> Option<Arc<View>> {
        self.0.get(audience)?.view.clone()
    }

    /// Keeps the view of an audience as of a revision, unless a newer one was made meanwhile.
    /// Returns the view to use; `None` if it is forgotten that somebody asked.
    pub(crate) fn keep(
        &mut self,
        audience: &Audience,
        view: Arc<View>,
        revision: u64,
    ) -> Option<Arc<View>> {
        let cached = self.0.get_mut(audience)?;
        match &cached.view {
            Some(made) if Arc::ptr_eq(made, &view) => {
                cached.revision = cached.revision.max(revision);
            }
            // Two questions at a time make the same view twice; one of them is for all.
            Some(made) if cached.revision == revision && made.is_like(&view) => {
                return Some(Arc::clone(made));
            }
            Some(_) if cached.revision > revision => {}
            _ => {
                cached.view = Some(Arc::clone(&view));
                cached.revision = revision;
            }
        }
        Some(view)
    }

    /// Forgets the views that nobody needs, and those of audiences that nobody can belong to.
    /// Returns the audiences that are left, parents first.
    pub(crate) fn sweep(&mut self, is_possible: impl Fn(&Audience) -> bool) -> Vec<Audience> {
        let audiences: Vec<Audience> = self.0.keys().cloned().collect();
        // A view is needed as long as one that is built on it, so children come first.
        for audience in audiences.iter().rev() {
            let is_needed = self.0.get_mut(audience).is_some_and(CachedView::is_needed);
            if !is_needed || !is_possible(audience) {
                self.0.remove(audience);
            }
        }
        self.0.keys().cloned().collect()
    }

    /// The audiences that somebody asked for.
    pub(crate) fn audiences(&self) -> impl Iterator<Item = &Audience> {
        self.0.keys()
    }

    /// The views that were made, by audience.
    pub(crate) fn made(&self) -> Vec<(Audience, Arc<View>)> {
        let views = self.0.iter();
        views.filter_map(|(audience, it)| Some((audience.clone(), it.view.clone()?))).collect()
    }
}

impl CachedView {
    /// Returns true if somebody asked since the last time, holds the snapshot, or has a view that is
    /// built on this one. One that is yet to be made is always needed.
    fn is_needed(&mut self) -> bool {
        let asked = std::mem::take(&mut self.asked);
        let is_held =
            |view: &Arc<View>| Arc::strong_count(view) > 1 || Arc::strong_count(&view.snapshot) > 1;
        asked || self.view.as_ref().is_none_or(is_held)
    }
}

impl<'a> Affected<'a> {
    /// While something is held back, the end of a hold can bring older changes with it.
    pub(crate) fn of(
        before: Option<&CatalogState>,
        now: &CatalogState,
        touched: &'a BTreeSet<Layer>,
    ) -> Self {
        let held = |state: &CatalogState| !state.holds.is_empty();
        if before.is_none_or(held) || held(now) || touched.contains(&Layer::Base) {
            return Self::All;
        }
        Self::With(touched)
    }

    pub(crate) fn contains(&self, audience: &Audience) -> bool {
        match self {
            Self::All => true,
            Self::With(layers) => audience.layers().any(|layer| layers.contains(&layer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::content::LayerContent;
    use crate::view::Place;

    fn view() -> Arc<View> {
        View::of(Place::Inner, Some(Arc::new(LayerContent::default())), None, None)
    }

    #[test]
    fn an_older_view_never_takes_the_place_of_a_newer_one() {
        let (mut views, base) = (ViewCache::default(), Audience::default());
        views.ask(&base);
        let (older, newer) = (view(), view());
        views.keep(&base, Arc::clone(&newer), 2);
        let used = views.keep(&base, Arc::clone(&older), 1).unwrap();
        assert!(Arc::ptr_eq(&used, &older), "the question is answered as of its revision");
        assert!(Arc::ptr_eq(&views.get(&base).unwrap(), &newer));
    }

    #[test]
    fn a_question_that_was_forgotten_meanwhile_is_asked_again() {
        let (mut views, base) = (ViewCache::default(), Audience::default());
        views.ask(&base);
        assert!(views.keep(&base, view(), 1).is_some());
        views.sweep(|_| true);
        assert_eq!(views.sweep(|_| true), []);
        assert!(views.keep(&base, view(), 1).is_none());
    }

    #[test]
    fn a_view_stays_while_somebody_holds_its_snapshot_or_builds_on_it() {
        let mut views = ViewCache::default();
        let (base, group) = (Audience::default(), Audience { group: Some("g".into()), node: None });
        let (parent, own) = (view(), Arc::new(LayerContent::default()));
        let child = View::of(Place::Inner, Some(own), Some(Arc::clone(&parent)), None);
        for (audience, view) in [(&base, &parent), (&group, &child)] {
            views.ask(audience);
            views.keep(audience, Arc::clone(view), 1);
        }
        drop(parent);
        drop(views.sweep(|_| true));
        assert_eq!(views.sweep(|_| true).len(), 2, "somebody holds the child");
        assert_eq!(views.sweep(|audience| audience.group.is_none()), from_ref(&base));
        drop(child);
        assert_eq!(views.sweep(|_| true), []);
    }
}
