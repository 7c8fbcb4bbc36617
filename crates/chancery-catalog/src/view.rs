//! The view of one audience, and how it follows from the one before.
//!
//! ```text
//!   before: base, group, node     now: base', group', node'
//!                 \--- names that differ ---/
//!                          |  for each: the node's, else the group's, else base's
//!                          v
//!                 the snapshot it saw --> the snapshot it sees
//! ```
//!
//! The first view of an audience is that of its [parent](crate::audience::Audience::parent) with its
//! strongest layer written over it; views so share what their layers have in common. Contents share
//! what did not change from commit to commit, so finding the names that differ costs what differs.
//! A view never changes.
//!
//! Most audiences of a large fleet have a small overlay, and most changes have nothing to do with
//! it. These go on with the same overlay over the next view of their parent ([`View::rebased`]).

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, Weak};

use chancery_core::{Resource, Snapshot};
use chancery_proto::complete::Complete;

use crate::content::LayerContent;
use crate::entry::Key;
use crate::filled::{UnfitResource, differing, fill};
use crate::flaws::{Flaws, Unapplied};
use crate::reach::KeySet;
use crate::resolve::{resolve, resolve_all};
use crate::stated::StatedValues;

/// The snapshot that one audience sees, and what it is made of.
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) flaws: Flaws,
    /// The state that the next view, and views above this one, are made from. With a small overlay
    /// it is made when it is needed.
    whole: OnceLock<Box<Complete>>,
    /// The content of the strongest layer; `None` if there is no such layer.
    own: Slot,
    /// The view of the layers below it.
    parent: Option<Arc<Self>>,
    /// The reach of the strongest layer, if that is a small overlay.
    reach: Option<KeySet>,
    /// The step from the view before it, for views that are made from this one.
    step: Option<ViewStep>,
}

/// The step from one view to the next.
struct ViewStep {
    from: Weak<View>,
    /// The keys that it may have touched.
    keys: KeySet,
}

/// The place of a view among those that are made from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Views of stronger layers are made from it.
    Inner,
    /// No layer is stronger.
    Leaf,
}

/// The content of a layer, if there is such a layer.
pub(crate) type Slot = Option<Arc<LayerContent>>;

impl View {
    /// The view of a layer over its parent, for an audience that saw `before`.
    ///
    /// A small overlay is written over its parent each time, so that the view goes on sharing what
    /// both have in common; a large one follows the changes.
    pub(crate) fn of(
        place: Place,
        own: Slot,
        parent: Option<Arc<Self>>,
        before: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let rebased = parent.as_ref().zip(before).filter(|(_, before)| is_same(&before.own, &own));
        if let Some(view) = rebased.and_then(|(parent, before)| before.rebased(place, parent)) {
            return Arc::new(view);
        }
        let is_small = parent.as_ref().is_some_and(|parent| parent.dwarfs(&own));
        let followed = before.filter(|_| !is_small).and_then(|before| before.whole.get());
        let mut view = match (before, followed) {
            (Some(before), Some(whole)) => before.next(Complete::clone(whole), own, parent),
            (before, _) => Self::over(own, parent, before),
        };
        if let Some(parent) = view.parent.as_ref().filter(|_| is_small) {
            let overlay = view.own.iter().flat_map(|content| content.iter());
            view.reach = KeySet::reach(overlay, [&parent.snapshot, &view.snapshot]);
        }
        match place {
            Place::Inner => view.step = before.and_then(|before| view.step_from(before)),
            Place::Leaf if is_small => view.whole = OnceLock::new(),
            Place::Leaf => {}
        }
        Arc::new(view)
    }

    /// The view with the same overlay, over the next view of the parent; `None` if the overlay may
    /// change something else there.
    fn rebased(self: &Arc<Self>, place: Place, parent: &Arc<Self>) -> Option<Self> {
        let from = self.parent.as_ref()?;
        let (reach, keys) = (self.reach.as_ref()?, parent.step.as_ref()?.keys_from(from)?);
        if !from.flaws.is_same(&parent.flaws) || !reach.is_apart_from(keys) {
            return None;
        }
        let snapshot = if Arc::ptr_eq(&self.snapshot, &from.snapshot) {
            Arc::clone(&parent.snapshot)
        } else if Arc::ptr_eq(&from.snapshot, &parent.snapshot) {
            Arc::clone(&self.snapshot)
        } else {
            Arc::new(self.snapshot.rebased(&from.snapshot, &parent.snapshot)?)
        };
        let step = (place == Place::Inner).then(|| ViewStep::new(self, keys.clone()));
        Some(Self {
            snapshot,
            flaws: self.flaws.clone(),
            whole: OnceLock::new(),
            own: self.own.clone(),
            parent: Some(Arc::clone(parent)),
            reach: Some(reach.clone()),
            step,
        })
    }

    /// The step from an earlier view to this one, if it is known.
    fn step_from(&self, before: &Arc<Self>) -> Option<ViewStep> {
        let below = match (&before.parent, &self.parent) {
            (Some(before), Some(now)) if !Arc::ptr_eq(before, now) => {
                Some(now.step.as_ref()?.keys_from(before)?)
            }
            // A group that extends another for the first time has layers below it that were not there.
            (None, Some(_)) | (Some(_), None) => return None,
            (Some(_), Some(_)) | (None, None) => None,
        };
        let below = below.cloned().unwrap_or_default();
        if is_same(&before.own, &self.own) {
            return Some(ViewStep::new(before, below));
        }
        let mut differing = BTreeSet::new();
        add_differing(&before.own, &self.own, &mut differing);
        let keys = below.with_touched(differing.iter(), &before.snapshot, &self.snapshot)?;
        Some(ViewStep::new(before, keys))
    }

    /// The layer of nodes that state values, over this view. `before` is the view that it had.
    pub(crate) fn filled(&self, stated: &StatedValues, before: Option<&Arc<Self>>) -> Slot {
        let below = before
            .and_then(|before| Some((before.parent.as_ref()?.layers(), before.own.as_ref()?)));
        let before = below.as_ref().map(|(layers, content)| (&layers[..], *content));
        Some(fill(&self.layers(), stated.values(), before))
    }

    /// Returns true if it shows the snapshot of its parent, which others hold.
    pub(crate) fn shows_parent(&self) -> bool {
        self.parent.as_ref().is_some_and(|it| Arc::ptr_eq(&it.snapshot, &self.snapshot))
    }

    /// Returns true if the resources with values of nodes are the same in both.
    pub(crate) fn fills_same(&self, other: &Self) -> bool {
        let has_values = |view: &Self| {
            let mut chain = std::iter::successors(Some(view), |view| view.parent.as_deref());
            chain.any(|view| view.own.as_ref().is_some_and(|own| !own.valued().is_empty()))
        };
        (!has_values(self) && !has_values(other))
            || differing(&self.layers(), &other.layers()).is_empty()
    }

    /// Returns true if this is made of that layer alone.
    pub(crate) fn is_of(&self, own: &Slot) -> bool {
        is_same(&self.own, own) && self.parent.is_none()
    }

    /// Returns true if this is made of that layer over that view.
    pub(crate) fn is_over(&self, own: &Slot, parent: &Arc<Self>) -> bool {
        is_same(&self.own, own) && self.parent.as_ref().is_some_and(|it| Arc::ptr_eq(it, parent))
    }

    /// Returns true if nobody could tell this from another view: neither content nor references differ.
    pub(crate) fn shows_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot) && self.flaws.is_same(&other.flaws)
    }

    /// The first resource that could not be filled with values of nodes.
    pub(crate) fn unfit(&self) -> Option<&Arc<UnfitResource>> {
        self.own.as_ref()?.unfit()
    }

    /// The content of the strongest layer.
    pub(crate) fn own(&self) -> &Slot {
        &self.own
    }

    /// The view of the layers below the strongest one.
    pub(crate) fn parent(&self) -> Option<&Arc<Self>> {
        self.parent.as_ref()
    }

    /// Returns true if this is made of the same layers as another view of the audience.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let (one, other) = (self.layers(), other.layers());
        one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| is_same(one, other))
    }

    /// Returns true if an overlay is small beside this.
    fn dwarfs(&self, own: &Slot) -> bool {
        let own = own.as_ref().map_or(0, |content| content.len());
        own <= FEW || own.saturating_mul(MANY_TIMES) <= self.snapshot.len()
    }

    /// The view of a layer, written over its parent.
    fn over(own: Slot, parent: Option<Arc<Self>>, before: Option<&Arc<Self>>) -> Self {
        let mut whole = parent.as_ref().map(|parent| parent.complete()).unwrap_or_default();
        let known = parent.as_ref().map(|parent| parent.flaws.at(&whole));
        let Written { changed, unapplied: of_own } = write_over(&mut whole, &own);
        let mut unapplied =
            parent.as_ref().map(|it| it.flaws.unapplied.to_vec()).unwrap_or_default();
        unapplied.extend(of_own);
        unapplied.sort_by(|one, other| one.key.cmp(&other.key));
        let shown = before.map(|before| &before.snapshot);
        let snapshot = match (&parent, shown) {
            (Some(parent), Some(before)) if !changed && *before == parent.snapshot => {
                Arc::clone(before)
            }
            (Some(parent), _) if !changed => Arc::clone(&parent.snapshot),
            (parent, before) => snapshot_over(&whole, parent.as_deref(), before),
        };
        let flaws = Flaws::of(&mut whole, known, before.map(|it| &it.flaws), unapplied);
        Self::with_whole(whole, snapshot, flaws, own, parent)
    }

    /// The view after this one, from the state of this one.
    fn next(&self, mut whole: Complete, own: Slot, parent: Option<Arc<Self>>) -> Self {
        let (before, mut now) = (self.layers(), vec![own.clone()]);
        now.extend(parent.iter().flat_map(|parent| parent.layers()));
        let known = Some(self.flaws.at(&whole));
        // Origins are no content: an audience that sees the same keeps its snapshot.
        let mut unapplied = self.flaws.unapplied.to_vec();
        let snapshot = match follow(&mut whole, &before, &now, &mut unapplied) {
            true => Arc::new(whole.snapshot().clone()),
            false => Arc::clone(&self.snapshot),
        };
        let flaws = Flaws::of(&mut whole, known, None, unapplied);
        Self::with_whole(whole, snapshot, flaws, own, parent)
    }

    /// A view with the state that it was made from.
    fn with_whole(
        whole: Complete,
        snapshot: Arc<Snapshot>,
        flaws: Flaws,
        own: Slot,
        parent: Option<Arc<Self>>,
    ) -> Self {
        let whole = Box::new(whole).into();
        Self { snapshot, flaws, whole, own, parent, reach: None, step: None }
    }

    /// The state that views above this one are made from.
    fn complete(&self) -> Complete {
        Complete::clone(self.whole.get_or_init(|| Box::new(self.made_anew())))
    }

    /// The state of this view, from the state of its parent.
    fn made_anew(&self) -> Complete {
        let mut whole = self.parent.as_ref().map(|parent| parent.complete()).unwrap_or_default();
        write_over(&mut whole, &self.own);
        whole
    }

    /// The layers this is made of, the strongest first.
    pub(crate) fn layers(&self) -> Vec<Slot> {
        let chain = std::iter::successors(Some(self), |view| view.parent.as_deref());
        chain.map(|view| view.own.clone()).collect()
    }
}

impl ViewStep {
    fn new(from: &Arc<View>, keys: KeySet) -> Self {
        Self { from: Arc::downgrade(from), keys }
    }

    /// The keys, if the step is from that view.
    fn keys_from(&self, view: &Arc<View>) -> Option<&KeySet> {
        std::ptr::eq(self.from.as_ptr(), Arc::as_ptr(view)).then_some(&self.keys)
    }
}

/// The outcome of a layer that is written over a state.
#[derive(Default)]
struct Written {
    /// True if that changed anything.
    changed: bool,
    /// The edits of the layer that are not applied.
    unapplied: Vec<Unapplied>,
}

/// Writes a layer over a state. Its edits are those of resources of the layers below, so the order of the
/// entries does not matter.
fn write_over(whole: &mut Complete, own: &Slot) -> Written {
    let mut written = Written::default();
    for (key, entry) in own.iter().flat_map(|content| content.iter()) {
        match resolve(entry, whole.published(&key.type_url, &key.name)) {
            Ok(resource) => written.changed |= put(whole, key, resource),
            Err(why) => written.unapplied.push(Unapplied::of(key, entry, why)),
        }
    }
    written
}

/// Makes this the published resource of that key. Returns true if that changed anything.
fn put(whole: &mut Complete, key: &Key, resource: Option<Arc<Resource>>) -> bool {
    match resource {
        Some(resource) => whole.insert(&key.type_url, resource),
        None => whole.remove(&key.type_url, &key.name),
    }
}

/// The snapshot of a state that was written over a parent; the one before, if nothing changed.
fn snapshot_over(
    whole: &Complete,
    parent: Option<&View>,
    before: Option<&Arc<Snapshot>>,
) -> Arc<Snapshot> {
    let mut snapshot = whole.snapshot().clone();
    if let Some(parent) = parent {
        snapshot.written_over(&parent.snapshot);
    }
    match before {
        Some(before) if snapshot.keep_same(before) => Arc::clone(before),
        _ => Arc::new(snapshot),
    }
}

/// Brings what came of some layers, the strongest first, to what comes of others, and the list of their edits
/// that are not applied. Returns true if a resource changed.
fn follow(
    whole: &mut Complete,
    before: &[Slot],
    now: &[Slot],
    unapplied: &mut Vec<Unapplied>,
) -> bool {
    let mut names = BTreeSet::new();
    // A group that extends another than before has other layers below it, and maybe more of them.
    for at in 0..before.len().max(now.len()) {
        let at = |layers: &[Slot]| layers.get(at).cloned().flatten();
        let (before, now) = (at(before), at(now));
        if !is_same(&before, &now) {
            add_differing(&before, &now, &mut names);
        }
    }
    unapplied.retain(|edit| !names.contains(&edit.key));
    let mut changed = false;
    for key in &names {
        let entries = now.iter().rev().flatten().filter_map(|layer| layer.get(key));
        let resource = resolve_all(key, entries, unapplied);
        changed |= put(whole, key, resource);
    }
    unapplied.sort_by(|one, other| one.key.cmp(&other.key));
    changed
}

/// Adds the names that two states of a layer do not agree about.
fn add_differing(before: &Slot, now: &Slot, names: &mut BTreeSet<Key>) {
    let nothing = LayerContent::default();
    let content = |slot: &Slot| slot.as_deref().cloned().unwrap_or_default();
    match (before, now) {
        (Some(before), Some(now)) => names.extend(before.differing(now).cloned()),
        (before, now) => {
            let (before, now) = (content(before), content(now));
            names.extend(before.differing(&nothing).chain(now.differing(&nothing)).cloned());
        }
    }
}

fn is_same(old: &Slot, new: &Slot) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (None, None) => true,
        _ => false,
    }
}

/// An overlay of so few resources is small, whatever it is written over.
const FEW: usize = 16;
/// An overlay is small beside a view that holds so many times its resources.
const MANY_TIMES: usize = 8;

#[cfg(test)]
mod tests {
    use chancery_core::{Facts, Link, Resource, TypeUrl};

    use super::*;
    use crate::entry::{Entry, Origin};
    use crate::layer::Layer;

    fn url(short: &str) -> TypeUrl {
        TypeUrl::known().find(|type_url| type_url.short() == short).unwrap()
    }

    /// A layer with clusters that wait for endpoints, and with some of the endpoints.
    fn layer(clusters: &[&str], endpoints: &[&str]) -> Slot {
        let mut content = LayerContent::default();
        let mut put = |short: &str, name: &str, links| {
            let facts = Facts { links, ..Facts::default() };
            let body = format!("{short} {name}").into_bytes();
            let resource = Resource::new(name.parse().unwrap(), body.into()).with_facts(facts);
            let key = Key::of(&url(short), &resource);
            content.set(&Layer::Base, key, Some(Entry::new(resource, Origin::program("test"))));
        };
        for name in clusters {
            let link = |name: &str| Link {
                type_url: url("eds"),
                name: name.parse().unwrap(),
                aggregated: true,
            };
            put("cds", name, vec![link(name)]);
        }
        endpoints.iter().for_each(|name| put("eds", name, Vec::new()));
        Some(Arc::new(content))
    }

    #[test]
    fn a_cluster_that_comes_with_its_endpoints_changes_nothing_that_is_missing() {
        let base = View::of(Place::Inner, layer(&["a"], &[]), None, None);
        let own = layer(&["b"], &[]);
        let over = |base: &Arc<View>, own: &Slot, before: Option<&Arc<View>>| {
            View::of(Place::Inner, own.clone(), Some(Arc::clone(base)), before)
        };
        let group = over(&base, &own, None);
        assert_eq!((base.flaws.dangling.len(), group.flaws.dangling.len()), (1, 2));
        let next = View::of(Place::Inner, layer(&["a", "c"], &["c"]), None, Some(&base));
        assert!(Arc::ptr_eq(&base.flaws.dangling, &next.flaws.dangling));
        let of_group = over(&next, &own, Some(&group));
        assert!(Arc::ptr_eq(&group.flaws.dangling, &of_group.flaws.dangling));
        let own = layer(&["b", "d"], &["d"]);
        assert!(Arc::ptr_eq(
            &group.flaws.dangling,
            &over(&next, &own, Some(&of_group)).flaws.dangling
        ));
        let lacking = View::of(Place::Inner, layer(&["a", "c"], &[]), None, Some(&next));
        assert_eq!(lacking.flaws.dangling.len(), 2);
    }

    /// A layer, with other clusters, each with those that it is made of.
    fn aggregates(layer: &Slot, clusters: &[(&str, &[&str])]) -> Slot {
        let mut content = layer.as_deref().cloned().unwrap_or_default();
        for (name, members) in clusters {
            let link = |name: &&str| Link {
                type_url: url("cds"),
                name: name.parse().unwrap(),
                aggregated: true,
            };
            let links = members.iter().map(link).collect();
            let facts = Facts { links, is_aggregate: !members.is_empty(), ..Facts::default() };
            let body = format!("{name} {members:?}").into_bytes();
            let resource = Resource::new(name.parse().unwrap(), body.into()).with_facts(facts);
            let key = Key::of(&url("cds"), &resource);
            content.set(&Layer::Base, key, Some(Entry::new(resource, Origin::program("test"))));
        }
        Some(Arc::new(content))
    }

    #[test]
    fn a_circle_is_found_that_leads_through_clusters_of_two_layers() {
        // Each has a plain one beside: one that aggregates nothing but aggregates is a flaw of its own.
        let own = aggregates(&None, &[("a", &["b", "plain-0"])]);
        let over = |base: &Arc<View>, before: Option<&Arc<View>>| {
            View::of(Place::Leaf, own.clone(), Some(Arc::clone(base)), before)
        };
        let names: Vec<_> = (0..1000).map(|number| format!("plain-{number}")).collect();
        let plain: Vec<(&str, &[&str])> =
            names.iter().map(|name| (name.as_str(), &[][..])).collect();
        let layer = aggregates(&None, &plain);
        let layer =
            aggregates(&layer, &[("b", &["x", "plain-1"]), ("y", &["a", "plain-2"]), ("x", &[])]);
        let base = View::of(Place::Inner, layer.clone(), None, None);
        let group = over(&base, None);
        assert_eq!((base.flaws.cycles.len(), group.flaws.cycles.len()), (0, 0));
        // Nothing that changes is named by the overlay.
        let next = aggregates(&layer, &[("x", &["y", "plain-3"])]);
        let closed = View::of(Place::Inner, next, None, Some(&base));
        let group = over(&closed, Some(&group));
        assert_eq!((closed.flaws.cycles.len(), group.flaws.cycles.len()), (0, 1));
        let told = group.flaws.cycles[0].to_string();
        assert_eq!(told, "cds `a` aggregates itself through `b`, `x` and `y`");
        let opened = View::of(Place::Inner, layer, None, Some(&closed));
        assert_eq!(over(&opened, Some(&group)).flaws.cycles.len(), 0);
    }
}
