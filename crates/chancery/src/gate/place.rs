//! The places of resources and fields in the files, for those who read why a change is held back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use chancery_catalog::{Origin, Seen};
use chancery_core::printable::{Printable, cut};
use chancery_core::{ResourceName, TypeUrl};
use chancery_proto::document::Position;

use crate::field_places::{Field, find};

/// The states before and after a change, of which both may have a resource, or one.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    /// The state before; `None` where nobody knows places.
    states: Option<[&'a Seen; 2]>,
}

impl<'a> Places<'a> {
    pub(super) fn new(before: &'a Seen, after: &'a Seen) -> Self {
        Self { states: Some([before, after]) }
    }

    /// No places are known.
    pub(super) fn unknown() -> Self {
        Self { states: None }
    }

    /// A resource by name, and its place, or the one at which it was.
    pub(super) fn named(self, type_url: &TypeUrl, name: &ResourceName) -> String {
        format!("`{name}`{}", self.in_brackets(type_url, name))
    }

    /// The place of a resource in brackets, or the one at which it was.
    pub(super) fn in_brackets(self, type_url: &TypeUrl, name: &ResourceName) -> String {
        let Some([before, after]) = self.states else { return String::new() };
        match (after.origin(type_url, name), before.origin(type_url, name)) {
            (Some(now), _) => format!(" ({})", text(now)),
            (None, Some(before)) => format!(" (it was at {})", text(before)),
            (None, None) => String::new(),
        }
    }

    /// The place of a resource, for the beginning of a sentence.
    pub(super) fn leading(self, type_url: &TypeUrl, name: &ResourceName) -> String {
        let after = self.states.map(|[_, after]| after);
        let origin = after.and_then(|after| after.origin(type_url, name));
        origin.map(|origin| format!("{}: ", text(origin))).unwrap_or_default()
    }

    /// The files in which these resources were before, the first few: `a.yaml, b.yaml and others`.
    pub(super) fn files<'n>(
        self,
        resources: impl Iterator<Item = (&'n TypeUrl, &'n ResourceName)>,
    ) -> String {
        let Some([before, _]) = self.states else { return String::new() };
        let mut files = BTreeSet::new();
        for (type_url, name) in resources {
            match before.origin(type_url, name) {
                Some(Origin::File { path, .. }) => _ = files.insert(path.display().to_string()),
                Some(other) => _ = files.insert(other.to_string()),
                None => {}
            }
            if files.len() > MOST_FILES {
                break;
            }
        }
        let first = files.iter().take(MOST_FILES).map(|file| printable(file));
        let first = first.collect::<Vec<_>>().join(", ");
        let others = if files.len() > MOST_FILES { " and others" } else { "" };
        format!("{first}{others}")
    }
}

/// The place of a field in a file, where only the beginning of its resource is known: its line if that is found.
pub(super) fn of_field(known: &FieldSteps, origin: &Origin, field: &str) -> Origin {
    let Origin::File { path, position } = origin else { return origin.clone() };
    let wanted = || (path.to_path_buf(), *position, field.to_owned());
    let place = known.find(wanted());
    Origin::File { path: Arc::clone(path), position: place.unwrap_or(*position) }
}

/// The places of fields that were looked up while one commit is judged: many audiences have the same finding.
#[derive(Default)]
pub(super) struct FieldSteps(Mutex<BTreeMap<Field, Option<Position>>>);

impl FieldSteps {
    fn find(&self, field: Field) -> Option<Position> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known().get(&field) {
            return *place;
        }
        if known().len() >= MOST_LOOKED_UP {
            return None;
        }
        let place = find(std::slice::from_ref(&field)).pop().flatten();
        known().insert(field, place);
        place
    }

    /// Forgets all, when a commit was judged.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A place as text, with a bound.
pub(super) fn text(origin: &Origin) -> String {
    printable(&origin.to_string())
}

fn printable(text: &str) -> String {
    Printable(cut(text, LONGEST)).to_string()
}

/// The files that are named.
const MOST_FILES: usize = 3;
/// The bytes of a place that are shown.
const LONGEST: usize = 512;
/// The fields whose places are looked up for one commit: their files are read again.
const MOST_LOOKED_UP: usize = 30;
