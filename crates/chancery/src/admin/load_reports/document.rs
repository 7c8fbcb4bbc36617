//! The document of `/api/v1/load`, as the server writes it and `chancery load` reads it. Keys may be added.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::admin::nodes::LocalityRow;

/// A page of what clients report about their calls.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct LoadDocument {
    /// The number of all rows that were asked for.
    pub(crate) count: usize,
    /// The number of clients that report.
    pub(crate) reporters: usize,
    pub(crate) rows: Vec<LoadRow>,
    /// The text to give as `after` for the next page, if there is one.
    pub(crate) next: Option<String>,
}

/// The calls of one cluster, locality, endpoint or node.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct LoadRow {
    /// The cluster, and the name its endpoints are found under if that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<String>,
    /// The locality; none for calls that were dropped, which go to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) locality: Option<LocalityRow>,
    /// The address of the endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// The id of the node; empty for clients that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    pub(crate) issued: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) in_progress: u64,
    pub(crate) dropped: u64,
    /// The dropped calls by category.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) drops: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metrics: BTreeMap<String, MetricRow>,
    /// The calls of the last minute that all clients have reported on; none for nodes, and if they report too
    /// seldom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) minute: Option<CountsRow>,
    /// The calls by time, the oldest first; none for nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) history: Vec<SlotRow>,
}

/// A metric that endpoints report with calls.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct MetricRow {
    /// The number of calls that brought it.
    pub(crate) calls: u64,
    /// The sum of their values.
    pub(crate) total: f64,
}

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct CountsRow {
    pub(crate) issued: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) dropped: u64,
}

/// The calls of ten seconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct SlotRow {
    /// The seconds since 1970 at which they began.
    pub(crate) begins: u64,
    #[serde(flatten)]
    pub(crate) counts: CountsRow,
}
