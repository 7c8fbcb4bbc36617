//! REST polling: each request stands alone (S-022), so this is a function and no machine.

use std::sync::Arc;

use crate::{Resource, Settings, Snapshot, SotwRequest, TypeUrl};

/// What to answer to one poll.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The client is current: hold the request or answer 304 (S-020).
    Unchanged,
    /// The client is not current.
    Data {
        /// The `version_info` of the answer.
        version: Arc<str>,
        /// What it asked for, as far as it exists, under the names it asked for.
        resources: Vec<Arc<Resource>>,
    },
}

/// Answers one poll for one type.
pub fn answer(
    _snapshot: &Snapshot,
    _type_url: &TypeUrl,
    _request: &SotwRequest,
    _settings: &Settings,
) -> Answer {
    Answer::Unchanged
}
