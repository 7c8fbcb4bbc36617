//! The gate: what an audience would see next is judged before anybody sees it.
//!
//! The catalog asks for base, each group, and each node of its own that somebody asked for. An
//! audience whose next state is held sees what it saw, whole, as if a layer of it were held back; it
//! is judged again with each commit, and when the gate may think otherwise
//! ([`Catalog::judge_again`](crate::Catalog::judge_again)). Not here: any judgement.

use std::path::Path;
use std::sync::Arc;

use chancery_core::{ResourceName, Snapshot, TypeUrl};
use chancery_proto::complete::{Clash, Cycle, Dangling};
use chancery_proto::resource::places_of_link;
use chancery_proto::schema::Schema;
use chancery_proto::values::Stated;

use crate::audience::Audience;
use crate::content::LayerContent;
use crate::entry::{EntryContent, Key, Origin};
use crate::filled::{
    FilledValue, Needs, UnfitResource, Unstated, fill, filled_values, no_longer_filled,
};
use crate::flaws::Unapplied;
use crate::told;
use crate::view::{Place, View};

/// A judge of what goes live.
pub trait Gate: Send + Sync {
    /// Returns true if the audience may see what a commit has for it.
    ///
    /// It is called while other commits wait, and once for every commit that may concern the
    /// audience. The same question must have the same answer until the caller of
    /// [`Catalog::judge_again`](crate::Catalog::judge_again) says otherwise.
    fn lets_pass(&self, audience: &Audience, before: Option<&Seen>, after: &Seen) -> bool;

    /// Takes note that all audiences were asked for, and which of them are held now, sorted. An audience
    /// that would see what it sees already is not asked for and not held.
    fn judged(&self, held: &mut dyn Iterator<Item = &Audience>) {
        _ = held;
    }
}

/// The state that an audience sees, or would see.
#[derive(Clone)]
pub struct Seen {
    view: Arc<View>,
    /// The values that it is filled with.
    stated: Option<Arc<Stated>>,
}

impl Seen {
    pub(crate) fn new(view: &Arc<View>) -> Self {
        Self { view: Arc::clone(view), stated: None }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.view.snapshot
    }

    /// Returns true if the strongest layer of the audience is there, if only without resources.
    pub fn has_own_layer(&self) -> bool {
        self.view.own().is_some()
    }

    /// The place of a resource, or of what its strongest layer says of it; `None` if no layer has it.
    pub fn origin(&self, type_url: &TypeUrl, name: &ResourceName) -> Option<&Origin> {
        let key = Key { type_url: type_url.clone(), name: name.clone() };
        self.layers().find_map(|own| own.get(&key)).map(|entry| &entry.origin)
    }

    /// The origin of a resource with a reference, and the path of the field there: in the strongest layer that
    /// has the reference; `None` if none has it so, as where nodes fill in the name.
    pub fn field_of(&self, schema: &Schema, reference: &Dangling) -> Option<(&Origin, String)> {
        let Dangling { type_url, name, target } = reference;
        let key = Key { type_url: type_url.clone(), name: name.clone() };
        let entries = self.layers().filter_map(|own| own.get(&key));
        for entry in entries {
            let fields = match &entry.content {
                EntryContent::Whole(resource) => {
                    places_of_link(schema, type_url, resource.body(), target, 1)
                }
                EntryContent::Patch(patch) => patch.places_of_link(target, 1),
                EntryContent::Removal(_) => Vec::new(),
            };
            if let Some(field) = fields.into_iter().next() {
                return Some((&entry.origin, field));
            }
            if !matches!(entry.content, EntryContent::Patch(_)) {
                break;
            }
        }
        None
    }

    /// Returns true if a layer has something of this file. The first question about a layer walks over it.
    pub fn has_file(&self, path: &Path) -> bool {
        self.layers().any(|own| own.has_file(path))
    }

    /// The content of its layers, the strongest first.
    fn layers(&self) -> impl Iterator<Item = &Arc<LayerContent>> {
        let chain = std::iter::successors(Some(&self.view), |view| view.parent());
        chain.filter_map(|view| view.own().as_ref())
    }

    /// Returns true if the strongest layer of the audience stands on that of another group.
    pub fn extends_group(&self) -> bool {
        let below = std::iter::successors(self.view.parent(), |view| view.parent());
        let mut above_base = below.filter(|view| view.parent().is_some());
        above_base.any(|view| view.own().is_some())
    }

    /// Returns true if it says the same as another state of what nodes state.
    pub fn fills_same(&self, other: &Self) -> bool {
        self.view.fills_same(&other.view)
    }

    /// The fields that its layers fill with what nodes state.
    pub fn filled_values(&self) -> Vec<FilledValue> {
        filled_values(&self.view.layers())
    }

    /// The fields that this state fills and a later one fills no more, though it keeps what stands there in place of
    /// a value.
    pub fn no_longer_filled(&self, after: &Self) -> Vec<FilledValue> {
        let snapshots = [self.snapshot(), after.snapshot()].map(|it| &**it);
        no_longer_filled([&self.view.layers(), &after.view.layers()], snapshots)
    }

    /// The variables that its nodes have to state.
    pub fn needs(&self) -> Needs {
        Needs::of(&self.view.layers())
    }

    /// The state as nodes see it that state these values.
    ///
    /// # Errors
    /// If the values do not fit.
    pub fn filled_with(&self, stated: &Stated) -> Result<Self, Unstated> {
        let filled = fill(&self.view.layers(), stated, None);
        if let Some(unfit) = filled.unfit() {
            return Err(Unstated::Unfit(Box::new(UnfitResource::clone(unfit))));
        }
        let below = Some(Arc::clone(&self.view));
        let stated = Some(Arc::new(stated.clone()));
        Ok(Self { view: View::of(Place::Leaf, Some(filled), below, None), stated })
    }

    /// The words for the target of a reference, in a state that is [filled](Self::filled_with) with values, which
    /// are not in them; `None` if the target has the name that the files have.
    pub fn name_of_target(&self, reference: &Dangling) -> Option<String> {
        told::name_of_target(&self.view, self.stated.as_deref()?, reference)
    }

    /// The references in the snapshot that lead nowhere.
    pub fn dangling(&self) -> &Arc<[Dangling]> {
        &self.view.flaws.dangling
    }

    /// The resources in the snapshot that a client does not take beside another one.
    pub fn clashes(&self) -> &Arc<[Clash]> {
        &self.view.flaws.clashes
    }

    /// The circles of clusters that aggregate each other.
    pub fn cycles(&self) -> &Arc<[Cycle]> {
        &self.view.flaws.cycles
    }

    /// The edits of its layers that are not applied.
    pub fn unapplied(&self) -> &Arc<[Unapplied]> {
        &self.view.flaws.unapplied
    }
}
