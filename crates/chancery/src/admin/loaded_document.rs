//! `/api/v1/config`: the loaded resources with their file and line, and the present faults and warnings.
//!
//! It has names, places and versions only. A body may hold a secret, so no body is shown (S-138),
//! and a fault is shown without the text of its line. Not here: the faults and warnings themselves, and when a
//! document is made (`load_status`).

use std::path::Path;
use std::time::UNIX_EPOCH;

use chancery_catalog::{Catalog, EntryContent, Layer, ListedEntry, Origin};
use chancery_sources::Warning;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::api::{Described, Types, document};
use super::confirm::MOST_ROWS;
use super::load_status::{LastLoad, LoadFindings};
use super::printed;
use crate::finding::Finding;
use crate::gate::{Held, HeldRow};
use crate::serve::FaultyRow;

/// The content of the catalog as a document. Of very many resources, no more is made than is written.
pub(crate) struct StatusDocument<'c> {
    /// The keys that are written; all, if there are none.
    keys: Option<&'c [String]>,
    loaded_at: Option<u64>,
    /// The number of all faults.
    fault_count: usize,
    faults: &'c [Finding],
    /// The numbers of those that are not shown.
    more_faults: Vec<MoreFaults>,
    /// The number of all warnings.
    warning_count: usize,
    warnings: Vec<WarningRow>,
    held_back: Vec<String>,
    /// The layers with faults, and since when they keep their last good state.
    last_good: &'c [FaultyRow],
    /// The reason why every layer is held back, if they all are.
    everything_held_back: Option<&'c str>,
    /// The number of audiences from which something is held back until it is confirmed.
    held_count: usize,
    held: Vec<HeldRow>,
    resources: ResourceRows<'c>,
}

/// The keys of an object that are wanted, as they are written.
struct Part<'k, M> {
    keys: Option<&'k [String]>,
    map: M,
}

/// All resources of a catalog, which are listed as they are written.
struct ResourceRows<'c>(&'c Catalog);

document! {
    /// Faults that are not shown.
    struct MoreFaults {
        /// The path of the file.
        file: String,
        /// The number of its faults.
        faults: usize,
    }
}

document! {
    /// Something that is probably not meant so.
    struct WarningRow {
        /// The path of the file, if it is about one.
        file: Option<String> = default,
        /// The number of the line.
        line: Option<u32> = default,
        /// The description.
        message: String,
    }
}

document! {
    /// A resource of one layer.
    struct ResourceRow {
        /// The layer, in words.
        layer: String,
        /// The URL of the type.
        r#type: String,
        /// The name.
        name: String,
        /// `patch` or `remove`, if the layer does not have the resource whole.
        edit: Option<String> = default,
        /// The version, if the layer has the resource whole.
        version: Option<String> = default,
        /// The file it comes from, or another origin.
        file: String,
        /// The number of the line, or 0.
        line: usize,
    }
}

impl Described for StatusDocument<'_> {
    fn schema(types: &mut Types) -> Value {
        types.object("StatusDocument", "What is loaded, and what is wrong.", |it, types| {
            let [number, text] = [usize::schema(types), String::schema(types)];
            let about =
                "The seconds since 1970 at the last load of the directory or of `chancery.yaml`.";
            it.property("loaded_at", about, false, number.clone());
            it.property("fault_count", "The number of all faults.", true, number.clone());
            let faults = <Vec<Finding>>::schema(types);
            it.property("faults", "The first of the faults.", true, faults);
            let more = <Vec<MoreFaults>>::schema(types);
            it.property("more_faults", "The numbers of faults that are not shown.", false, more);
            it.property("warning_count", "The number of all warnings.", true, number.clone());
            let warnings = <Vec<WarningRow>>::schema(types);
            it.property("warnings", "The first of the warnings.", true, warnings);
            let layers = <Vec<String>>::schema(types);
            it.property("held_back", "The layers that keep their last good state.", true, layers);
            let last_good = <Vec<FaultyRow>>::schema(types);
            it.property("last_good", "The first of the layers with faults.", false, last_good);
            let about = "The reason why every layer is held back, if they all are.";
            it.property("everything_held_back", about, false, text);
            let about = "The number of audiences from which the gate holds something back.";
            it.property("held_count", about, true, number);
            let held = <Vec<HeldRow>>::schema(types);
            it.property("held", "The first of these audiences.", true, held);
            let resources = <Vec<ResourceRow>>::schema(types);
            it.property("resources", "All resources, by layer.", true, resources);
        })
    }
}

impl Serialize for StatusDocument<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut part = Part { keys: self.keys, map: serializer.serialize_map(None)? };
        part.some("loaded_at", self.loaded_at.as_ref())?;
        part.entry("fault_count", &self.fault_count)?;
        part.entry("faults", self.faults)?;
        part.some("more_faults", Some(&self.more_faults).filter(|it| !it.is_empty()))?;
        part.entry("warning_count", &self.warning_count)?;
        part.entry("warnings", &self.warnings)?;
        part.entry("held_back", &self.held_back)?;
        part.some("last_good", Some(self.last_good).filter(|it| !it.is_empty()))?;
        part.some("everything_held_back", self.everything_held_back.as_ref())?;
        part.entry("held_count", &self.held_count)?;
        part.entry("held", &self.held)?;
        part.entry("resources", &self.resources)?;
        part.map.end()
    }
}

impl<M: SerializeMap> Part<'_, M> {
    fn entry(&mut self, key: &str, value: &(impl Serialize + ?Sized)) -> Result<(), M::Error> {
        match self.keys.is_none_or(|keys| keys.iter().any(|wanted| wanted == key)) {
            true => self.map.serialize_entry(key, value),
            false => Ok(()),
        }
    }

    /// An entry that is left out if there is no value.
    fn some(
        &mut self,
        key: &str,
        value: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.entry(key, value))
    }
}

impl Serialize for ResourceRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.entries().map(ResourceRow::of))
    }
}

impl ResourceRow {
    pub(super) fn of(listed: ListedEntry) -> Self {
        let ListedEntry { layer, key, entry } = listed;
        let (file, line) = match &entry.origin {
            Origin::File { path, position } => (path.display().to_string(), position.line as usize),
            elsewhere => (elsewhere.to_string(), 0),
        };
        Self {
            layer: layer.to_string(),
            r#type: key.type_url.to_string(),
            name: key.name.to_string(),
            edit: match &entry.content {
                EntryContent::Whole(_) => None,
                EntryContent::Patch(_) => Some("patch".to_owned()),
                EntryContent::Removal(_) => Some("remove".to_owned()),
            },
            version: entry.resource().map(|resource| resource.version().to_string()),
            file,
            line,
        }
    }
}

impl From<&Warning> for WarningRow {
    fn from(warning: &Warning) -> Self {
        let file = warning.file.as_deref().map(|file| Path::to_string_lossy(file).into_owned());
        Self { file, line: warning.line, message: warning.message.clone() }
    }
}

/// The document, with these keys or with all.
pub(super) fn text(catalog: &Catalog, last: LastLoad, keys: Option<&[String]>) -> String {
    let LastLoad { at, findings, .. } = last;
    let LoadFindings { faults, more_faults, warnings, warning_count, .. } = &*findings;
    let LoadFindings { everything_held_back, held, faulty, .. } = &*findings;
    let named = more_faults.files().take(MOST_FILES);
    let named = named.map(|(file, faults)| MoreFaults { file: file.to_owned(), faults });
    let since = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let shown = StatusDocument {
        keys,
        loaded_at: since.map(|since| since.as_secs()),
        fault_count: findings.fault_count(),
        faults,
        more_faults: named.collect(),
        warning_count: *warning_count,
        warnings: warnings.iter().map(WarningRow::from).collect(),
        held_back: held_back(catalog, everything_held_back.is_some()),
        last_good: faulty,
        everything_held_back: everything_held_back.as_deref(),
        held_count: held.len(),
        held: held.iter().take(MOST_ROWS).map(Held::row).collect(),
        resources: ResourceRows(catalog),
    };
    printed(serde_json::to_string_pretty(&shown).unwrap_or_default())
}

/// The layers that keep their last good state. A fault of the whole directory holds back all of them,
/// and the catalog does not know of it, because nothing was committed.
fn held_back(catalog: &Catalog, everything: bool) -> Vec<String> {
    if !everything {
        return catalog.held_back().iter().map(ToString::to_string).collect();
    }
    let (groups, nodes) = (catalog.groups(), catalog.nodes());
    let groups = groups.iter().cloned().map(Layer::Group);
    let nodes = nodes.iter().cloned().map(Layer::Node);
    let all = std::iter::once(Layer::Base).chain(groups).chain(nodes);
    all.map(|layer| layer.to_string()).collect()
}

/// The number of files whose faults are counted in the document.
const MOST_FILES: usize = 1000;
