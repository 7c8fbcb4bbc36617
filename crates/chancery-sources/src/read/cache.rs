//! The parsed files of the directory. A file that did not change is not read again.
//!
//! A file is read again when its stamp changed, or when the stamp could not have shown a change,
//! and parsed again only when its content changed. The cache is kept by path, so it holds no more
//! files than the directory does.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use chancery_proto::schema::Schema;
use xxhash_rust::xxh3::xxh3_128;

use crate::fault::{Scope, Wrong};
use crate::options::Options;
use crate::read::document::{Document, Parsing};
use crate::read::workers;
use crate::scan::listing::{FileStamp, FoundFile};

/// The content of the files when they were last read.
#[derive(Default)]
pub(crate) struct Cache {
    files: HashMap<Arc<Path>, CachedFile>,
    /// The files that may have changed without a new stamp.
    unsure: BTreeSet<Arc<Path>>,
}

#[derive(Clone)]
struct CachedFile {
    stamp: FileStamp,
    read_at: SystemTime,
    hash: u128,
    document: Arc<Document>,
}

impl Cache {
    /// Reads the listed files, and forgets all others. The documents come in the same order.
    pub(crate) fn read(
        &mut self,
        files: &[FoundFile],
        options: &Options,
        schema: &Schema,
    ) -> Vec<Arc<Document>> {
        let before = std::mem::take(self);
        let fresh = workers::map(files, |found| {
            fresh(found, before.files.get(&found.path), options, schema)
        });
        files.iter().zip(fresh).map(|(found, fresh)| self.keep(found, fresh)).collect()
    }

    /// Reads one file.
    pub(crate) fn read_one(
        &mut self,
        found: &FoundFile,
        options: &Options,
        schema: &Schema,
    ) -> Arc<Document> {
        let fresh = fresh(found, self.files.get(&found.path), options, schema);
        self.keep(found, fresh)
    }

    /// Forgets a file that does not exist any more.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.files.remove(path);
        self.unsure.remove(path);
    }

    /// The files that were read so soon after they were written that their stamp may hide a
    /// change, and those that could not be read.
    pub(crate) fn unsure(&self) -> &BTreeSet<Arc<Path>> {
        &self.unsure
    }

    fn keep(&mut self, found: &FoundFile, fresh: Result<CachedFile, Wrong>) -> Arc<Document> {
        self.forget(&found.path);
        match fresh {
            Ok(cached) => {
                if !cached.stamp.is_telling(cached.read_at) {
                    self.unsure.insert(Arc::clone(&found.path));
                }
                let document = Arc::clone(&cached.document);
                self.files.insert(Arc::clone(&found.path), cached);
                document
            }
            Err(wrong) => {
                self.unsure.insert(Arc::clone(&found.path));
                let scope = Scope::Layer(found.layer.clone());
                Arc::new(Document::wrong(wrong.at(scope, &found.path, None)))
            }
        }
    }
}

/// Reads and parses the file, unless it is known not to have changed.
fn fresh(
    found: &FoundFile,
    before: Option<&CachedFile>,
    options: &Options,
    schema: &Schema,
) -> Result<CachedFile, Wrong> {
    let FoundFile { stamp, .. } = *found;
    if let Some(known) = before
        && known.stamp == stamp
        && stamp.is_telling(known.read_at)
    {
        return Ok(known.clone());
    }
    let read_at = SystemTime::now();
    let bytes = read(&found.path, stamp, options.max_file_bytes)?;
    let hash = xxh3_128(&bytes);
    let document = match before {
        Some(known) if known.hash == hash => Arc::clone(&known.document),
        _ => {
            let before = before.map(|known| &*known.document);
            Arc::new(Parsing { found, v2: options.v2, schema }.document(&bytes, before)?)
        }
    };
    Ok(CachedFile { stamp, read_at, hash, document })
}

/// Reads the whole file, if it is not larger than `limit`. Its size may have changed since it was
/// listed.
fn read(path: &Path, stamp: FileStamp, limit: u64) -> Result<Vec<u8>, Wrong> {
    if stamp.bytes > limit {
        return Err(Wrong::TooLarge { limit });
    }
    // There is room for one byte more than expected, so that the end is found without growing.
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.bytes).unwrap_or_default() + 1);
    let whole = |bytes: &mut Vec<u8>| -> io::Result<usize> {
        File::open(path)?.take(limit.saturating_add(1)).read_to_end(bytes)
    };
    let read = whole(&mut bytes).map_err(Wrong::Unreadable)?;
    if read as u64 > limit { Err(Wrong::TooLarge { limit }) } else { Ok(bytes) }
}
