//! Audiences: the nodes that see the same snapshot.

use std::fmt;
use std::sync::Arc;

use crate::layer::Layer;

/// The nodes that see the same: base, the overlays of a group and of those that it extends
/// ([`Lineage`](crate::Lineage)), a node's overlay, merged.
///
/// Groups and nodes without an overlay are left out, so a fleet without overlays is one audience.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Audience {
    /// The group, if it has an overlay.
    pub group: Option<Arc<str>>,
    /// The id of the node, if it has an overlay.
    pub node: Option<Arc<str>>,
}

impl Audience {
    /// The strongest layer this audience sees.
    pub(crate) fn strongest(&self) -> Layer {
        match (&self.group, &self.node) {
            (_, Some(id)) => Layer::Node(Arc::clone(id)),
            (Some(name), None) => Layer::Group(Arc::clone(name)),
            (None, None) => Layer::Base,
        }
    }
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.group, &self.node) {
            (None, None) => f.write_str("nodes without an overlay"),
            (Some(group), None) => write!(f, "group `{group}`"),
            (None, Some(node)) => write!(f, "node `{node}`"),
            (Some(group), Some(node)) => write!(f, "node `{node}` in group `{group}`"),
        }
    }
}
