//! The gate: what an audience would see next is judged before anybody sees it.
//!
//! The catalog asks for base, each group, and each node of its own that somebody asked for. An
//! audience whose next state is held sees what it saw, whole, as if a layer of it were held back; it
//! is judged again with each commit, and when the gate may think otherwise
//! ([`Catalog::judge_again`](crate::Catalog::judge_again)). Not here: any judgement.

use std::sync::Arc;

use chancery_core::Snapshot;
use chancery_proto::complete::Dangling;

use crate::audience::Audience;
use crate::view::View;

/// A judge of what goes live.
pub trait Gate: Send + Sync {
    /// Returns true if the audience may see what a commit has for it.
    ///
    /// It is called while other commits wait, and once for every commit that may concern the
    /// audience. The same question must have the same answer until the caller of
    /// [`Catalog::judge_again`](crate::Catalog::judge_again) says otherwise.
    fn lets_pass(&self, audience: &Audience, before: Option<&Seen>, after: &Seen) -> bool;
}

/// What an audience sees, or would see.
#[derive(Clone)]
pub struct Seen {
    view: Arc<View>,
}

impl Seen {
    pub(crate) fn new(view: &Arc<View>) -> Self {
        Self { view: Arc::clone(view) }
    }

    /// The snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.view.snapshot
    }

    /// The references in the snapshot that lead nowhere.
    pub fn dangling(&self) -> &Arc<[Dangling]> {
        &self.view.dangling
    }
}
