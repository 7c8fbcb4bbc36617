//! The layers of the catalog and the resources in them, and what of them is held back.
//!
//! Not here: what an audience sees of it.

use std::sync::Arc;

use super::{Catalog, ListedEntry};
use crate::audience::Audience;
use crate::changes::Hold;
use crate::content::LayerContent;
use crate::entry::Form;
use crate::history::History;
use crate::layer::Layer;
use crate::lineage::Lineage;
use crate::state::{LayerState, OverlayNames};

impl Catalog {
    /// The lineage of the newest state.
    pub fn lineage(&self) -> Lineage {
        self.lock().history.newest().map(|newest| newest.lineage.clone()).unwrap_or_default()
    }

    /// The groups with an overlay, those included whose overlay is gone while the gate holds that.
    pub fn groups(&self) -> OverlayNames {
        self.lock().history.groups()
    }

    /// The nodes with an overlay, by their ids.
    pub fn nodes(&self) -> OverlayNames {
        let inner = self.lock();
        inner.history.newest().map(|state| OverlayNames(state.nodes.clone())).unwrap_or_default()
    }

    /// The content of a layer, if there is such a layer and it is not held back.
    pub fn layer(&self, layer: &Layer) -> Option<Arc<LayerContent>> {
        match self.lock().history.newest()?.layer(layer) {
            LayerState::Good(content) => Some(Arc::clone(content)),
            LayerState::Absent | LayerState::Held => None,
        }
    }

    /// The content of a layer, if there is such a layer. While it is held back, that is what it was
    /// before.
    pub fn content(&self, layer: &Layer) -> Option<Arc<LayerContent>> {
        self.lock().history.newest()?.content(layer).cloned()
    }

    /// The number of resources that stand at their origin, in those of the layers that are not held
    /// back.
    pub fn resource_count<'a>(&self, layers: impl IntoIterator<Item = &'a Layer>) -> usize {
        let newest = self.lock().history.newest().cloned();
        let count = |layer| match newest.as_deref().map(|newest| newest.layer(layer)) {
            Some(LayerState::Good(content)) => content.written(),
            Some(LayerState::Absent | LayerState::Held) | None => 0,
        };
        layers.into_iter().map(count).sum()
    }

    /// All layers, held back or not.
    pub fn layers(&self) -> Vec<Layer> {
        self.lock().history.newest().map(|it| it.layers().collect()).unwrap_or_default()
    }

    /// The layers that are held back.
    pub fn held_back(&self) -> Vec<Layer> {
        let inner = self.lock();
        let Some(newest) = inner.history.newest() else { return Vec::new() };
        let held = newest.holds.iter().filter_map(|hold| match hold {
            Hold::Layer(layer) => Some(layer.clone()),
            Hold::UnlistedGroups | Hold::UnlistedNodes => None,
        });
        held.collect()
    }

    /// The audiences that the gate holds, sorted. The nodes of a group are held with it.
    pub fn held_audiences(&self) -> Vec<Audience> {
        let inner = self.lock();
        inner.history.newest().map(|it| it.held.iter().cloned().collect()).unwrap_or_default()
    }

    /// The states that somebody depends on, and the audiences that somebody asked for, without values.
    pub(crate) fn history_and_audiences(&self) -> (History, Vec<Audience>) {
        let inner = self.lock();
        let asked = inner.views.audiences().filter(|audience| audience.values.is_none()).cloned();
        (inner.history.clone(), asked.collect())
    }

    /// All resources that stand at their origin, by layer: of a layer that is held back, what is
    /// still served.
    pub fn entries(&self) -> impl Iterator<Item = ListedEntry> + use<> {
        let contents = self.last_good();
        contents.into_iter().flat_map(|(layer, content)| {
            let written = content.iter().filter(|(_, entry)| entry.form == Form::Written);
            let listed = written.map(|(key, entry)| ListedEntry {
                layer: layer.clone(),
                key: key.clone(),
                entry: entry.clone(),
            });
            listed.collect::<Vec<_>>()
        })
    }

    fn last_good(&self) -> Vec<(Layer, Arc<LayerContent>)> {
        let inner = self.lock();
        let layers = inner.history.newest().into_iter().flat_map(|newest| newest.layers());
        layers
            .filter_map(|layer| {
                let content = Arc::clone(inner.history.last_good(&layer)?);
                Some((layer, content))
            })
            .collect()
    }
}
