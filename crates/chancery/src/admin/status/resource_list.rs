//! `/api/v1/resources`: what the layers have, a row for each resource of each layer, page by page.
//!
//! ```text
//!   layers --> rows that are wanted, by type and name --> those of one page
//! ```
//!
//! Whoever asks learns names, places and versions, and how many clients reject something now. Who should have
//! a resource and who has it, the streams have to be asked for: that is told of one resource (`one_resource`).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use chancery_catalog::{Entry, Form, Key, Layer, LayerContent, ListedEntry};
use chancery_core::TypeUrl;
use chancery_server::{Audiences, StatusBook};
use serde::{Deserialize, Serialize};

use super::document::{ListedResource, ResourcesDocument};
use super::rows;
use super::views::Groups;
use crate::admin::api::{self, ApiError, Asked};
use crate::admin::loaded_document::ResourceRow;
use crate::admin::nodes::MAX_TEXT_BYTES;
use crate::admin::written_bytes;
use crate::serve::Grouping;

/// The resources that are asked for.
pub(super) struct Wanted {
    type_url: Option<TypeUrl>,
    prefix: String,
    /// The group whose files have them; empty for what is for all nodes.
    group: Option<String>,
    after: Option<Place>,
    limit: usize,
}

/// The place of a row in the order of pages. A query has no room for more than the beginning of a name, so a
/// digest tells long ones apart.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
struct Place<S = String>(S, S, u64, S);

/// A layer, its name, and what it has.
type Named = (Layer, String, Arc<LayerContent>);

impl Wanted {
    pub(super) fn of(asked: &Asked) -> Result<Self, ApiError> {
        let after = asked.text("after").map(serde_json::from_str).transpose();
        Ok(Self {
            type_url: asked.text("type").map(super::type_of).transpose()?,
            prefix: asked.text("prefix").unwrap_or_default().to_owned(),
            group: asked.text("group").map(str::to_owned),
            after: after.map_err(|_| ApiError::parameter("`after` is no `next` of a page"))?,
            limit: api::limit(asked),
        })
    }

    fn has(&self, key: &Key, entry: &Entry) -> bool {
        entry.form == Form::Written
            && self.type_url.as_ref().is_none_or(|type_url| *type_url == key.type_url)
            && key.name.as_str().starts_with(&self.prefix)
    }

    /// Returns true for a layer that may have some of them.
    fn is_in(&self, layer: &Layer) -> bool {
        match (&self.group, layer) {
            (None, _) => true,
            (Some(group), Layer::Base) => group.is_empty(),
            (Some(group), Layer::Group(name)) => **name == **group,
            (Some(_), Layer::Node(_)) => false,
        }
    }
}

/// The page of the resources that are wanted.
pub(super) fn page(
    audiences: &Audiences<Grouping>,
    book: &StatusBook,
    wanted: &Wanted,
) -> Result<ResourcesDocument, ApiError> {
    if let Some(group) = wanted.group.as_ref().filter(|group| !group.is_empty()) {
        Groups::of(audiences).check(group)?;
    }
    let catalog = audiences.catalog();
    let named = |layer: Layer| Some((layer.clone(), layer.to_string(), catalog.content(&layer)?));
    let layers = catalog.layers().into_iter().filter(|layer| wanted.is_in(layer));
    let layers: Vec<Named> = layers.filter_map(named).collect();
    let mut found: Vec<(Place<&str>, usize, &Key, &Entry)> = Vec::new();
    for (at, (_, name, content)) in layers.iter().enumerate() {
        let its = content.iter().filter(|(key, entry)| wanted.has(key, entry));
        found.extend(its.map(|(key, entry)| (place(key, name), at, key, entry)));
    }
    // The rows of each layer are in order already.
    found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let after = wanted.after.as_ref().map(Place::borrowed);
    let first = found.partition_point(|(place, ..)| Some(place) <= after.as_ref());
    let rejected = rejected(book);
    let mut document = ResourcesDocument { count: found.len(), ..ResourcesDocument::default() };
    let (mut bytes, mut last) = (0, None);
    for (place, at, key, entry) in &found[first..] {
        if document.resources.len() == wanted.limit || bytes > MAX_PAGE_BYTES {
            document.next = last.and_then(|place: &Place<&str>| serde_json::to_string(place).ok());
            break;
        }
        let layer = layers[*at].0.clone();
        let listed = ListedEntry { layer, key: (*key).clone(), entry: (*entry).clone() };
        let row = row(listed, &rejected);
        bytes += written_bytes(&row);
        last = Some(place);
        document.resources.push(row);
    }
    Ok(document)
}

fn row(listed: ListedEntry, rejected: &HashMap<(TypeUrl, Arc<str>), usize>) -> ListedResource {
    let key = (listed.key.type_url.clone(), listed.key.name.shared());
    let ResourceRow { layer, name, edit, version, file, line, .. } = ResourceRow::of(listed);
    ListedResource {
        r#type: rows::type_name(&key.0),
        name: rows::shown(name),
        layer: rows::shown(layer),
        edit,
        version,
        file: rows::shown(file),
        line,
        rejected_by: rejected.get(&key).copied().unwrap_or_default(),
    }
}

/// The resources that clients reject now, with the numbers of their streams: those that the reasons name, or
/// else all that may be meant.
fn rejected(book: &StatusBook) -> HashMap<(TypeUrl, Arc<str>), usize> {
    let fleet = book.fleet();
    let rejecting = fleet.streams.iter().filter(|stream| stream.rejected_types > 0);
    let mut counts = HashMap::new();
    for note in rejecting.flat_map(|stream| book.rejections(stream.id)) {
        let names = if note.named.is_empty() { note.suspects } else { note.named };
        for name in names {
            *counts.entry((note.type_url.clone(), name)).or_default() += 1;
        }
    }
    counts
}

fn place<'k>(key: &'k Key, layer: &'k str) -> Place<&'k str> {
    let name = key.name.as_str();
    let begin = &name[..name.floor_char_boundary(MAX_TEXT_BYTES)];
    let digest = if begin.len() < name.len() { digest(name) } else { 0 };
    Place(key.type_url.as_str(), begin, digest, layer)
}

/// The hasher has no keys of the process, so that a page goes on after a restart.
fn digest(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl Place {
    fn borrowed(&self) -> Place<&str> {
        Place(&self.0, &self.1, self.2, &self.3)
    }
}

/// The bytes of resources after which a page ends.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;
