//! The `status` table: when a client counts as silent, and how much is remembered of those that are gone.
//!
//! Not here: the definitions (`docs/status.md`), and what is kept (`chancery_server::StatusBook`).

use chancery_server::StatusBounds;
use serde::{Deserialize, Serialize};

use super::units::{Size, Span};

/// The `status` table.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a mapping")]
pub(crate) struct StatusTable {
    /// The time for which a client may owe an answer before it counts as silent. Default: 30s.
    pub(crate) silent_after: Span,
    /// The time for which a load waits for a client that is gone. Default: 15s.
    pub(crate) grace: Span,
    /// The time for which a client that is gone is remembered. Default: 1h.
    pub(crate) gone_for: Span,
    /// The number of streams of such clients that are remembered. Default: 10000.
    pub(crate) gone: usize,
    /// The memory for such streams. Default: 8MiB.
    pub(crate) gone_memory: Size,
}

impl StatusTable {
    pub(super) fn bounds(&self) -> StatusBounds {
        StatusBounds {
            silent_after: self.silent_after.0,
            grace: self.grace.0,
            gone_for: self.gone_for.0,
            gone: self.gone,
            gone_bytes: self.gone_memory.0,
            ..StatusBounds::default()
        }
    }
}

impl Default for StatusTable {
    fn default() -> Self {
        let StatusBounds { silent_after, grace, gone_for, gone, gone_bytes, .. } =
            StatusBounds::default();
        Self {
            silent_after: Span(silent_after),
            grace: Span(grace),
            gone_for: Span(gone_for),
            gone,
            gone_memory: Size(gone_bytes),
        }
    }
}
