//! The story of each resource that a node gets: the place it comes from, the patches, and what it hides.
//!
//! Not here: its content. It follows the layers as the catalog does, from the weakest one up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::{Audience, Catalog, Entry, EntryContent, Form, Key, Layer, Origin};
use chancery_core::{Api, Resource};

/// All that a node gets, and the layers that it comes from.
pub(super) struct Story {
    /// The layers that the node sees, the strongest first.
    pub(super) layers: Vec<LayerStory>,
    /// The resources, by type and name, those included that a layer removes.
    pub(super) resources: BTreeMap<Key, ResourceStory>,
}

/// A layer.
pub(super) struct LayerStory {
    pub(super) layer: Layer,
    /// The files with what it says, and other places; `None` if there is no such layer.
    pub(super) files: Option<BTreeSet<String>>,
}

/// A resource.
#[derive(Default)]
pub(super) struct ResourceStory {
    /// The place of the whole resource; `None` if it is removed, or made up, or was never there.
    pub(super) origin: Option<Origin>,
    /// The places of the patches that change it, in the order in which they are applied.
    pub(super) patches: Vec<Origin>,
    /// The place of the removal, if it is removed.
    pub(super) removed_by: Option<Origin>,
    /// The places of resources and edits below that do not count, because a layer above says something else.
    pub(super) hides: Vec<Origin>,
    /// The edits that are not applied, each with the reason.
    pub(super) not_applied: Vec<(Origin, String)>,
    /// True for an empty endpoint set that no file has, and that the cluster would wait for.
    pub(super) is_made_up: bool,
    resource: Option<Arc<Resource>>,
}

impl Story {
    /// The story of an audience.
    pub(super) fn of(catalog: &Catalog, audience: &Audience) -> Self {
        let mut story = Self { layers: Vec::new(), resources: BTreeMap::new() };
        for layer in catalog.lineage().layers(audience) {
            let content = catalog.content(&layer);
            let mut files = content.as_ref().map(|_| BTreeSet::new());
            for (key, entry) in content.iter().flat_map(|content| content.iter()) {
                files.get_or_insert_default().insert(file_of(&entry.origin));
                if entry.form == Form::Written {
                    story.resources.entry(key.clone()).or_default().take(entry);
                }
            }
            story.layers.insert(0, LayerStory { layer, files });
        }
        story.add_made_up(catalog, audience);
        story
    }

    /// Adds the endpoint sets that no file has.
    fn add_made_up(&mut self, catalog: &Catalog, audience: &Audience) {
        let audience = catalog.audience(audience.group.as_deref(), audience.node.as_deref());
        let Some(seen) = catalog.seen_by(&audience) else { return };
        let is_endpoints = |api: Api, name: &str| api == Api::Eds && !name.contains(".v2.");
        let types = seen.snapshot.types();
        for type_url in types.filter(|it| is_endpoints(it.api(), it.message_name())) {
            for resource in seen.snapshot.set(type_url).iter() {
                let story = self.resources.entry(Key::of(type_url, resource)).or_default();
                story.is_made_up = story.origin.is_none();
            }
        }
    }

    /// Leaves out resources of other types and names.
    pub(super) fn keep_only(&mut self, type_name: Option<&str>, name: Option<&str>) {
        self.resources.retain(|key, _| {
            let type_url = &key.type_url;
            let is_type = |wanted| type_url.short() == wanted || type_url.as_str() == wanted;
            type_name.is_none_or(is_type) && name.is_none_or(|name| key.name.as_str() == name)
        });
    }

    /// Returns true if the node gets none of the resources.
    pub(super) fn is_empty(&self) -> bool {
        !self.resources.values().any(|story| story.origin.is_some() || story.is_made_up)
    }
}

impl ResourceStory {
    /// Takes over what the next layer up says.
    fn take(&mut self, entry: &Entry) {
        let place = || entry.origin.clone();
        match (&entry.content, self.resource.take()) {
            (EntryContent::Whole(resource), _) => {
                self.hide();
                (self.origin, self.resource) = (Some(place()), Some(Arc::clone(resource)));
            }
            (EntryContent::Removal(_), Some(_)) => {
                self.hide();
                self.removed_by = Some(place());
            }
            (EntryContent::Patch(patch), Some(below)) => {
                match patch.apply(&below).and_then(|made| {
                    let values = entry.values.as_ref().map_or(Ok(()), |values| values.check(&made));
                    values.map(|()| made)
                }) {
                    Ok(patched) => {
                        self.patches.push(place());
                        self.resource = Some(patched);
                    }
                    Err(why) => {
                        self.not_applied.push((place(), why.to_string()));
                        self.resource = Some(below);
                    }
                }
            }
            (EntryContent::Patch(_) | EntryContent::Removal(_), None) => {
                self.not_applied.push((place(), "no layer below has it".to_owned()));
            }
        }
    }

    /// Makes all that is below something that does not count.
    fn hide(&mut self) {
        self.hides.extend(self.origin.take());
        self.hides.append(&mut self.patches);
        self.hides.extend(self.removed_by.take());
        self.hides.extend(self.not_applied.drain(..).map(|(place, _)| place));
    }
}

fn file_of(origin: &Origin) -> String {
    match origin {
        Origin::File { path, .. } => path.display().to_string(),
        elsewhere => elsewhere.to_string(),
    }
}
