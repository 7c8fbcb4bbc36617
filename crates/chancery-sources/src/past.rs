//! The content of the catalog before the first load, as after a restart of the program.
//!
//! It is put into the catalog when the files are read and nothing is made of them yet: so whatever puts it
//! there can take the resources of the files that are the same, and the load goes on as if it were not the
//! first one. Not here: where the past is kept.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use chancery_catalog::{Entry, Key, Layer};

use crate::read::Reading;
use crate::read::document::LoadedResource;

/// The entries of the files as they were read, for whoever looks for one that is the same.
pub struct ReadEntries<'a>(HashMap<(&'a Layer, Key), (&'a Arc<Path>, &'a LoadedResource)>);

/// Puts the past into the catalog. Returns the layers that it has.
pub(crate) type Past = Box<dyn FnOnce(&ReadEntries<'_>) -> BTreeSet<Layer> + Send>;

impl<'a> ReadEntries<'a> {
    pub(crate) fn of(reading: &'a Reading) -> Self {
        let mut all = HashMap::new();
        for (found, document) in reading.listing.files.iter().zip(&reading.documents) {
            for loaded in &document.resources {
                for key in loaded.keys() {
                    all.insert((&found.layer, key), (&found.path, loaded));
                }
            }
        }
        Self(all)
    }

    /// The entry of a layer under a key. Of a name that is defined twice it is one of the two.
    pub fn get(&self, layer: &Layer, key: &Key) -> Option<Entry> {
        let (file, loaded) = self.0.get(&(layer, key.clone()))?;
        loaded.entries(file).find(|(of, _)| of == key).map(|(_, entry)| entry)
    }
}

impl std::fmt::Debug for ReadEntries<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadEntries").field("entries", &self.0.len()).finish()
    }
}
