//! The bytes of a piece: records, each with what differs from the record before it.
//!
//! Numbers are little-endian, and texts follow their length. A position in a file may be that of an older state:
//! an edit moves all that is below it, so that nothing is written because of positions alone. Bytes that are no
//! piece are refused, whatever they are: nothing of what they say is believed before it is there. Not here:
//! checksums (`pieces`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chancery_core::{Resource, ResourceName, TypeUrl, Version};
use chancery_proto::document::Position;
use chancery_proto::patch::Patch;
use chancery_proto::resource::{Wrapper, resource_from_bytes};
use chancery_proto::values::NodeValues;

use super::Reader;
use super::record::Record;
use crate::entry::{Entry, EntryContent, Form, Key, Origin};
use crate::layer::Layer;

/// The marks at the start of a record.
mod mark {
    /// The layer of the records that follow.
    pub(super) const LAYER: u8 = 1;
    /// The layer of before is there.
    pub(super) const IS_THERE: u8 = 2;
    /// The type of the entries that follow.
    pub(super) const TYPE: u8 = 3;
    /// The file of the entries that follow.
    pub(super) const FILE: u8 = 4;
    pub(super) const WHOLE: u8 = 5;
    pub(super) const PATCH: u8 = 6;
    pub(super) const REMOVAL: u8 = 7;
    /// The values of nodes of the entry that follows.
    pub(super) const VALUES: u8 = 8;
}

/// A writer of one piece.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    layer: Option<Layer>,
    type_url: Option<TypeUrl>,
    file: Option<Arc<Path>>,
}

impl Writer {
    pub(super) fn record(&mut self, record: &Record<'_>) {
        if self.layer.as_ref() != Some(record.layer) {
            let (kind, name) = match record.layer {
                Layer::Base => (0, ""),
                Layer::Group(name) => (1, &**name),
                Layer::Node(id) => (2, &**id),
            };
            self.bytes.extend([mark::LAYER, kind]);
            self.text(name);
            self.layer = Some(record.layer.clone());
        }
        match record.entry {
            None => self.bytes.push(mark::IS_THERE),
            Some((key, entry)) => self.entry(key, entry),
        }
    }

    fn entry(&mut self, key: &Key, entry: &Entry) {
        if self.type_url.as_ref() != Some(&key.type_url) {
            self.bytes.push(mark::TYPE);
            self.text(key.type_url.as_str());
            self.type_url = Some(key.type_url.clone());
        }
        if let Origin::File { path, .. } = &entry.origin
            && self.file.as_ref() != Some(path)
        {
            self.bytes.push(mark::FILE);
            self.bytes(path.as_os_str().as_encoded_bytes());
            self.file = Some(Arc::clone(path));
        }
        if let Some(values) = &entry.values {
            self.bytes.push(mark::VALUES);
            self.bytes(&values.to_bytes());
        }
        self.bytes.push(match &entry.content {
            EntryContent::Whole(_) => mark::WHOLE,
            EntryContent::Patch(_) => mark::PATCH,
            EntryContent::Removal(_) => mark::REMOVAL,
        });
        self.text(key.name.as_str());
        self.bytes.push(u8::from(entry.form == Form::Derived));
        self.origin(&entry.origin);
        match &entry.content {
            EntryContent::Whole(resource) => self.resource(resource),
            EntryContent::Patch(patch) => self.bytes(&patch.to_bytes()),
            EntryContent::Removal(_) => {}
        }
    }

    fn origin(&mut self, origin: &Origin) {
        let (kind, text) = match origin {
            Origin::File { position: Position { line, column }, .. } => {
                self.bytes.push(0);
                self.bytes.extend(line.to_le_bytes());
                return self.bytes.extend(column.to_le_bytes());
            }
            Origin::Key { key } => (1, key),
            Origin::Peer { address } => (2, address),
            Origin::Program { name } => (3, name),
        };
        self.bytes.push(kind);
        self.text(text);
    }

    fn resource(&mut self, resource: &Resource) {
        match stated(resource) {
            None => self.bytes.push(0),
            Some(version) => {
                self.bytes.push(1);
                self.text(version);
            }
        }
        match resource.ttl() {
            None => self.bytes.push(0),
            Some(ttl) => {
                self.bytes.push(1);
                self.bytes.extend(ttl.as_secs().to_le_bytes());
                self.bytes.extend(ttl.subsec_nanos().to_le_bytes());
            }
        }
        self.length(resource.aliases().len());
        resource.aliases().iter().for_each(|alias| self.text(alias.as_str()));
        self.bytes(resource.body());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend(bytes);
    }

    /// The lengths of names and resources, which come from files, are far below four gigabytes.
    pub(super) fn length(&mut self, length: usize) {
        self.bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// A record that was read.
pub(super) enum Read {
    Layer(Layer),
    Entry(Layer, Key, Entry),
}

/// A reader of bytes that may be anything.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

/// The records of a piece; `None` if these bytes are none.
pub(super) fn records(reader: &Reader<'_>, bytes: &[u8]) -> Option<Vec<Read>> {
    let (mut input, mut read) = (Input(bytes), Vec::new());
    let (mut layer, mut type_url, mut file) = (None, None, None);
    let mut values = None;
    while let Some([mark]) = input.array() {
        match mark {
            mark::LAYER => layer = Some(input.layer()?),
            mark::IS_THERE => read.push(Read::Layer(layer.clone()?)),
            mark::TYPE => type_url = Some(TypeUrl::new(input.text()?)),
            mark::FILE => file = Some(input.path()?),
            mark::VALUES => values = Some(input.bytes()?),
            mark::WHOLE | mark::PATCH | mark::REMOVAL => {
                let key = Key { type_url: type_url.clone()?, name: input.name()? };
                let layer = layer.clone()?;
                let form = match input.array()? {
                    [0] => Form::Written,
                    [1] => Form::Derived,
                    _ => return None,
                };
                let origin = input.origin(file.as_ref())?;
                let known = (reader.known)(&layer, &key);
                let known = known.filter(|it| it.form == form && is_same_origin(it, &origin));
                let content = match mark {
                    mark::WHOLE => input.resource(reader, &key, known.as_ref())?,
                    mark::PATCH => input.patch(reader, &key, known.as_ref())?,
                    _ => EntryContent::Removal(key.name.clone()),
                };
                let values = values.take();
                let is_known = |known: &Entry| {
                    let known_values = known.values.as_ref().map(|it| it.to_bytes());
                    known.content == content && known_values.as_deref() == values
                };
                // The known one says where it stands in its file.
                let entry = match known.filter(is_known) {
                    Some(known) => known,
                    None => {
                        let values = values.map(|values| {
                            NodeValues::from_bytes(reader.schema, &key.type_url, &key.name, values)
                        });
                        let values = match values {
                            Some(read) => Some(Arc::new(read?)),
                            None => None,
                        };
                        Entry { content, origin, form, values }
                    }
                };
                read.push(Read::Entry(layer, key, entry));
            }
            _ => return None,
        }
    }
    Some(read)
}

impl<'a> Input<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        str::from_utf8(self.bytes()?).ok()
    }

    fn name(&mut self) -> Option<ResourceName> {
        ResourceName::parse(self.text()?).ok()
    }

    pub(super) fn layer(&mut self) -> Option<Layer> {
        let [kind] = self.array()?;
        let name = self.text()?;
        match kind {
            0 => name.is_empty().then_some(Layer::Base),
            1 => Some(Layer::Group(name.into())),
            2 => Some(Layer::Node(name.into())),
            _ => None,
        }
    }

    #[cfg(unix)]
    fn path(&mut self) -> Option<Arc<Path>> {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        Some(PathBuf::from(OsStr::from_bytes(self.bytes()?)).into())
    }

    #[cfg(not(unix))]
    fn path(&mut self) -> Option<Arc<Path>> {
        Some(PathBuf::from(self.text()?).into())
    }

    fn origin(&mut self, file: Option<&Arc<Path>>) -> Option<Origin> {
        let [kind] = self.array()?;
        Some(match kind {
            0 => {
                let line = u32::from_le_bytes(self.array()?);
                let column = u32::from_le_bytes(self.array()?);
                Origin::File { path: Arc::clone(file?), position: Position { line, column } }
            }
            1 => Origin::Key { key: self.text()?.into() },
            2 => Origin::Peer { address: self.text()?.into() },
            3 => Origin::Program { name: self.text()?.into() },
            _ => return None,
        })
    }

    fn patch(
        &mut self,
        reader: &Reader<'_>,
        key: &Key,
        known: Option<&Entry>,
    ) -> Option<EntryContent> {
        let bytes = self.bytes()?;
        if let Some(EntryContent::Patch(known)) = known.map(|known| &known.content)
            && known.to_bytes() == bytes
        {
            return Some(EntryContent::Patch(Arc::clone(known)));
        }
        let patch = Patch::from_bytes(reader.schema, &key.type_url, &key.name, bytes)?;
        Some(EntryContent::Patch(Arc::new(patch)))
    }

    fn resource(
        &mut self,
        reader: &Reader<'_>,
        key: &Key,
        known: Option<&Entry>,
    ) -> Option<EntryContent> {
        let version = match self.array()? {
            [0] => None,
            [1] => Some(self.text()?),
            _ => return None,
        };
        let ttl = match self.array()? {
            [0] => None,
            [1] => {
                let seconds = u64::from_le_bytes(self.array()?);
                let nanos = u32::from_le_bytes(self.array()?);
                (nanos < 1_000_000_000).then(|| Some(Duration::new(seconds, nanos)))?
            }
            _ => return None,
        };
        let count = self.length()?;
        let aliases = (0..count).map(|_| self.text()).collect::<Option<Vec<_>>>()?;
        let body = self.bytes()?;
        let is_same = |known: &&Arc<Resource>| {
            let known_aliases = known.aliases().iter().map(ResourceName::as_str);
            **known.body() == *body
                && known.ttl() == ttl
                && stated(known) == version
                && known_aliases.eq(aliases.iter().copied())
        };
        if let Some(known) = known.and_then(Entry::resource).filter(is_same) {
            return Some(EntryContent::Whole(Arc::clone(known)));
        }
        let aliases = aliases.into_iter().map(str::to_owned).collect();
        let wrapper = Wrapper { name: Some(key.name.as_str().to_owned()), ttl, aliases };
        let body = body.to_vec().into();
        let made = resource_from_bytes(reader.schema, &key.type_url, &body, wrapper).ok()?;
        Some(EntryContent::Whole(Arc::new(match version {
            Some(version) => made.with_version(version),
            None => made,
        })))
    }
}

/// Returns true if two entries that differ are written in the same bytes: they only stand elsewhere in their
/// file.
pub(super) fn is_same(one: &Entry, other: &Entry) -> bool {
    let digest = |entry: &Entry| entry.values.as_ref().map(|values| values.digest());
    one.form == other.form
        && one.content == other.content
        && digest(one) == digest(other)
        && is_same_origin(one, &other.origin)
}

fn is_same_origin(entry: &Entry, origin: &Origin) -> bool {
    match (&entry.origin, origin) {
        (Origin::File { path: one, .. }, Origin::File { path: other, .. }) => one == other,
        (one, other) => one == other,
    }
}

/// The version of a resource that is no digest of its content.
fn stated(resource: &Resource) -> Option<&str> {
    match resource.version() {
        Version::Content(_) => None,
        Version::Explicit(version) => Some(version),
    }
}
