//! `/api/v1/nodes`: the nodes that are connected.
//!
//! Not here: who may ask (`api`), the streams (`chancery_server::Audiences`), and what a command makes of
//! the answer.

mod document;
mod listing;
mod shown;

use std::hash::RandomState;
use std::sync::OnceLock;

use chancery_server::Audiences;

pub(crate) use self::document::{LocalityRow, NodeRow, NodesDocument};
use self::listing::{Place, Wanted};
pub(super) use self::shown::MAX_TEXT_BYTES;
use super::api::{self, ApiError, Asked};
use super::status::NodeState;
use crate::serve::Grouping;

/// The nodes that are connected to a server.
#[derive(Default)]
pub(crate) struct NodesPage {
    audiences: OnceLock<Audiences<Grouping>>,
    keys: RandomState,
}

impl NodesPage {
    /// Tells of the clients of these audiences from now on.
    pub(crate) fn tell_of(&self, audiences: Audiences<Grouping>) {
        self.audiences.set(audiences).ok();
    }

    /// The work that makes the page that is asked for.
    pub(super) fn page(
        &self,
        asked: &Asked,
    ) -> Result<impl FnOnce() -> Result<NodesDocument, ApiError> + Send + use<>, ApiError> {
        let audiences = self.audiences.get().ok_or_else(ApiError::too_early)?.clone();
        let (keys, wanted) = (self.keys.clone(), Wanted::of(asked));
        Ok(move || Ok(listing::page(&audiences, &keys, &wanted)))
    }
}

impl Wanted {
    fn of(asked: &Asked) -> Self {
        Self {
            id: asked.text("id").map(str::to_owned),
            group: asked.text("group").map(str::to_owned),
            state: asked.text("state").and_then(NodeState::read),
            after: asked.text("after").map(Place::read),
            limit: api::limit(asked),
        }
    }
}
