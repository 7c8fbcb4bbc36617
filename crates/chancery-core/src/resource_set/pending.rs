//! The names of a type of which the source does not know yet whether there are resources.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ResourceName;

/// The names of a type that are pending: the source does not know yet whether there are resources
/// of these names.
///
/// A resource is present, absent, or pending. A name that is absent is answered at once. A name
/// that is pending is waited for, with a bound
/// ([`server::Settings::source_wait`](crate::server::Settings)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pending {
    /// No name is pending: every name without a resource is absent.
    #[default]
    Nothing,
    /// These names are pending, as far as they have no resource.
    Names(Arc<BTreeSet<ResourceName>>),
    /// Every name without a resource is pending.
    Everything,
}
