//! The document of `/api/v1/load`, as the server writes it and `chancery load` reads it. Keys may be added.

use std::collections::BTreeMap;

use crate::admin::api::document;
use crate::admin::nodes::LocalityRow;

document! {
    /// A page of what clients report about their calls.
    struct LoadDocument {
        /// The number of all rows that were asked for.
        count: usize,
        /// The number of clients that report.
        reporters: usize,
        /// The rows on this page.
        rows: Vec<LoadRow>,
        /// The text to give as `after` for the next page, if there is one.
        next: Option<String>,
    }
}

document! {
    /// The calls of one cluster, locality, endpoint or node.
    struct LoadRow {
        /// The cluster.
        cluster: Option<String> = default,
        /// The name that the endpoints of the cluster are found under, if that is another.
        service: Option<String> = default,
        /// The locality; none for calls that were dropped, which go to none.
        locality: Option<LocalityRow> = default,
        /// The address of the endpoint.
        endpoint: Option<String> = default,
        /// The id of the node; empty for clients that have none.
        node: Option<String> = default,
        /// The calls that began.
        issued: u64,
        /// The calls that ended well.
        succeeded: u64,
        /// The calls that ended otherwise.
        failed: u64,
        /// The calls that had begun and not ended when each client reported last.
        in_progress: u64,
        /// The calls that clients dropped.
        dropped: u64,
        /// The dropped calls by category.
        drops: BTreeMap<String, u64> = default,
        /// The metrics that endpoints report with calls.
        metrics: BTreeMap<String, MetricRow> = default,
        /// The calls of the last minute that all clients have reported on; none for nodes, and if they
        /// report too seldom.
        minute: Option<CountsRow> = default,
        /// The calls by time, the oldest first; none for nodes.
        history: Vec<SlotRow> = default,
    }
}

document! {
    /// A metric that endpoints report with calls.
    struct MetricRow {
        /// The number of calls that brought it.
        calls: u64,
        /// The sum of their values.
        total: f64,
    }
}

document! {
    /// Numbers of calls.
    struct CountsRow {
        /// The calls that began.
        issued: u64,
        /// The calls that ended well.
        succeeded: u64,
        /// The calls that ended otherwise.
        failed: u64,
        /// The calls that clients dropped.
        dropped: u64,
    }
}

document! {
    /// The calls of ten seconds.
    struct SlotRow {
        /// The seconds since 1970 at which they began.
        begins: u64,
        /// The calls that began.
        issued: u64,
        /// The calls that ended well.
        succeeded: u64,
        /// The calls that ended otherwise.
        failed: u64,
        /// The calls that clients dropped.
        dropped: u64,
    }
}

impl CountsRow {
    /// The counts of both.
    pub(super) fn add(&mut self, other: Self) {
        self.issued = self.issued.saturating_add(other.issued);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.failed = self.failed.saturating_add(other.failed);
        self.dropped = self.dropped.saturating_add(other.dropped);
    }
}

impl SlotRow {
    /// Adds to its counts.
    pub(super) fn add(&mut self, other: CountsRow) {
        self.issued = self.issued.saturating_add(other.issued);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.failed = self.failed.saturating_add(other.failed);
        self.dropped = self.dropped.saturating_add(other.dropped);
    }
}
