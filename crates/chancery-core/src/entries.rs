//! The entries of a response: a list of segments, most of which other responses share.
//!
//! ```text
//!   wildcard of one node:         [run of the base's list][its own resource][run of the base's list]
//!   names that one client wants:  [resource][resource][entry under an alias]
//! ```
//!
//! A segment refers to something that is kept anyway: one resource, or a list of resources that
//! belongs to a set or to the step between two sets. The encoding is kept beside the resource or the
//! list, so each is encoded once for all responses, and a response that waits for its reader holds
//! references. The core knows no encoding: it has the places, and a driver fills them.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::encodings::{Form, PerForm};
use crate::{Resource, ResourceName};

/// The entries of a response, in the order of their names.
#[derive(Clone, Default)]
pub struct Entries {
    segments: Arc<[Segment]>,
    len: usize,
}

/// A part of a response.
#[derive(Clone, Debug)]
pub enum Segment {
    /// Resources of a list, each under its own name.
    Run(Run),
    /// A resource under its own name.
    Resource(Arc<Resource>),
    /// An entry that only this response has.
    Own(Arc<ResponseEntry>),
}

/// One resource in a response.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseEntry {
    /// The name in the wrapper, in the spelling that was asked for (S-062, S-114;
    /// [`Resource`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/discovery/v3/discovery.proto#envoy-v3-api-msg-service-discovery-v3-resource)).
    pub name: Arc<str>,
    /// The further names in the wrapper (S-091).
    pub aliases: Vec<Arc<str>>,
    /// The resource; `None` says that an alias cannot be resolved (S-093,
    /// [VHDS](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
    pub resource: Option<Arc<Resource>>,
    /// True if the wrapper carries the resource's TTL.
    pub ttl: bool,
    /// True if the entry has no body, so that it refreshes the TTL and changes nothing (S-087,
    /// [TTL](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ttl)).
    pub heartbeat: bool,
}

/// Neighbouring resources of a list.
#[derive(Clone)]
pub struct Run {
    list: Arc<ResourceList>,
    range: Range<usize>,
}

/// Resources in the order of their names, and places for their encodings.
#[derive(Default)]
pub(crate) struct ResourceList {
    resources: Box<[Arc<Resource>]>,
    encodings: PerForm<EncodedList>,
    /// The bytes of the JSON of the resources up to each of them, and with it.
    json_ends: OnceLock<Box<[u64]>>,
}

/// The encoding of a list, and where each of its resources ends.
struct EncodedList {
    bytes: Bytes,
    ends: Box<[u32]>,
}

impl Entries {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Each entry by itself.
    pub fn iter(&self) -> impl Iterator<Item = ResponseEntry> {
        self.segments.iter().flat_map(Segment::entries)
    }

    /// The first resource whose body holds a secret and is in the response (S-137).
    pub(crate) fn sensitive(&self) -> Option<&Arc<Resource>> {
        let mut bodies = self.segments.iter().flat_map(Segment::bodies);
        bodies.find(|resource| resource.facts().sensitive)
    }

    /// A list of resources as a whole.
    pub(crate) fn of_list(resources: Box<[Arc<Resource>]>) -> Self {
        let range = 0..resources.len();
        let list = Arc::new(ResourceList { resources, ..ResourceList::default() });
        Self::from(vec![Segment::Run(Run { list, range })])
    }
}

impl From<Vec<Segment>> for Entries {
    fn from(segments: Vec<Segment>) -> Self {
        let len = segments.iter().map(Segment::len).sum();
        Self { segments: segments.into(), len }
    }
}

impl FromIterator<ResponseEntry> for Entries {
    fn from_iter<I: IntoIterator<Item = ResponseEntry>>(entries: I) -> Self {
        let own = entries.into_iter().map(|entry| Segment::Own(Arc::new(entry)));
        Self::from(own.collect::<Vec<_>>())
    }
}

impl Segment {
    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Run(run) => run.range.len(),
            Self::Resource(_) | Self::Own(_) => 1,
        }
    }

    /// The name of the first entry.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Run(run) => run.resources().first().map_or("", |first| first.name().as_str()),
            Self::Resource(resource) => resource.name().as_str(),
            Self::Own(entry) => &entry.name,
        }
    }

    /// The resources whose bodies are in the response.
    fn bodies(&self) -> &[Arc<Resource>] {
        match self {
            Self::Own(entry) if entry.heartbeat => &[],
            Self::Own(entry) => entry.resource.as_slice(),
            Self::Run(_) | Self::Resource(_) => self.resources(),
        }
    }

    /// The resources that are entries under their own names.
    pub fn resources(&self) -> &[Arc<Resource>] {
        match self {
            Self::Run(run) => run.resources(),
            Self::Resource(resource) => std::slice::from_ref(resource),
            Self::Own(_) => &[],
        }
    }

    /// Each entry by itself.
    pub(crate) fn entries(&self) -> impl Iterator<Item = ResponseEntry> {
        let own = match self {
            Self::Own(entry) => Some(ResponseEntry::clone(entry)),
            Self::Run(_) | Self::Resource(_) => None,
        };
        self.resources().iter().map(ResponseEntry::of).chain(own)
    }
}

impl ResponseEntry {
    /// A resource under its own name, without its TTL.
    pub fn of(resource: &Arc<Resource>) -> Self {
        Self {
            name: resource.name().shared(),
            aliases: resource.aliases().iter().map(ResourceName::shared).collect(),
            resource: Some(Arc::clone(resource)),
            ttl: false,
            heartbeat: false,
        }
    }
}

impl Run {
    /// The resources.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.list.resources[self.range.clone()]
    }

    /// The encoding of the run in a form. If there is none yet, the whole list is encoded by
    /// `encode`, which adds each resource to the bytes.
    pub fn encoding(&self, form: Form, encode: impl Fn(&mut Vec<u8>, &Arc<Resource>)) -> Bytes {
        let list = self.list.encodings.place(form);
        let encoded = list.get_or_init(|| EncodedList::new(&self.list.resources, encode));
        encoded.slice(&self.range)
    }

    /// All resources of the list that this is a run of.
    pub fn whole_list(&self) -> &[Arc<Resource>] {
        &self.list.resources
    }

    /// The bytes of the JSON of the run, if those of the list are known.
    pub fn json_size(&self) -> Option<u64> {
        let ends = self.list.json_ends.get()?;
        let end_of = |count: usize| match count.checked_sub(1) {
            Some(last) => ends.get(last).copied(),
            None => Some(0),
        };
        Some(end_of(self.range.end)? - end_of(self.range.start)?)
    }

    /// States the bytes of the JSON of each resource of the whole list, for all runs of it.
    pub fn keep_json_sizes(&self, sizes: &[u64]) {
        if sizes.len() == self.list.resources.len() {
            let sum = |sum: &mut u64, size: &u64| {
                *sum += size;
                Some(*sum)
            };
            self.list.json_ends.get_or_init(|| sizes.iter().scan(0, sum).collect());
        }
    }

    /// Returns true if the run is encoded in a form already, by this response or another.
    pub fn is_encoded(&self, form: Form) -> bool {
        self.list.encodings.place(form).get().is_some()
    }

    /// Returns true if a name is not behind the last resource of the run.
    pub(crate) fn reaches(&self, name: &ResourceName) -> bool {
        self.resources().last().is_some_and(|last| name <= last.name())
    }

    /// The place of the resource of that name, or of the next one.
    pub(crate) fn place_of(&self, name: &ResourceName) -> usize {
        self.resources().partition_point(|resource| resource.name() < name)
    }

    /// A part of the run.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Self> {
        let start = self.range.start + range.start;
        let end = (self.range.start + range.end).min(self.range.end);
        (start < end).then(|| Self { list: Arc::clone(&self.list), range: start..end })
    }
}

impl EncodedList {
    fn new(resources: &[Arc<Resource>], encode: impl Fn(&mut Vec<u8>, &Arc<Resource>)) -> Self {
        let room: usize = resources.iter().map(|it| it.entry_size()).sum();
        let mut bytes = Vec::with_capacity(room);
        let ends = resources.iter().map(|resource| {
            encode(&mut bytes, resource);
            // No client accepts a message of 4 GiB.
            u32::try_from(bytes.len()).unwrap_or(u32::MAX)
        });
        let ends = ends.collect();
        Self { bytes: bytes.into(), ends }
    }

    fn slice(&self, range: &Range<usize>) -> Bytes {
        let end_of = |count: usize| match count.checked_sub(1) {
            Some(last) => self.ends.get(last).map_or(self.bytes.len(), |end| *end as usize),
            None => 0,
        };
        self.bytes.slice(end_of(range.start)..end_of(range.end))
    }
}

impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.resources()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_knows_the_size_of_its_part_of_the_list() {
        let resource = |name: &str| Arc::new(Resource::new(name.parse().unwrap(), Bytes::new()));
        let entries = Entries::of_list(["a", "b", "c", "d"].map(resource).into());
        let [Segment::Run(whole)] = entries.segments() else { panic!("{entries:?} is no run") };
        let parts = [0..4, 0..1, 1..3, 3..4].map(|range| whole.part(range).unwrap());
        assert!(parts.iter().all(|part| part.json_size().is_none()));
        whole.keep_json_sizes(&[1, 2, 3]);
        assert_eq!(whole.json_size(), None, "a size is missing");
        parts[2].keep_json_sizes(&[1, 2, 4, 8]);
        let sizes = parts.iter().map(|part| part.json_size().unwrap());
        assert_eq!(sizes.collect::<Vec<_>>(), [15, 1, 6, 8]);
    }
}
