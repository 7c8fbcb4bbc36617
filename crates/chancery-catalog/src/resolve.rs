//! The outcome of what a layer says of one resource, over what the layers below have under its name.
//!
//! Not here: the order of the layers (`view`), and how a patch is applied (`chancery_proto::patch`).

use std::sync::Arc;

use chancery_core::Resource;
use chancery_proto::patch::NotPatched;

use crate::entry::{Entry, EntryContent, Key, Origin};
use crate::flaws::{Unapplied, WhyUnapplied};

/// The resource that an entry makes of the one below; `None` if there is none then.
///
/// # Errors
/// If the entry is an edit that is not applied. What is below stays.
pub(crate) fn resolve(
    entry: &Entry,
    below: Option<&Arc<Resource>>,
) -> Result<Option<Arc<Resource>>, WhyUnapplied> {
    match (&entry.content, below) {
        (EntryContent::Whole(resource), _) => Ok(Some(Arc::clone(resource))),
        (EntryContent::Removal(_), Some(_)) => Ok(None),
        (EntryContent::Removal(_), None) => Err(WhyUnapplied::NothingToRemove),
        (EntryContent::Patch(_), None) => Err(WhyUnapplied::NothingToPatch),
        (EntryContent::Patch(patch), Some(below)) => {
            patch.apply(below).map(Some).map_err(WhyUnapplied::NotPatched)
        }
    }
}

/// The outcome of all that some layers say of a key, the weakest first. Edits that are not applied are added
/// to the list.
pub(crate) fn resolve_all<'a>(
    key: &Key,
    entries: impl Iterator<Item = &'a Entry>,
    unapplied: &mut Vec<Unapplied>,
) -> Option<Arc<Resource>> {
    entries.fold(None, |below, entry| match resolve(entry, below.as_ref()) {
        Ok(resource) => resource,
        Err(why) => {
            unapplied.push(Unapplied::of(key, entry, why));
            below
        }
    })
}

impl Unapplied {
    /// An entry that is not applied.
    pub(crate) fn of(key: &Key, entry: &Entry, why: WhyUnapplied) -> Self {
        Self { key: key.clone(), origin: place_of(&entry.origin, &why), why }
    }
}

/// The place that somebody has to look at: that of the field at fault, if the patch has it.
fn place_of(origin: &Origin, why: &WhyUnapplied) -> Origin {
    let mut origin = origin.clone();
    if let (
        Origin::File { position, .. },
        WhyUnapplied::NotPatched(NotPatched::Breaks { place: Some(place), .. }),
    ) = (&mut origin, why)
    {
        position.line = position.line.saturating_add_signed(place.lines_below);
        position.column = place.column;
    }
    origin
}
