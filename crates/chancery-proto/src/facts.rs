//! What the core must know about a body it cannot read.

use chancery_core::{Facts, TypeUrl};
use prost_reflect::DynamicMessage;

/// The facts of a resource with this body.
pub(crate) fn facts(_type_url: &TypeUrl, _message: &DynamicMessage) -> Facts {
    Facts::default()
}
