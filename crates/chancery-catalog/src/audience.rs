//! Audiences: the nodes that see the same snapshot.

use std::fmt;
use std::sync::Arc;

use crate::layer::Layer;
use crate::stated::StatedValues;

/// The nodes that see the same: base, the overlays of a group and of those that it extends
/// ([`Lineage`](crate::Lineage)), a node's overlay, merged, and filled with the values that they state.
///
/// Groups and nodes without an overlay are left out, so a fleet without overlays is one audience.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Audience {
    /// The group, if it has an overlay.
    pub group: Option<Arc<str>>,
    /// The id of the node, if it has an overlay.
    pub node: Option<Arc<str>>,
    /// The values that the nodes state, if their layers need some.
    pub values: Option<Arc<StatedValues>>,
}

impl Audience {
    /// The audience of base, or of a group, a node, or a node in a group, whose layers need no values.
    pub fn of(group: Option<Arc<str>>, node: Option<Arc<str>>) -> Self {
        Self { group, node, values: None }
    }

    /// The same audience as far as its layers are concerned.
    #[must_use]
    pub fn without_values(&self) -> Self {
        Self::of(self.group.clone(), self.node.clone())
    }

    /// Returns true for base and groups.
    pub(crate) fn is_of_group(&self) -> bool {
        self.node.is_none() && self.values.is_none()
    }

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
        }?;
        match &self.values {
            Some(_) => f.write_str(", with values of nodes"),
            None => Ok(()),
        }
    }
}
