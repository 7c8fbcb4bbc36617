//! The rows of load reports, by cluster, locality, endpoint or node, page by page.
//!
//! Rows of clusters and localities are sums over the series of all clients. If a node is named, and for rows
//! of nodes, they are sums over what the clients with open streams have reported, which has no times.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use chancery_core::server::load::{LoadCounts, SeriesKey};
use chancery_core::{Locality, Time};
use chancery_server::{LoadMinute, LoadReports, ReporterView, SeriesView};
use serde::{Deserialize, Serialize};

use super::document::{CountsRow, LoadDocument, LoadRow, SlotRow};
use crate::admin::nodes::LocalityRow;
use crate::admin::written_bytes;

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
    Endpoint,
    Node,
}

/// The place of a row in the order of pages: the beginnings of the texts that tell it from others, because a
/// query has room for no more, and a digest of what was cut from them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub(super) struct RowKey(Vec<String>, u64);

/// The page of the rows that are wanted. The keys of all rows are looked at first, so that only rows of the
/// page are made.
pub(super) fn page(reports: &LoadReports, wanted: &Wanted) -> LoadDocument {
    let keys = keys(reports, wanted);
    let after = wanted.after.as_ref();
    let on_page = keys.iter().filter(|key| Some(*key) > after).take(wanted.limit);
    let mut page = Page {
        wanted,
        rows: on_page.map(|key| (key.clone(), None)).collect(),
        began: began(reports),
        minute: reports.last_minute(),
    };
    if wanted.is_by_reporter() {
        reports.reporters().for_each(|reporter| page.add_reporter(&reporter));
    } else {
        reports.series().for_each(|series| page.add_series(&series));
    }
    let mut document =
        LoadDocument { count: keys.len(), reporters: reports.size().0, ..LoadDocument::default() };
    let (mut bytes, mut last) = (0, None);
    for (key, row) in page.rows {
        if bytes > MAX_PAGE_BYTES {
            break;
        }
        last = Some(key);
        // A row may have gone since its key was looked at.
        let Some(row) = row else { continue };
        bytes += written_bytes(&row);
        document.rows.push(row);
    }
    let is_last = last.as_ref() >= keys.last();
    document.next = last.filter(|_| !is_last).and_then(|key| serde_json::to_string(&key).ok());
    document
}

/// The keys of all rows that are wanted.
fn keys(reports: &LoadReports, wanted: &Wanted) -> BTreeSet<RowKey> {
    if !wanted.is_by_reporter() {
        let series = reports.series().filter(|series| wanted.has(&series.key));
        return series.map(|series| wanted.row_key(&series.key, "")).collect();
    }
    let mut keys = BTreeSet::new();
    for reporter in reports.reporters().filter(|reporter| wanted.is_of(reporter)) {
        let parts = reporter.rows.iter().filter(|part| wanted.has(&part.key));
        keys.extend(parts.map(|part| wanted.row_key(&part.key, id(&reporter))));
    }
    keys
}

/// The seconds since 1970 at which the time of the book began.
fn began(reports: &LoadReports) -> u64 {
    let began = SystemTime::now().checked_sub(reports.age(Time::default())).unwrap_or(UNIX_EPOCH);
    began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A page that is being made.
struct Page<'a> {
    wanted: &'a Wanted,
    rows: BTreeMap<RowKey, Option<LoadRow>>,
    began: u64,
    minute: Option<LoadMinute>,
}

impl Page<'_> {
    fn add_series(&mut self, series: &SeriesView) {
        let (began, minute) = (self.began, self.minute);
        let Some(row) = self.row(&series.key, "") else { return };
        add(row, series.totals, series.in_progress);
        for (name, count) in &series.drops {
            if let Some(sum) = named(&mut row.drops, name) {
                *sum = sum.saturating_add(*count);
            }
        }
        for (name, metric) in &series.metrics {
            let sum = named(&mut row.metrics, name);
            // JSON has no number without an end.
            if let Some(sum) = sum.filter(|sum| (sum.total + metric.total).is_finite()) {
                sum.calls = sum.calls.saturating_add(metric.requests);
                sum.total += metric.total;
            }
        }
        if let Some(minute) = minute {
            row.minute.get_or_insert_default().add(minute.counts(series).into());
        }
        for slot in &series.slots {
            let begins = began + slot.begins().0.as_secs();
            let at = row.history.partition_point(|other| other.begins < begins);
            if row.history.get(at).is_none_or(|other| other.begins != begins) {
                row.history.insert(at, SlotRow { begins, ..SlotRow::default() });
            }
            row.history[at].add(slot.counts.into());
        }
    }

    fn add_reporter(&mut self, reporter: &ReporterView) {
        if !self.wanted.is_of(reporter) {
            return;
        }
        for part in &reporter.rows {
            if let Some(row) = self.row(&part.key, id(reporter)) {
                add(row, part.counts, part.in_progress);
            }
        }
    }

    /// The row that calls belong in, if it is on the page.
    fn row(&mut self, key: &SeriesKey, node: &str) -> Option<&mut LoadRow> {
        if !self.wanted.has(key) {
            return None;
        }
        let row = self.rows.get_mut(&self.wanted.row_key(key, node))?;
        Some(row.get_or_insert_with(|| self.wanted.new_row(key, node)))
    }
}

/// The sum under a name, of the first names of a row.
fn named<'a, V: Default>(map: &'a mut BTreeMap<String, V>, name: &str) -> Option<&'a mut V> {
    if map.len() >= MOST_NAMED && !map.contains_key(name) {
        return None;
    }
    Some(map.entry(name.to_owned()).or_default())
}

fn id(reporter: &ReporterView) -> &str {
    reporter.node.as_ref().map_or("", |node| &*node.id)
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

impl Wanted {
    /// Returns true if the rows are sums over what clients with open streams have reported.
    fn is_by_reporter(&self) -> bool {
        self.by == By::Node || self.node.is_some()
    }

    fn is_of(&self, reporter: &ReporterView) -> bool {
        self.node.as_ref().is_none_or(|node| node == id(reporter))
    }

    fn row_key(&self, key: &SeriesKey, node: &str) -> RowKey {
        let SeriesKey { cluster, locality, endpoint } = key;
        let by_cluster = [&*cluster.cluster, &*cluster.service];
        match (self.by, locality.as_deref()) {
            (By::Node, _) => RowKey::of(&[node]),
            (By::Cluster, _) | (By::Locality | By::Endpoint, None) => RowKey::of(&by_cluster),
            (By::Locality | By::Endpoint, Some(Locality { region, zone, sub_zone })) => {
                let [cluster, service] = by_cluster;
                let texts = [cluster, service, region, zone, sub_zone].into_iter();
                RowKey::of(&texts.chain(endpoint.as_deref()).collect::<Vec<_>>())
            }
        }
    }

    fn new_row(&self, key: &SeriesKey, node: &str) -> LoadRow {
        if self.by == By::Node {
            return LoadRow { node: Some(node.to_owned()), ..LoadRow::default() };
        }
        LoadRow {
            cluster: Some(key.cluster.cluster.to_string()),
            service: Some(key.cluster.service.to_string()).filter(|it| !it.is_empty()),
            locality: key.locality.as_ref().filter(|_| self.by != By::Cluster).map(place),
            endpoint: key.endpoint.as_ref().map(ToString::to_string),
            ..LoadRow::default()
        }
    }

    fn has(&self, key: &SeriesKey) -> bool {
        // The calls to an endpoint are among those to its locality.
        let is_of_kind = key.endpoint.is_some() == (self.by == By::Endpoint);
        is_of_kind && self.cluster.as_ref().is_none_or(|cluster| **cluster == *key.cluster.cluster)
    }
}

impl RowKey {
    fn of(texts: &[&str]) -> Self {
        let cut = |text: &&str| text[..text.floor_char_boundary(MAX_KEY_BYTES)].to_owned();
        let mut key = Self(texts.iter().map(cut).collect(), 0);
        if texts.iter().any(|text| text.len() > MAX_KEY_BYTES) {
            // A client that makes two texts with one digest has its own calls summed, and anybody may report
            // calls to any cluster.
            let mut digest = DefaultHasher::new();
            texts.hash(&mut digest);
            key.1 = digest.finish();
        }
        key
    }
}

impl From<LoadCounts> for CountsRow {
    fn from(counts: LoadCounts) -> Self {
        let LoadCounts { issued, succeeded, failed, dropped, .. } = counts;
        Self { issued, succeeded, failed, dropped }
    }
}

/// The bytes of rows after which a page ends.
const MAX_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The bytes of each text of a key: six of them are short enough for the head of a request, whatever is in them.
const MAX_KEY_BYTES: usize = 128;

/// The most metrics of a row, and the most categories of drops.
const MOST_NAMED: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_client::encoded;

    #[test]
    fn a_key_is_short_and_that_of_one_row() {
        let long = "\u{1}".repeat(4096);
        let (one, other) = (format!("{long}a"), format!("{long}b"));
        let key = RowKey::of(&[&one, &long, &long, &long, &long]);
        let text = serde_json::to_string(&key).unwrap();
        assert!(encoded(&text).len() < 8 * 1024, "{}", encoded(&text).len());
        assert_eq!(serde_json::from_str::<RowKey>(&text).unwrap(), key);
        assert_ne!(key, RowKey::of(&[&other, &long, &long, &long, &long]));
        assert!(RowKey::of(&["a", "b"]) < RowKey::of(&["a", "b", "c"]));
        assert!(RowKey::of(&["a", "b", "c"]) < RowKey::of(&["b", ""]));
    }
}
