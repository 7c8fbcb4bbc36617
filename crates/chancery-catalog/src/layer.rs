//! Layers: the parts of a configuration, each for a set of nodes.

use std::fmt;
use std::sync::Arc;

/// A part of a configuration, for all nodes, for those of a group, or for one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// For every node.
    Base,
    /// For the nodes of one group.
    Group(Arc<str>),
    /// For one node, by its id.
    Node(Arc<str>),
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.write_str("base"),
            Self::Group(name) => write!(f, "group `{name}`"),
            Self::Node(id) => write!(f, "node `{id}`"),
        }
    }
}
