//! The parsed files of the directory. A file that did not change is not read again.
//!
//! A file is read again when its stamp changed, or when the stamp could not have shown a change,
//! and parsed again only when its content changed. The cache is kept by path, so it holds no more
//! files than the directory does.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use chancery_files::OpenFile;
use chancery_proto::document::Format;
use chancery_proto::schema::Schema;
use xxhash_rust::xxh3::xxh3_128;

use crate::fault::{Scope, Wrong};
use crate::fault_list::MAX_FAULTS_OF_LOAD;
use crate::options::Options;
use crate::read::document::{Document, Parsing};
use crate::read::workers;
use crate::scan::is_below;
use crate::scan::listing::{FileStamp, FoundFile};

/// The content of the files when they were last read.
#[derive(Default)]
pub(crate) struct Cache {
    files: HashMap<Arc<Path>, CachedFile>,
    /// The files that may have changed without a new stamp.
    unsure: BTreeSet<Arc<Path>>,
    /// The number of faults that the documents keep. Files that are read later keep one once there
    /// are many, so that the memory they take is bounded.
    kept_faults: usize,
}

#[derive(Clone)]
struct CachedFile {
    stamp: FileStamp,
    read_at: SystemTime,
    hash: u128,
    document: Arc<Document>,
}

/// The time at which files are read that may have changed without a new stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnsureFiles {
    /// With all others.
    Read,
    /// Later: they stay unsure as they are.
    Keep,
}

impl Cache {
    /// Reads the listed files, which are below this directory, and forgets all others. The documents
    /// come in the same order.
    pub(crate) fn read(
        &mut self,
        files: &[FoundFile],
        unsure: UnsureFiles,
        top: Option<&Path>,
        options: &Options,
        schema: &Schema,
    ) -> Vec<Arc<Document>> {
        let before = std::mem::take(self);
        let described = AtomicUsize::new(0);
        let read = |found: &FoundFile| {
            let known = before.files.get(&found.path);
            match known.filter(|it| unsure == UnsureFiles::Keep && it.stamp == found.stamp) {
                Some(known) => Ok(known.clone()),
                None => cut_early(fresh(found, known, top, options, schema), &described),
            }
        };
        let large = largest_beside_others(options.max_file_bytes, workers::cores());
        let small = workers::map(files, |found| (found.stamp.bytes <= large).then(|| read(found)));
        // Large files are read one after the other and on one thread, which uses the same memory again.
        let fresh = files.iter().zip(small);
        fresh.map(|(found, fresh)| self.keep(found, fresh.unwrap_or_else(|| read(found)))).collect()
    }

    /// Reads one file, which is below this directory.
    pub(crate) fn read_one(
        &mut self,
        found: &FoundFile,
        top: Option<&Path>,
        options: &Options,
        schema: &Schema,
    ) -> Arc<Document> {
        let fresh = fresh(found, self.files.get(&found.path), top, options, schema);
        self.keep(found, fresh)
    }

    /// Forgets a file that does not exist any more.
    pub(crate) fn forget(&mut self, path: &Path) {
        if let Some(known) = self.files.remove(path) {
            self.kept_faults -= known.document.faults.len();
        }
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
            Ok(mut cached) => {
                let most = MAX_FAULTS_OF_LOAD.saturating_sub(self.kept_faults);
                cached.document = cached.document.with_faults(most);
                self.kept_faults += cached.document.faults.len();
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

/// Keeps one fault of a file that is read when very many faults were found before. Files are read in
/// their order, nearly, so these are far behind the faults that a load keeps.
fn cut_early(
    fresh: Result<CachedFile, Wrong>,
    described: &AtomicUsize,
) -> Result<CachedFile, Wrong> {
    let mut fresh = fresh?;
    let count = fresh.document.faults.len();
    if count > 1 && described.fetch_add(count, Ordering::Relaxed) > MANY_FAULTS {
        fresh.document = fresh.document.with_faults(1);
    }
    Ok(fresh)
}

/// The size up to which files are read at the same time. A file takes many times its size in memory
/// while it is read, so all that are read at once have a quarter of what one may have.
fn largest_beside_others(max_file_bytes: u64, cores: usize) -> u64 {
    max_file_bytes / u64::try_from(cores).unwrap_or(u64::MAX).saturating_mul(4)
}

/// The number of faults that are described while files are read, before they are counted in order.
const MANY_FAULTS: usize = 50 * MAX_FAULTS_OF_LOAD;

/// Returns true if faults may quote the open file. A symlink may have been made to lead elsewhere
/// since the scan, also one in the place of a directory; so the file itself is asked where it is.
fn may_quote(found: &FoundFile, file: &OpenFile, top: Option<&Path>) -> bool {
    let is_in_top = |real: PathBuf| {
        top.is_some_and(|top| is_below(top, &real)) && Format::of_path(&real).is_some()
    };
    found.is_ours
        && found.stamp.is_of(file.metadata())
        && file.real_path(&found.path).is_some_and(is_in_top)
}

/// Reads and parses the file, unless it is known not to have changed.
fn fresh(
    found: &FoundFile,
    before: Option<&CachedFile>,
    top: Option<&Path>,
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
    let mut file = OpenFile::open_listed(&found.path)?;
    let bytes = file.read(options.max_file_bytes)?;
    let hash = xxh3_128(&bytes);
    let document = match before {
        Some(known) if known.hash == hash => Arc::clone(&known.document),
        _ => {
            let before = before.map(|known| &*known.document);
            let quotes = &|| may_quote(found, &file, top);
            Arc::new(Parsing { found, quotes, v2: options.v2, schema }.document(&bytes, before)?)
        }
    };
    Ok(CachedFile { stamp, read_at, hash, document })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_at_once_is_less_than_one_file_may_be() {
        for cores in [1, 4, 64, 1000] {
            let at_once = largest_beside_others(64 << 20, cores) * cores as u64;
            assert!(at_once <= 16 << 20);
            assert!(at_once > 15 << 20);
        }
    }
}
