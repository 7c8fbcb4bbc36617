//! Places in a message that is walked over, as a chain on the stack.
//!
//! A path is made of the chain for a violation alone.

use prost_reflect::{DynamicMessage, FieldDescriptor, MapKey, Value};

use super::violation::Step;
use crate::sensitive::{HiddenFields, is_private_map_key};

/// A place in the message, and the place around it.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) around: Option<&'a Self>,
    pub(super) step: PlaceStep<'a>,
    /// The message and the field that the place is in, which say whether a value may be shown.
    pub(super) owner: &'a DynamicMessage,
    pub(super) field: Option<&'a FieldDescriptor>,
}

#[derive(Clone, Copy)]
pub(super) enum PlaceStep<'a> {
    Root,
    Field(&'a FieldDescriptor),
    Oneof(&'a str),
    Index(usize),
    Key(&'a MapKey),
    Content,
}

impl Place<'_> {
    /// The steps from the root to here.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut next = Some(self);
        while let Some(place) = next {
            steps.extend(place.step.owned());
            next = place.around;
        }
        steps.reverse();
        steps
    }

    /// Returns true if the last step is a field or a oneof that is not set.
    pub(super) fn is_unset(&self) -> bool {
        match self.step {
            PlaceStep::Field(field) => !self.owner.has_field(field),
            PlaceStep::Oneof(_) => true,
            _ => false,
        }
    }

    /// Returns true if the value must not be shown.
    pub(super) fn hides(&self, value: &Value) -> bool {
        self.field.is_some_and(|field| HiddenFields::of(self.owner).contain(field, value))
    }
}

impl PlaceStep<'_> {
    fn owned(self) -> Option<Step> {
        Some(match self {
            Self::Root => return None,
            Self::Field(field) => Step::Field(field.clone()),
            Self::Oneof(name) => Step::Oneof(name.to_owned()),
            Self::Index(index) => Step::Index(index),
            Self::Key(key) if is_private_map_key(key) || is_long(key) => Step::Key(None),
            Self::Key(key) => Step::Key(Some(key_text(key))),
            Self::Content => Step::Content,
        })
    }
}

/// Returns true for a key that no path has: a text may have megabytes of a key, and many violations
/// below it.
fn is_long(key: &MapKey) -> bool {
    const LONGEST: usize = 4096;
    matches!(key, MapKey::String(key) if key.len() > LONGEST)
}

/// A key of a map as JSON writes it.
pub(crate) fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}
