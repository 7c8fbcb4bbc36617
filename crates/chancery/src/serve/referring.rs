//! The fields with references that lead nowhere, and the lines on which they stand.
//!
//! Not here: which references these are (`reference_warnings`).

use std::path::Path;
use std::sync::Arc;

use chancery_catalog::{Entry, EntryContent, Origin};
use chancery_proto::Schema;
use chancery_proto::complete::Dangling;
use chancery_proto::document::Position;
use chancery_proto::resource::places_of_link;

use crate::field_places::{Stamp, find};

/// A reference that leads nowhere, and what a layer says of the resource with it.
pub(crate) struct Referring {
    pub(super) entry: Entry,
    pub(super) reference: Dangling,
}

impl Referring {
    /// The file with the reference, the place at which its resource or the patch begins there, and the path of the
    /// field.
    pub(crate) fn field(&self, schema: &Schema) -> Option<(&Path, Position, String)> {
        let Origin::File { path, position } = &self.entry.origin else { return None };
        let Dangling { type_url, target, .. } = &self.reference;
        let fields = match &self.entry.content {
            EntryContent::Whole(resource) => {
                places_of_link(schema, type_url, resource.body(), target, 1)
            }
            EntryContent::Patch(patch) => patch.places_of_link(target, 1),
            EntryContent::Removal(_) => Vec::new(),
        };
        Some((path, *position, fields.into_iter().next()?))
    }
}

/// The lines of fields, remembered while neither what a layer says nor its file changes.
pub(super) struct FieldLines {
    schema: Schema,
    known: Vec<Known>,
}

struct Known {
    content: EntryContent,
    origin: Origin,
    reference: Dangling,
    stamp: Option<Stamp>,
    place: Option<Position>,
}

impl FieldLines {
    pub(super) fn new(schema: &Schema) -> Self {
        Self { schema: schema.clone(), known: Vec::new() }
    }

    /// The places of the fields of the first of these references, in the order of all. Only what was not looked up
    /// before is read.
    pub(super) fn look<'a>(
        &mut self,
        all: impl Iterator<Item = Option<&'a Referring>>,
    ) -> Vec<Option<Position>> {
        let mut known = std::mem::take(&mut self.known);
        let (mut places, mut unknown) = (Vec::new(), Vec::new());
        for referring in all {
            places.push(None);
            let Some(Referring { entry, reference }) = referring else { continue };
            let Origin::File { path, .. } = &entry.origin else { continue };
            if self.known.len() >= MOST_LOOKED_UP {
                continue;
            }
            let stamp = Stamp::of(path);
            let is_same = |it: &Known| {
                it.stamp == stamp
                    && it.reference == *reference
                    && it.origin == entry.origin
                    && is_same(&it.content, &entry.content)
            };
            let (content, origin) = (entry.content.clone(), entry.origin.clone());
            let place = known.iter().position(is_same).map(|at| known.swap_remove(at).place);
            if place.is_none() {
                unknown.push((places.len() - 1, self.known.len(), referring));
            }
            let (reference, place) = (reference.clone(), place.flatten());
            self.known.push(Known { content, origin, reference, stamp, place });
            if let Some(last) = places.last_mut() {
                *last = place;
            }
        }
        let fields = unknown.iter().filter_map(|(of_all, of_known, referring)| {
            let (path, start, field) = referring.as_ref()?.field(&self.schema)?;
            Some((*of_all, *of_known, (path.to_path_buf(), start, field)))
        });
        let fields: Vec<_> = fields.collect();
        let wanted: Vec<_> = fields.iter().map(|(_, _, field)| field.clone()).collect();
        for ((of_all, of_known, _), place) in fields.into_iter().zip(find(&wanted)) {
            places[of_all] = place;
            self.known[of_known].place = place;
        }
        places
    }
}

/// Returns true if nothing was read anew.
fn is_same(one: &EntryContent, other: &EntryContent) -> bool {
    match (one, other) {
        (EntryContent::Whole(one), EntryContent::Whole(other)) => Arc::ptr_eq(one, other),
        (EntryContent::Patch(one), EntryContent::Patch(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// The references whose lines are looked up; the others are told at their resources.
const MOST_LOOKED_UP: usize = 100;
