//! Reads and parses files, and remembers what they held.
//!
//! A file is read again when its stamp changed, or when the stamp could not have shown a change,
//! and parsed again only when its content changed. What is remembered belongs to a path, so a
//! cache holds no more than the directory does.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use chancery_core::{Resource, TypeUrl};
use chancery_proto::document::{self, Parsed, Position};
use chancery_proto::schema::Schema;
use chancery_proto::v2;
use xxhash_rust::xxh3::xxh3_128;

use crate::fault::{Fault, Scope, Warning, Wrong};
use crate::listing::{Found, Stamp};
use crate::options::Options;
use crate::workers;

/// What the files of a directory held when they were last read.
#[derive(Default)]
pub(crate) struct Cache {
    files: HashMap<Arc<Path>, Cached>,
    /// The files that may hold something else by now, for all that can be told.
    unsure: BTreeSet<Arc<Path>>,
}

/// What one file holds.
#[derive(Default)]
pub(crate) struct Document {
    pub(crate) resources: Vec<Loaded>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) warnings: Vec<Warning>,
}

/// A resource and where it is written.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) type_url: TypeUrl,
    pub(crate) resource: Arc<Resource>,
    pub(crate) position: Position,
    /// The same under its v2 type, if it has one and v2 is served.
    pub(crate) v2: Option<(TypeUrl, Arc<Resource>)>,
}

#[derive(Clone)]
struct Cached {
    stamp: Stamp,
    read_at: SystemTime,
    hash: u128,
    document: Arc<Document>,
}

impl Cache {
    /// Makes this what the listed files hold, and hands it out in the same order.
    pub(crate) fn read(
        &mut self,
        files: &[Found],
        options: &Options,
        schema: &Schema,
    ) -> Vec<Arc<Document>> {
        let before = std::mem::take(self);
        let fresh = workers::map(files, |found| {
            fresh(found, before.files.get(&found.path), options, schema)
        });
        files.iter().zip(fresh).map(|(found, fresh)| self.keep(found, fresh)).collect()
    }

    /// What one file holds now.
    pub(crate) fn read_one(
        &mut self,
        found: &Found,
        options: &Options,
        schema: &Schema,
    ) -> Arc<Document> {
        let fresh = fresh(found, self.files.get(&found.path), options, schema);
        self.keep(found, fresh)
    }

    /// A file that is not there any more holds nothing.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.files.remove(path);
        self.unsure.remove(path);
    }

    /// The files that were read so soon after they were written that their stamp may hide a
    /// change, and those that could not be read.
    pub(crate) fn unsure(&self) -> &BTreeSet<Arc<Path>> {
        &self.unsure
    }

    fn keep(&mut self, found: &Found, fresh: Result<Cached, Wrong>) -> Arc<Document> {
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
                let faults = vec![wrong.at(scope, &found.path, None)];
                Arc::new(Document { faults, ..Document::default() })
            }
        }
    }
}

/// What the file holds now.
fn fresh(
    found: &Found,
    before: Option<&Cached>,
    options: &Options,
    schema: &Schema,
) -> Result<Cached, Wrong> {
    let Found { stamp, .. } = *found;
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
        _ => Arc::new(parse(found, &bytes, options, schema)?),
    };
    Ok(Cached { stamp, read_at, hash, document })
}

/// The whole file, if it is no larger than `limit`, whatever its size was a moment ago.
fn read(path: &Path, stamp: Stamp, limit: u64) -> Result<Vec<u8>, Wrong> {
    if stamp.bytes > limit {
        return Err(Wrong::TooLarge { limit });
    }
    // One more than there should be, so that the end is found without growing.
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.bytes).unwrap_or_default() + 1);
    let whole = |bytes: &mut Vec<u8>| -> io::Result<usize> {
        File::open(path)?.take(limit.saturating_add(1)).read_to_end(bytes)
    };
    let read = whole(&mut bytes).map_err(Wrong::Unreadable)?;
    if read as u64 > limit { Err(Wrong::TooLarge { limit }) } else { Ok(bytes) }
}

/// Parses a file. A parser that panics on it is a fault of this file and costs no other.
fn parse(
    found: &Found,
    bytes: &[u8],
    options: &Options,
    schema: &Schema,
) -> Result<Document, Wrong> {
    let parsed = catch_unwind(AssertUnwindSafe(|| document::parse(schema, found.format, bytes)));
    let Parsed { resources, faults } = parsed.map_err(|_| Wrong::Panicked)?;
    let mut document = Document::default();
    for fault in &faults {
        let file = found.path.display().to_string();
        let rendered = document::render(fault, &file, str::from_utf8(bytes).ok());
        let scope = Scope::Layer(found.layer.clone());
        document.faults.push(Fault::of_document(scope, &found.path, fault, rendered));
    }
    for parsed in resources {
        let (kind, name) = (parsed.type_url.short(), parsed.resource.name());
        let warnings = parsed.warnings.iter().map(|warning| Warning {
            file: Some(found.path.to_path_buf()),
            line: Some(parsed.position.line),
            message: format!("{kind} `{name}`: {warning}"),
        });
        document.warnings.extend(warnings);
        let old = options.v2.then(|| v2::to_v2(schema, &parsed.type_url, &parsed.resource));
        document.resources.push(Loaded {
            type_url: parsed.type_url,
            resource: parsed.resource,
            position: parsed.position,
            v2: old.flatten().map(|(type_url, resource)| (type_url, Arc::new(resource))),
        });
    }
    Ok(document)
}
