//! The places of resources in the files, for those who read why a change is held back.

use std::collections::BTreeSet;

use chancery_catalog::{Origin, Seen};
use chancery_core::printable::{Printable, cut};
use chancery_core::{ResourceName, TypeUrl};

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
