//! The outcome of what a layer says of one resource, over what the layers below have under its name.
//!
//! Not here: the order of the layers (`view`), and how a patch is applied (`chancery_proto::patch`).

use std::sync::Arc;

use chancery_core::Resource;
use chancery_proto::patch::{FieldPlace, NotPatched};
use chancery_proto::values::{Stated, Unfit};

use crate::entry::{Entry, EntryContent, Key, Origin};
use crate::flaws::{Unapplied, WhyUnapplied};

/// The reason for which an entry makes no resource.
pub(crate) enum NotResolved {
    /// The entry is an edit that is not applied. What is below stays.
    Unapplied(WhyUnapplied),
    /// The resource cannot be filled with the values of a node.
    Unfit(Unfit),
}

/// The resource that an entry makes of the one below, for nodes that state no values; `None` if there is none
/// then.
///
/// # Errors
/// If the entry is an edit that is not applied. What is below stays.
pub(crate) fn resolve(
    entry: &Entry,
    below: Option<&Arc<Resource>>,
) -> Result<Option<Arc<Resource>>, WhyUnapplied> {
    let made = content(entry, below)?;
    // The fields that a file fills in a resource of its own were looked for when it was read.
    if let (EntryContent::Patch(_), Some(values), Some(made)) =
        (&entry.content, &entry.values, &made)
    {
        values.check(made).map_err(WhyUnapplied::NotFilled)?;
    }
    Ok(match &entry.values {
        Some(values) => made.map(|made| values.unfilled(made)),
        None => made,
    })
}

/// The resource that an entry makes of the one below, for nodes that state these values.
///
/// # Errors
/// If the entry is not applied, or the values do not fit.
pub(crate) fn resolve_for(
    entry: &Entry,
    below: Option<&Arc<Resource>>,
    stated: &Stated,
) -> Result<Option<Arc<Resource>>, NotResolved> {
    let made = resolve(entry, below).map_err(NotResolved::Unapplied)?;
    match (&entry.values, made) {
        (Some(values), Some(made)) => {
            values.fill(&made, stated).map(Some).map_err(NotResolved::Unfit)
        }
        (_, made) => Ok(made),
    }
}

fn content(
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

/// The place that somebody has to look at: that of the field at fault, if the edit has it.
fn place_of(origin: &Origin, why: &WhyUnapplied) -> Origin {
    let place = match why {
        WhyUnapplied::NotPatched(NotPatched::Breaks { place, .. })
        | WhyUnapplied::NotFilled(NotPatched::Breaks { place, .. }) => *place,
        _ => None,
    };
    place_at(origin, place)
}

/// A place as seen from another one.
pub(crate) fn place_at(origin: &Origin, place: Option<FieldPlace>) -> Origin {
    let mut origin = origin.clone();
    if let (Origin::File { position, .. }, Some(place)) = (&mut origin, place) {
        position.line = position.line.saturating_add_signed(place.lines_below);
        position.column = place.column;
    }
    origin
}
