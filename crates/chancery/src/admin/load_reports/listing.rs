//! The rows of load reports, by cluster, locality or node, page by page.
//!
//! Rows of clusters and localities are sums over the series of all clients. If a node is named, and for rows
//! of nodes, they are sums over what the clients with open streams have reported, which has no times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use chancery_core::Locality;
use chancery_core::server::load::{LoadCounts, SeriesKey};
use chancery_server::{LoadReports, ReporterView, SeriesView};

use super::document::{CountsRow, LoadDocument, LoadRow, SlotRow};
use crate::admin::nodes::LocalityRow;

/// The rows that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) by: By,
    /// The cluster, if only calls to it are wanted.
    pub(super) cluster: Option<String>,
    /// The id of the node, if only its calls are wanted.
    pub(super) node: Option<String>,
    /// The key after which the page begins.
    pub(super) after: Option<RowKey>,
    pub(super) limit: usize,
}

/// The rows that calls are summed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum By {
    #[default]
    Cluster,
    Locality,
    Node,
}

/// The texts that tell a row from others, in the order of pages.
pub(super) type RowKey = Vec<String>;

/// The page of the rows that are wanted.
pub(super) fn page(reports: &LoadReports, wanted: &Wanted) -> LoadDocument {
    let mut rows = BTreeMap::new();
    if wanted.by == By::Node || wanted.node.is_some() {
        reports.reporters().for_each(|reporter| add_reporter(&mut rows, wanted, &reporter));
    } else {
        reports.series().for_each(|series| add_series(&mut rows, wanted, reports, &series));
    }
    let mut document =
        LoadDocument { count: rows.len(), reporters: reports.size().0, ..LoadDocument::default() };
    let (mut bytes, mut last) = (0, None);
    let after = wanted.after.as_ref();
    for (key, row) in rows.into_iter().filter(|(key, _)| Some(key) > after) {
        if document.rows.len() == wanted.limit || bytes > MAX_PAGE_BYTES {
            document.next = last.and_then(|key: RowKey| serde_json::to_string(&key).ok());
            break;
        }
        bytes += ROW_BYTES + key.iter().map(String::len).sum::<usize>();
        bytes += row.history.len() * SLOT_BYTES;
        last = Some(key);
        document.rows.push(row);
    }
    document
}

fn add_series(
    rows: &mut BTreeMap<RowKey, LoadRow>,
    wanted: &Wanted,
    reports: &LoadReports,
    series: &SeriesView,
) {
    if !wanted.has(&series.key) {
        return;
    }
    let row = row(rows, wanted, &series.key, "");
    add(row, series.totals, series.in_progress);
    for (name, count) in &series.drops {
        let sum = row.drops.entry(name.to_string()).or_default();
        *sum = sum.saturating_add(*count);
    }
    for (name, metric) in &series.metrics {
        let sum = row.metrics.entry(name.to_string()).or_default();
        sum.calls = sum.calls.saturating_add(metric.requests);
        sum.total += metric.total;
    }
    if let Some(counts) = reports.last_minute(series) {
        row.minute.get_or_insert_default().add(counts);
    }
    for slot in &series.slots {
        let begins = seconds_at(reports, slot.begins());
        let at = row.history.partition_point(|other| other.begins < begins);
        if row.history.get(at).is_none_or(|other| other.begins != begins) {
            row.history.insert(at, SlotRow { begins, ..SlotRow::default() });
        }
        row.history[at].counts.add(slot.counts);
    }
}

fn add_reporter(rows: &mut BTreeMap<RowKey, LoadRow>, wanted: &Wanted, reporter: &ReporterView) {
    let node = reporter.node.as_ref().map_or("", |node| &*node.id);
    if wanted.node.as_ref().is_some_and(|it| it != node) {
        return;
    }
    for part in reporter.rows.iter().filter(|part| wanted.has(&part.key)) {
        add(row(rows, wanted, &part.key, node), part.counts, part.in_progress);
    }
}

/// The row that calls belong in.
fn row<'a>(
    rows: &'a mut BTreeMap<RowKey, LoadRow>,
    wanted: &Wanted,
    key: &SeriesKey,
    node: &str,
) -> &'a mut LoadRow {
    let (cluster, service) = (&key.cluster.cluster, &key.cluster.service);
    let by_cluster = || vec![cluster.to_string(), service.to_string()];
    let row_key = match wanted.by {
        By::Node => vec![node.to_owned()],
        By::Cluster => by_cluster(),
        By::Locality => match key.locality.as_deref() {
            None => by_cluster(),
            Some(Locality { region, zone, sub_zone }) => {
                [by_cluster(), vec![region.clone(), zone.clone(), sub_zone.clone()]].concat()
            }
        },
    };
    rows.entry(row_key).or_insert_with(|| match wanted.by {
        By::Node => LoadRow { node: Some(node.to_owned()), ..LoadRow::default() },
        By::Cluster | By::Locality => LoadRow {
            cluster: Some(cluster.to_string()),
            service: Some(service.to_string()).filter(|it| !it.is_empty()),
            locality: key.locality.as_ref().filter(|_| wanted.by == By::Locality).map(place),
            ..LoadRow::default()
        },
    })
}

fn place(locality: &Arc<Locality>) -> LocalityRow {
    let Locality { region, zone, sub_zone } = &**locality;
    LocalityRow { region: region.clone(), zone: zone.clone(), sub_zone: sub_zone.clone() }
}

fn add(row: &mut LoadRow, counts: LoadCounts, in_progress: u64) {
    row.issued = row.issued.saturating_add(counts.issued);
    row.succeeded = row.succeeded.saturating_add(counts.succeeded);
    row.failed = row.failed.saturating_add(counts.failed);
    row.dropped = row.dropped.saturating_add(counts.dropped);
    row.in_progress = row.in_progress.saturating_add(in_progress);
}

/// A moment of the book as seconds since 1970.
fn seconds_at(reports: &LoadReports, moment: chancery_core::Time) -> u64 {
    let at = SystemTime::now().checked_sub(reports.age(moment)).unwrap_or(UNIX_EPOCH);
    // The moments of slots are whole seconds of the book; half a second keeps them from falling apart.
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() + u64::from(since.subsec_millis() >= 500)
}

impl Wanted {
    fn has(&self, key: &SeriesKey) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| **cluster == *key.cluster.cluster)
    }
}

impl CountsRow {
    fn add(&mut self, counts: LoadCounts) {
        self.issued = self.issued.saturating_add(counts.issued);
        self.succeeded = self.succeeded.saturating_add(counts.succeeded);
        self.failed = self.failed.saturating_add(counts.failed);
        self.dropped = self.dropped.saturating_add(counts.dropped);
    }
}

/// The bytes of rows after which a page ends, and about those of a row and of a slot.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;
const ROW_BYTES: usize = 500;
const SLOT_BYTES: usize = 100;
