//! The views that somebody asked for.
//!
//! A question is noted before its view is made, and stays noted while the view is needed: so a
//! commit knows which audiences it has to bring along, and which of them see something else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::audience::Audience;
use crate::layer::Layer;
use crate::lineage::Lineage;
use crate::state::CatalogState;
use crate::view::View;

/// The views that somebody asked for, by audience.
#[derive(Default)]
pub(crate) struct ViewCache {
    views: BTreeMap<Audience, CachedView>,
    /// The number of views at which those are looked for that nobody holds.
    room: usize,
    /// True if the views of base and of groups stay, though nobody needs them.
    keeps_groups: bool,
}

/// The view of an audience that somebody asked for.
#[derive(Clone, Default)]
struct CachedView {
    /// `None` until it is made.
    view: Option<Arc<View>>,
    /// The number of the revision that it was looked up in.
    revision: u64,
    /// True if somebody asked since the last commit.
    asked: bool,
    /// True if it was asked for on behalf of clients, and not of the gate alone.
    for_clients: bool,
}

/// A view that somebody asked for, as a commit finds it.
pub(crate) struct AskedView {
    pub(crate) audience: Audience,
    /// `None` if it is yet to be made.
    pub(crate) before: Option<Arc<View>>,
}

/// The layers and audiences that a commit can change.
pub(crate) struct Affected<'a> {
    /// The layers that the commit touches.
    layers: &'a BTreeSet<Layer>,
    /// The groups that extend others, from now on.
    lineage: Lineage,
    /// True if something is held back, or was: the end of a hold can bring older changes with it.
    held: bool,
}

impl ViewCache {
    /// A cache in which the views of base and of groups stay.
    pub(crate) fn keeping_groups() -> Self {
        Self { keeps_groups: true, ..Self::default() }
    }

    /// Notes that somebody asks for an audience. Returns its view so far.
    pub(crate) fn ask(&mut self, audience: &Audience) -> Option<Arc<View>> {
        if let Some(cached) = self.views.get_mut(audience) {
            cached.asked = true;
            return cached.view.clone();
        }
        self.make_room();
        let cached = self.views.entry(audience.clone()).or_default();
        cached.asked = true;
        None
    }

    /// Notes that clients belong to an audience that somebody asked for.
    pub(crate) fn is_for_clients(&mut self, audience: &Audience) {
        if let Some(cached) = self.views.get_mut(audience) {
            cached.for_clients = true;
        }
    }

    /// Forgets the views with values of nodes that nobody holds.
    pub(crate) fn forget_values(&mut self) {
        self.forget(|audience, _, is_held| audience.values.is_some() && !is_held);
    }

    /// Forgets the views that nobody holds, if there are many: who asks once for each node in each
    /// group would have one of each kept until the next commit.
    fn make_room(&mut self) {
        if self.views.len() < self.room.max(UNHELD) {
            return;
        }
        let keeps_groups = self.keeps_groups;
        let is_kept = |audience: &Audience| keeps_groups && audience.is_of_group();
        self.forget(|audience, _, is_held| !is_held && !is_kept(audience));
        self.room = self.views.len() * 2;
    }

    /// The view of an audience, if it was made.
    pub(crate) fn get(&self, audience: &Audience) -> Option<Arc<View>> {
        self.views.get(audience)?.view.clone()
    }

    /// Keeps the view of an audience as of a revision, unless a newer one was made meanwhile.
    /// Returns the view to use; `None` if it is forgotten that somebody asked.
    pub(crate) fn keep(
        &mut self,
        audience: &Audience,
        view: Arc<View>,
        revision: u64,
    ) -> Option<Arc<View>> {
        Some(self.views.get_mut(audience)?.keep(view, revision))
    }

    /// Keeps the views of many audiences, which are sorted. Calls a function with the view to use
    /// for each, except for those of which it is forgotten that somebody asked.
    pub(crate) fn keep_all(
        &mut self,
        made: Vec<(AskedView, Arc<View>)>,
        revision: u64,
        mut call: impl FnMut(AskedView, Arc<View>),
    ) {
        self.for_each(
            made,
            |(asked, _)| &asked.audience,
            |(asked, view), cached| {
                if let Some(cached) = cached {
                    call(asked, cached.keep(view, revision));
                }
            },
        );
    }

    /// Notes that somebody asks for these audiences, which are sorted. Returns what they see and the
    /// revision of that, as far as it is known.
    ///
    /// Those with values of nodes are needed for as long as somebody has them, so that a list of what a commit
    /// changed keeps none of them: the next commit would change them again, and so on.
    pub(crate) fn ask_all<'a>(
        &mut self,
        audiences: &'a [Audience],
        mut call: impl FnMut(&'a Audience, Option<(&Arc<View>, u64)>),
    ) {
        self.for_each(
            audiences.iter().collect(),
            |audience| audience,
            |audience, cached| {
                let made = cached.and_then(|cached| {
                    cached.asked |= audience.values.is_none();
                    cached.for_clients = true;
                    Some((cached.view.as_ref()?, cached.revision))
                });
                call(audience, made);
            },
        );
    }

    /// Calls a function with each of many things and what is cached for its audience. The things
    /// are sorted by audience. A few are looked up one by one; if there are more, one pass goes
    /// through them and the cache together.
    fn for_each<T>(
        &mut self,
        things: Vec<T>,
        audience: impl Fn(&T) -> &Audience,
        mut call: impl FnMut(T, Option<&mut CachedView>),
    ) {
        if things.len() < self.views.len() / WORTH_WALKING {
            for thing in things {
                let cached = self.views.get_mut(audience(&thing));
                call(thing, cached);
            }
            return;
        }
        let mut cached = self.views.iter_mut().peekable();
        for thing in things {
            while cached.next_if(|(other, _)| *other < audience(&thing)).is_some() {}
            let found = cached.next_if(|(other, _)| *other == audience(&thing));
            call(thing, found.map(|(_, cached)| cached));
        }
    }

    /// Forgets the views that nobody needs, and those of audiences that nobody can belong to.
    /// Returns what is left, by audience.
    pub(crate) fn sweep(&mut self, is_possible: impl Fn(&Audience) -> bool) -> Vec<AskedView> {
        let keeps_groups = self.keeps_groups;
        let is_kept = |audience: &Audience| keeps_groups && audience.is_of_group();
        self.forget(|audience, cached, is_held| {
            let is_needed = std::mem::take(&mut cached.asked) || is_held || is_kept(audience);
            !is_needed || !is_possible(audience)
        });
        let left = self.views.iter();
        let asked = left.map(|(audience, cached)| AskedView {
            audience: audience.clone(),
            before: cached.view.clone(),
        });
        asked.collect()
    }

    /// Forgets views. A view is held by those that are built on it, so children come first. The function is
    /// told if somebody holds a view.
    fn forget(&mut self, mut is_over: impl FnMut(&Audience, &mut CachedView, bool) -> bool) {
        let mut with_values = BTreeMap::<u64, usize>::new();
        for values in self.views.keys().filter_map(|audience| audience.values.as_ref()) {
            *with_values.entry(values.number()).or_default() += 1;
        }
        let has_values = |audience: &Audience| {
            audience.values.as_ref().is_some_and(|values| {
                let here = with_values.get(&values.number()).copied().unwrap_or_default();
                Arc::strong_count(values) > here
            })
        };
        let mut forgotten = Vec::new();
        for (audience, cached) in self.views.iter_mut().rev() {
            let is_held = cached.is_held(audience) || has_values(audience);
            if is_over(audience, cached, is_held) {
                cached.view = None;
                forgotten.push(audience.clone());
            }
        }
        for audience in &forgotten {
            self.views.remove(audience);
        }
    }

    /// The audiences that somebody asked for.
    pub(crate) fn audiences(&self) -> impl Iterator<Item = &Audience> {
        self.views.keys()
    }

    /// The views that were made, by audience: of groups all, and of base and of nodes those for clients.
    pub(crate) fn made(&self) -> Vec<(Audience, Arc<View>)> {
        let is_wanted = |audience: &Audience, cached: &CachedView| {
            cached.for_clients || (audience.group.is_some() && audience.is_of_group())
        };
        let views = self.views.iter().filter(|(audience, cached)| is_wanted(audience, cached));
        views.filter_map(|(audience, it)| Some((audience.clone(), it.view.clone()?))).collect()
    }
}

impl CachedView {
    /// Keeps a view as of a revision, unless a newer one was made meanwhile. Returns the view to
    /// use.
    fn keep(&mut self, view: Arc<View>, revision: u64) -> Arc<View> {
        match &self.view {
            Some(made) if Arc::ptr_eq(made, &view) => self.revision = self.revision.max(revision),
            // Two questions at a time make the same view twice; one of them is for all.
            Some(made) if self.revision == revision && made.is_like(&view) => {
                return Arc::clone(made);
            }
            Some(_) if self.revision > revision => {}
            _ => {
                self.view = Some(Arc::clone(&view));
                self.revision = revision;
            }
        }
        view
    }

    /// Returns true if somebody holds the snapshot, or has a view that is built on this one. One that
    /// is yet to be made is always held.
    fn is_held(&self, audience: &Audience) -> bool {
        // Very many sets of values may change nothing.
        let is_shared = |view: &View| audience.values.is_some() && view.shows_parent();
        self.view.as_ref().is_none_or(|view| {
            Arc::strong_count(view) > 1
                || (Arc::strong_count(&view.snapshot) > 1 && !is_shared(view))
        })
    }
}

impl<'a> Affected<'a> {
    pub(crate) fn of(
        before: Option<&CatalogState>,
        now: &CatalogState,
        layers: &'a BTreeSet<Layer>,
    ) -> Self {
        let held = |state: &CatalogState| !(state.holds.is_empty() && state.held.is_empty());
        let held = before.is_none_or(held) || held(now);
        Self { layers, lineage: now.lineage.clone(), held }
    }

    /// Returns true if the audience may see something else.
    pub(crate) fn contains(&self, audience: &Audience) -> bool {
        self.has(&Layer::Base) || self.lineage.layers(audience).iter().any(|layer| self.has(layer))
    }

    /// The groups that may see something else, those included whose layer is gone.
    pub(crate) fn groups<'s>(
        &'s self,
        now: &'s CatalogState,
    ) -> impl Iterator<Item = &'s Arc<str>> {
        let touched = self.layers.iter().filter_map(|layer| match layer {
            Layer::Group(name) => Some(name),
            Layer::Base | Layer::Node(_) => None,
        });
        let all = self.has(&Layer::Base).then(|| now.groups.keys());
        let extends_touched = |group: &&Arc<str>| {
            self.lineage.ancestors(group).any(|it| self.layers.contains(&Layer::Group(it.clone())))
        };
        let above = self.lineage.groups().filter(extends_touched);
        all.into_iter().flatten().chain(touched).chain(above)
    }

    /// The nodes whose own layers the commit touches.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.layers.iter().filter_map(|layer| match layer {
            Layer::Node(id) => Some(id),
            Layer::Base | Layer::Group(_) => None,
        })
    }

    /// The number of layers below the strongest one of an audience: parents have fewer.
    pub(crate) fn depth(&self, audience: &Audience) -> usize {
        self.lineage.depth(audience)
    }

    /// Returns true if the layer may be another.
    pub(crate) fn has(&self, layer: &Layer) -> bool {
        self.held || self.layers.contains(layer)
    }
}

/// The number of views up to which those that nobody holds stay until the next commits: a poll that
/// comes again soon finds its view.
const UNHELD: usize = 512;

/// Views are looked up one by one if they are fewer than one in so many.
const WORTH_WALKING: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::LayerContent;
    use crate::view::Place;

    fn view() -> Arc<View> {
        View::of(Place::Inner, Some(Arc::new(LayerContent::default())), None, None)
    }

    fn left(asked: &[AskedView]) -> Vec<&Audience> {
        asked.iter().map(|asked| &asked.audience).collect()
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
        assert!(views.sweep(|_| true).is_empty());
        assert!(views.keep(&base, view(), 1).is_none());
    }

    #[test]
    fn views_that_nobody_holds_are_few_however_many_are_asked_for() {
        let (mut views, mut held) = (ViewCache::default(), Vec::new());
        for number in 0..10 * UNHELD {
            let audience = Audience::of(Some(number.to_string().into()), None);
            views.ask(&audience);
            let view = views.keep(&audience, view(), 1).unwrap();
            if number % 20 == 0 {
                held.push((audience, view));
            }
            assert!(views.views.len() <= UNHELD + held.len() * 2, "{}", views.views.len());
        }
        assert!(held.iter().all(|(audience, view)| {
            views.get(audience).is_some_and(|known| Arc::ptr_eq(&known, view))
        }));
    }

    #[test]
    fn a_view_stays_while_somebody_holds_its_snapshot_or_builds_on_it() {
        let mut views = ViewCache::default();
        let (base, group) = (Audience::default(), Audience::of(Some("g".into()), None));
        let (parent, own) = (view(), Arc::new(LayerContent::default()));
        let child = View::of(Place::Inner, Some(own), Some(Arc::clone(&parent)), None);
        for (audience, view) in [(&base, &parent), (&group, &child)] {
            views.ask(audience);
            views.keep(audience, Arc::clone(view), 1);
        }
        drop(parent);
        drop(views.sweep(|_| true));
        assert_eq!(views.sweep(|_| true).len(), 2, "somebody holds the child");
        let swept = views.sweep(|audience| audience.group.is_none());
        assert_eq!(left(&swept), [&base]);
        drop(swept);
        drop(child);
        assert!(views.sweep(|_| true).is_empty());
    }
}
