//! Revisions: what a commit changed.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::audience::Audience;
use crate::changes::Author;
use crate::layer::Layer;
use crate::layer_edit::LayerEdit;

/// The result of a commit: what it changed, and what it left the catalog with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The number of commits that changed something so far.
    pub number: u64,
    /// A digest of all resources.
    pub content: ContentHash,
    /// The time of the change.
    pub time: SystemTime,
    /// The one who made it.
    pub author: Author,
    /// The layers that were added, removed, changed or released.
    pub layers: Vec<Layer>,
    /// The resources that these layers gained and lost, for each layer in which any did.
    pub edits: Vec<LayerEdit>,
    /// Of the audiences that somebody asked for, those that see something else now.
    ///
    /// An audience is asked for while somebody holds its snapshot, and for as long as it was asked
    /// for since the commit before.
    pub changed: Vec<Audience>,
    /// The nodes that may belong to another audience than before.
    pub reassigned: Reassigned,
}

/// A digest of all resources: equal content has an equal hash, in every catalog and whatever the
/// order of the commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub u128);

/// The nodes that may belong to another audience than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reassigned {
    /// Those that overlays are for that came or went, sorted; none, if there are no such overlays.
    Overlays(Vec<Layer>),
    /// Any node: it is unknown, or was until now, which overlays there are.
    Everybody,
}

impl Revision {
    /// The revision as it can be kept for long. A set of values is known for as long as somebody has it, so that
    /// its audiences are named without them.
    pub(crate) fn kept(self: &Arc<Self>) -> Arc<Self> {
        if self.changed.iter().all(|audience| audience.values.is_none()) {
            return Arc::clone(self);
        }
        let changed: BTreeSet<_> = self.changed.iter().map(Audience::without_values).collect();
        Arc::new(Self { changed: changed.into_iter().collect(), ..Self::clone(self) })
    }
}

impl Reassigned {
    /// Returns true if every node belongs where it did.
    pub fn is_nobody(&self) -> bool {
        matches!(self, Self::Overlays(layers) if layers.is_empty())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
