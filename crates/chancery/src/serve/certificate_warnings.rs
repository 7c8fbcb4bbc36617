//! The warnings about certificates in resources that have expired, expire soon, or have another key. Each is
//! told as new once.
//!
//! They are looked for after each load, and from time to time, because only the clock makes most of them.
//! Not here: what is wrong with a certificate (`certificates`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use chancery_catalog::{Catalog, Entry, EntryContent, Form, Key, Layer, LayerContent};
use chancery_core::{Api, Resource, Version};
use chancery_proto::Schema;
use chancery_sources::Warning;

use super::reference_warnings::warning;
use crate::certificates::{self, State};
use crate::gate::audience_of;

/// The warnings about certificates, as of the last look.
pub(crate) struct CertificateWarnings {
    catalog: Catalog,
    schema: Schema,
    layers: BTreeMap<Layer, KnownLayer>,
    present: Vec<Warning>,
    told: BTreeSet<(Layer, Key, String)>,
}

/// The certificates of one layer. A layer that is the same as before is not looked at again, and of another
/// one the resources that changed: most have no certificates, and an edit costs what it changes.
#[derive(Default)]
struct KnownLayer {
    content: Arc<LayerContent>,
    /// The resources of which it has patches with certificates.
    patched: BTreeSet<Key>,
    /// The resources with certificates.
    resources: BTreeMap<Key, (Version, Vec<State>)>,
}

impl CertificateWarnings {
    /// No warnings yet.
    pub(crate) fn new(catalog: Catalog, schema: Schema) -> Self {
        let (layers, present, told) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { catalog, schema, layers, present, told }
    }

    /// Looks at the catalog and the clock. Returns the warnings that are new and that somebody wants to hear.
    pub(crate) fn look(&mut self, wants: impl FnMut(&Warning) -> bool) -> Vec<Warning> {
        let (groups, nodes) = (self.catalog.groups(), self.catalog.nodes());
        let groups = groups.iter().map(|name| Layer::Group(Arc::clone(name)));
        let nodes = nodes.iter().map(|name| Layer::Node(Arc::clone(name)));
        let mut before = std::mem::take(&mut self.layers);
        for layer in std::iter::once(Layer::Base).chain(groups).chain(nodes) {
            let Some(content) = self.catalog.content(&layer) else { continue };
            let mut known = before.remove(&layer).unwrap_or_default();
            if !Arc::ptr_eq(&known.content, &content) {
                known.update(&self.schema, content);
            }
            known.look_at_patched(&self.schema, &self.catalog, &layer);
            self.layers.insert(layer, known);
        }
        self.tell(SystemTime::now(), wants)
    }

    /// Makes the warnings of this time, and returns those that are new.
    fn tell(&mut self, now: SystemTime, mut wants: impl FnMut(&Warning) -> bool) -> Vec<Warning> {
        let (mut told, mut new) = (BTreeSet::new(), Vec::new());
        self.present.clear();
        for (layer, known) in &self.layers {
            for (key, (_, states)) in &known.resources {
                for fault in states.iter().filter_map(|state| state.fault(now)) {
                    let identity = (layer.clone(), key.clone(), fault.to_string());
                    let origin = known.content.get(key).map(|entry| entry.origin.clone());
                    let message = format!("{} `{}`: {fault}", key.type_url.short(), key.name);
                    let resource = (key.type_url.clone(), key.name.clone());
                    let warning = warning(fault.code, resource, origin, message);
                    if !wants(&warning) {
                        continue;
                    }
                    if !self.told.contains(&identity) {
                        new.push(warning.clone());
                    }
                    told.insert(identity);
                    self.present.push(warning);
                }
            }
        }
        self.told = told;
        new
    }

    /// The present warnings.
    pub(crate) fn present(&self) -> &[Warning] {
        &self.present
    }
}

impl KnownLayer {
    fn update(&mut self, schema: &Schema, content: Arc<LayerContent>) {
        let before = std::mem::replace(&mut self.content, Arc::clone(&content));
        for key in before.differing(&content).filter(|key| may_have_certificates(key)) {
            let entry = content.get(key);
            match entry.is_some_and(has_patched_certificates) {
                true => _ = self.patched.insert(key.clone()),
                false => {
                    self.patched.remove(key);
                    self.take(schema, key, entry.and_then(own_resource));
                }
            }
        }
    }

    /// Looks at what comes of patches. Of one without certificates that is what the layers below have, and is told
    /// of there.
    fn look_at_patched(&mut self, schema: &Schema, catalog: &Catalog, layer: &Layer) {
        if self.patched.is_empty() {
            return;
        }
        let seen = catalog.seen_by(&audience_of(layer));
        let patched = std::mem::take(&mut self.patched);
        for key in &patched {
            let set = seen.as_ref().map(|seen| seen.snapshot.set(&key.type_url));
            self.take(schema, key, set.and_then(|set| set.get(key.name.as_str())));
        }
        self.patched = patched;
    }

    /// Takes the certificates of a resource, unless they are known.
    fn take(&mut self, schema: &Schema, key: &Key, resource: Option<&Arc<Resource>>) {
        let Some(resource) = resource else {
            self.resources.remove(key);
            return;
        };
        let version = resource.version();
        if self.resources.get(key).is_some_and(|(known, _)| known == version) {
            return;
        }
        let states = certificates::states(schema, &key.type_url, resource);
        if states.is_empty() {
            self.resources.remove(key);
        } else {
            self.resources.insert(key.clone(), (version.clone(), states));
        }
    }
}

/// The resource of an entry that a file has, and not one that was made of it for clients of another version.
fn own_resource(entry: &Entry) -> Option<&Arc<Resource>> {
    entry.resource().filter(|_| entry.form == Form::Written)
}

fn may_have_certificates(key: &Key) -> bool {
    matches!(key.type_url.api(), Api::Sds | Api::Lds | Api::Cds)
}

fn has_patched_certificates(entry: &Entry) -> bool {
    match &entry.content {
        EntryContent::Patch(patch) => certificates::are_in(&patch.to_bytes()),
        EntryContent::Whole(_) | EntryContent::Removal(_) => false,
    }
}
