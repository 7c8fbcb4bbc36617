//! The layers that keep their last good state because of faults: since when, and in which files.
//!
//! Not here: the faults themselves, and the holding back (`chancery_catalog`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use chancery_catalog::{Catalog, Layer};
use chancery_core::printable::Printable;
use chancery_sources::{LoadReport, Scope};
use tracing::warn;

use crate::admin::document;
use crate::counts_by_file::MOST_TOLD;
use crate::gate::audience_of;
use crate::state::{KeptLayer, seconds, utc};

/// The layers with faults.
#[derive(Default)]
pub(super) struct FaultyLayers(BTreeMap<Layer, FaultyLayer>);

struct FaultyLayer {
    since: SystemTime,
    files: BTreeSet<String>,
    is_served: bool,
    /// True if these files alone stay as they were, because somebody let the others pass.
    is_partial: bool,
}

document! {
    /// A layer with faults.
    struct FaultyRow {
        /// The layer, in words.
        layer: String,
        /// The seconds since 1970 from which on its last good state is kept.
        since: u64,
        /// True if there is such a state. Otherwise its nodes are refused.
        served: bool,
        /// True if only its files with faults stay as they were.
        partial: bool = default,
        /// The first of its files that have faults.
        files: Vec<String>,
    }
}

impl FaultyLayers {
    /// Those that were known before a start, for their times.
    pub(super) fn before(known: &[KeptLayer]) -> Self {
        let layers = known.iter().map(|known| {
            let since = known.since();
            let (files, is_served, is_partial) = (BTreeSet::new(), false, false);
            (known.layer(), FaultyLayer { since, files, is_served, is_partial })
        });
        Self(layers.collect())
    }

    /// Takes the faults of a load. Those that are new are so since the given time.
    pub(super) fn update(&mut self, report: &LoadReport, catalog: &Catalog, since: SystemTime) {
        let mut files: BTreeMap<Option<&Layer>, BTreeSet<String>> = BTreeMap::new();
        for fault in &report.faults {
            let layer = match &fault.scope {
                Scope::Layer(layer) => Some(layer),
                _ => None,
            };
            let of_layer = files.entry(layer).or_default();
            if of_layer.len() < MOST_FILES {
                of_layer.insert(shown(&fault.file));
            }
        }
        let whole = report.faults.iter().any(|fault| fault.scope == Scope::Directory);
        let held = if whole { catalog.layers() } else { catalog.held_back() };
        let mut before = std::mem::take(&mut self.0);
        for layer in held {
            let since = before.remove(&layer).map_or(since, |known| known.since);
            let of_layer = files.get(&Some(&layer)).or_else(|| files.get(&None));
            let is_served = catalog.is_served(&audience_of(&layer));
            let files = of_layer.cloned().unwrap_or_default();
            let is_partial = false;
            self.0.insert(layer, FaultyLayer { since, files, is_served, is_partial });
        }
        for passed in report.behind_faults.iter().filter(|it| it.is_passed) {
            let since = before.remove(&passed.layer).map_or(since, |known| known.since);
            let files = passed.files.iter().map(|file| shown(file)).collect();
            let (is_served, is_partial) = (true, true);
            let layer = FaultyLayer { since, files, is_served, is_partial };
            self.0.entry(passed.layer.clone()).or_insert(layer);
        }
    }

    /// Logs, at a start, what the nodes of these layers get.
    pub(super) fn say(&self) {
        for (layer, FaultyLayer { since, files, is_served, .. }) in self.0.iter().take(MOST_TOLD) {
            let (layer, files) = (layer.to_string(), in_one_line(files.iter()));
            let layer = Printable(&layer);
            match is_served {
                true => {
                    let since = utc(seconds(*since));
                    warn!("{layer} has faults in {files}, and is served as it was at {since}");
                }
                false => warn!(
                    "{layer} has faults in {files}, and no state to fall back on: its nodes are refused \
                     until it is repaired"
                ),
            }
        }
        if let Some(more) = self.0.len().checked_sub(MOST_TOLD).filter(|more| *more > 0) {
            warn!("and {more} more layers have faults; `/api/v1/config` lists them");
        }
    }

    /// The first of them, for people and programs.
    pub(super) fn rows(&self) -> Vec<FaultyRow> {
        let rows = self.0.iter().take(MOST_ROWS).map(|(layer, faulty)| FaultyRow {
            layer: layer.to_string(),
            since: seconds(faulty.since),
            served: faulty.is_served,
            partial: faulty.is_partial,
            files: faulty.files.iter().cloned().collect(),
        });
        rows.collect()
    }

    /// All of them, to be kept.
    pub(super) fn kept(&self) -> Vec<KeptLayer> {
        self.0.iter().map(|(layer, faulty)| KeptLayer::new(layer, faulty.since)).collect()
    }
}

impl FaultyRow {
    /// The layer in words, if files of it are not served that nobody has let be so.
    pub(crate) fn unserved(&self) -> Option<&str> {
        (!self.partial).then_some(&*self.layer)
    }

    /// The line of `/ready`.
    pub(crate) fn line(&self) -> String {
        let (layer, files) = (Printable(&self.layer), in_one_line(self.files.iter()));
        match self.served {
            true if self.partial => {
                let since = utc(self.since);
                format!("{layer} is served, but for {files}: with faults, and as it was at {since}")
            }
            true => {
                format!("{layer} is served as it was at {}: faults in {files}", utc(self.since))
            }
            false => {
                format!("nodes of {layer} are refused: faults in {files}, and no earlier state")
            }
        }
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

fn in_one_line<'a>(files: impl Iterator<Item = &'a String>) -> String {
    let named = files.take(MOST_IN_A_LINE).map(|file| format!("`{}`", Printable(file)));
    let named = named.collect::<Vec<_>>().join(", ");
    if named.is_empty() { "the directory".to_owned() } else { named }
}

/// The number of layers that are listed.
const MOST_ROWS: usize = 1000;
/// The number of files that are kept of a layer.
const MOST_FILES: usize = 10;
/// The number of files in a line.
const MOST_IN_A_LINE: usize = 3;
