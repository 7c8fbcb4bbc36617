//! The body of the answer to a poll: the JSON of each resource, made into chunks as the client takes
//! them.
//!
//! ```text
//!   head , JSON of a resource , JSON of a resource ...  tail
//!          (kept with the resource, for all who are sent it)
//! ```
//!
//! A client that takes nothing holds the references to its resources and one chunk. Not here: which
//! resources it is sent (`chancery_core::server::rest`).

use std::sync::Arc;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use chancery_core::server::{Entries, Segment};
use chancery_core::{Resource, TypeUrl};
use chancery_proto::json::{JsonError, resource_to_json, response_head, response_tail};

use crate::activity::ActiveRequest;
use crate::budget::{MemoryCharge, PeerShare};
use crate::connection::HTTP1_BUFFER;
use crate::server_state::{ServerState, StreamPermit};
use crate::slice::{LONG_JSON, Slice, WorkSize};
use crate::turns::Line;

/// The size in bytes from which on a shared text is a chunk of its own, and is not copied.
const OWN_CHUNK: usize = 8 * 1024;
/// The size in bytes at which a chunk of copied texts is full.
const FULL_CHUNK: usize = 16 * 1024;

/// The body of the answer to a poll. The poll counts as a stream, and as open, until it is dropped.
pub(crate) struct PollBody {
    shared: Arc<ServerState>,
    type_url: TypeUrl,
    resources: Entries,
    next: Place,
    /// A text that did not fit into the last chunk.
    waiting: Option<Bytes>,
    tail: Bytes,
    /// The bytes that are still to come.
    left: u64,
    #[expect(dead_code, reason = "the poll counts until it is dropped")]
    counted: Option<(StreamPermit, ActiveRequest)>,
    charge: MemoryCharge,
}

/// The place of the next text.
enum Place {
    Head,
    /// The resource of a segment, and of that place in it.
    Resource(usize, usize),
    Tail,
    End,
}

impl PollBody {
    /// The answer with these resources. All of them are written here, one after another, and the
    /// thread is given to others in between.
    pub(super) async fn new(
        shared: &Arc<ServerState>,
        type_url: &TypeUrl,
        version: &str,
        resources: Entries,
        charge: MemoryCharge,
    ) -> Result<Self, JsonError> {
        let (shared, type_url) = (Arc::clone(shared), type_url.clone());
        let tail = response_tail(&type_url, version);
        let commas = resources.len().saturating_sub(1);
        let left = response_head(&shared.config.control_plane).len() + commas + tail.len();
        let (peer, slice) = (charge.share(), Slice::begin());
        let mut writer = Writer { shared: &shared, type_url: &type_url, peer, slice };
        let mut left = left as u64;
        for segment in resources.segments() {
            left += writer.size_of(segment).await?;
        }
        let next = Place::Head;
        Ok(Self {
            shared,
            type_url,
            resources,
            next,
            waiting: None,
            tail,
            left,
            counted: None,
            charge,
        })
    }

    /// The number of bytes that an answer with these resources holds while its client does not read:
    /// the references, a chunk, and what HTTP gathers before it waits.
    pub(super) fn bytes_of(resources: &Entries) -> usize {
        size_of_val(resources.segments()) + HTTP1_BUFFER + FULL_CHUNK + OWN_CHUNK
    }

    /// The body that counts as a stream and as an open request. The request itself is gone by now.
    pub(crate) fn counted(self, permit: StreamPermit, active: ActiveRequest) -> Self {
        // This was charged together with the request, so it is not more than before.
        let held = self.charge.set(Self::bytes_of(&self.resources));
        debug_assert!(held.is_ok(), "it holds less");
        Self { counted: Some((permit, active)), ..self }
    }

    /// Returns true if the answer has to end, because other clients need the memory that is held for
    /// it. If not, `waker` is woken when that changes.
    pub(crate) fn is_asked_back(&self, waker: &Waker) -> bool {
        self.charge.is_asked_back(waker)
    }

    /// Returns true if the answer was told to end.
    pub(crate) fn was_asked_back(&self) -> bool {
        self.charge.was_asked_back()
    }

    /// The number of resources.
    pub(super) fn resources(&self) -> usize {
        self.resources.len()
    }

    /// The number of bytes that are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// If a resource cannot be written, which was possible before.
    pub(crate) fn next_chunk(&mut self) -> Result<Option<Bytes>, JsonError> {
        let chunk = self.gather()?;
        self.left = self.left.saturating_sub(chunk.len() as u64);
        Ok((!chunk.is_empty()).then_some(chunk))
    }

    fn gather(&mut self) -> Result<Bytes, JsonError> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(FULL_CHUNK + OWN_CHUNK);
        let mut chunk = BytesMut::with_capacity(room);
        while chunk.len() < FULL_CHUNK
            && let Some(text) = self.next_text(&mut chunk)?
        {
            if text.len() < OWN_CHUNK {
                chunk.extend_from_slice(&text);
            } else if chunk.is_empty() {
                return Ok(text);
            } else {
                self.waiting = Some(text);
                break;
            }
        }
        Ok(chunk.freeze())
    }

    /// The next text, behind the comma that is before it.
    fn next_text(&mut self, chunk: &mut BytesMut) -> Result<Option<Bytes>, JsonError> {
        if let Some(waiting) = self.waiting.take() {
            return Ok(Some(waiting));
        }
        loop {
            match self.next {
                Place::Head => {
                    self.next = Place::Resource(0, 0);
                    return Ok(Some(response_head(&self.shared.config.control_plane)));
                }
                Place::Resource(segment, at) => {
                    let Some(resources) = self.resources.segments().get(segment) else {
                        self.next = Place::Tail;
                        continue;
                    };
                    let Some(resource) = resources.resources().get(at) else {
                        self.next = Place::Resource(segment + 1, 0);
                        continue;
                    };
                    if (segment, at) != (0, 0) {
                        chunk.extend_from_slice(b",");
                    }
                    self.next = Place::Resource(segment, at + 1);
                    return resource_to_json(&self.shared.schema, &self.type_url, resource)
                        .map(Some);
                }
                Place::Tail => {
                    self.next = Place::End;
                    return Ok(Some(self.tail.clone()));
                }
                Place::End => return Ok(None),
            }
        }
    }
}

/// Writes the texts of resources, and lets other tasks run in between.
struct Writer<'a> {
    shared: &'a Arc<ServerState>,
    type_url: &'a TypeUrl,
    peer: &'a Arc<PeerShare>,
    slice: Slice,
}

impl Writer<'_> {
    /// Writes the resources of a segment, and returns the bytes of their texts. The sizes of a list are
    /// kept with it, so that later polls need not look at each resource.
    async fn size_of(&mut self, segment: &Segment) -> Result<u64, JsonError> {
        if let Segment::Resource(resource) = segment {
            return self.size_of_one(resource).await;
        }
        if let Segment::Run(run) = segment {
            if run.json_size().is_none()
                && let Ok(sizes) = self.sizes_of(run.whole_list()).await
            {
                run.keep_json_sizes(&sizes);
            }
            if let Some(size) = run.json_size() {
                return Ok(size);
            }
        }
        Ok(self.sizes_of(segment.resources()).await?.into_iter().sum())
    }

    async fn sizes_of(&mut self, resources: &[Arc<Resource>]) -> Result<Vec<u64>, JsonError> {
        let mut sizes = Vec::with_capacity(resources.len());
        for resource in resources {
            sizes.push(self.size_of_one(resource).await?);
        }
        Ok(sizes)
    }

    async fn size_of_one(&mut self, resource: &Arc<Resource>) -> Result<u64, JsonError> {
        if resource.body().len() >= LONG_JSON {
            self.write_beside(resource).await;
        }
        let text = resource_to_json(&self.shared.schema, self.type_url, resource)?;
        self.slice.share().await;
        Ok(text.len() as u64)
    }

    /// Writes a large resource. The text is kept with it, so it is there the next time.
    async fn write_beside(&self, resource: &Arc<Resource>) {
        let (shared, type_url) = (Arc::clone(self.shared), self.type_url.clone());
        let resource = Arc::clone(resource);
        let piece = (Line::Front, WorkSize::of_bytes(resource.body().len()));
        let write = move || drop(resource_to_json(&shared.schema, &type_url, &resource));
        self.shared.work_threads.beside_workers(self.peer, piece, write).await;
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::server::{Settings, rest};
    use chancery_core::{Snapshot, SotwRequest};
    use chancery_proto::schema::Schema;

    use super::*;
    use crate::config::Config;
    use crate::metrics::Metrics;
    use crate::policy::{OneAudience, Peer};
    use crate::server_state::ServerParts;
    use crate::store::Store;

    fn clusters() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    fn shared() -> Arc<ServerState> {
        Arc::new(ServerState::new(ServerParts {
            store: Store::new(),
            policy: Box::new(OneAudience("all".into())),
            observers: Vec::new(),
            config: Config::default(),
            metrics: Metrics::default(),
            schema: Schema::bundled(),
            load_reports: None,
            csds: None,
        }))
    }

    /// Clusters whose names have these lengths.
    fn snapshot(lengths: &[usize]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for (at, length) in lengths.iter().enumerate() {
            let name = format!("{at}{}", "c".repeat(*length));
            let body = [&[0x0a][..], &varint(name.len()), name.as_bytes()].concat();
            let resource = Resource::new(name.parse().unwrap(), Bytes::from(body));
            snapshot.insert(&clusters(), resource);
        }
        snapshot
    }

    fn varint(number: usize) -> Vec<u8> {
        let low = u8::try_from(number & 127).unwrap();
        if number < 128 { vec![low] } else { [vec![low | 128], varint(number >> 7)].concat() }
    }

    async fn answer(shared: &Arc<ServerState>, snapshot: &Snapshot) -> PollBody {
        let (request, settings) = (SotwRequest::default(), Settings::default());
        match rest::answer(snapshot, &clusters(), &request, &settings) {
            rest::Answer::Data { version, resources } => {
                let peer = Peer { address: None, tls: false, certificates: Vec::new() };
                let charge = MemoryCharge::new(&shared.budget.share_of(&peer), 0).unwrap();
                PollBody::new(shared, &clusters(), &version, resources, charge).await.unwrap()
            }
            other => panic!("{other:?} is no data"),
        }
    }

    fn chunks(mut body: PollBody) -> Vec<Bytes> {
        std::iter::from_fn(|| body.next_chunk().unwrap()).collect()
    }

    #[tokio::test]
    async fn the_chunks_are_the_whole_answer_however_large_its_parts_are() {
        // S-019
        let shared = shared();
        for lengths in [
            &[][..],
            &[1],
            &[1, 2, 3],
            &[OWN_CHUNK],
            &[OWN_CHUNK, 1, OWN_CHUNK, OWN_CHUNK],
            &[1000; 50],
            &[1, OWN_CHUNK * 10],
        ] {
            let snapshot = snapshot(lengths);
            let body = answer(&shared, &snapshot).await;
            let stated = body.left();
            let chunks = chunks(body);
            assert!(chunks.iter().all(|chunk| !chunk.is_empty()), "{lengths:?}");
            let text = chunks.concat();
            assert_eq!(text.len() as u64, stated, "{lengths:?}");
            let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let names = json["resources"].as_array().unwrap().iter();
            let names: Vec<_> = names.map(|one| one["name"].as_str().unwrap()).collect();
            let set = snapshot.set(&clusters());
            let expected: Vec<_> = set.iter().map(|one| one.name().as_str()).collect();
            assert_eq!(names, expected);
        }
    }

    #[tokio::test]
    async fn all_who_are_sent_a_resource_share_its_text() {
        let (shared, snapshot) = (shared(), snapshot(&[OWN_CHUNK * 4]));
        let mut answers = Vec::new();
        for _ in 0..2 {
            answers.push(chunks(answer(&shared, &snapshot).await));
        }
        let of = |answer: &[Bytes]| answer.iter().map(Bytes::len).max();
        assert!(of(&answers[0]) > Some(OWN_CHUNK * 4));
        let texts = answers.iter().flatten().filter(|chunk| chunk.len() > OWN_CHUNK * 4);
        let places: Vec<_> = texts.map(|text| text.as_ptr()).collect();
        assert_eq!(places.len(), 2);
        assert_eq!(places[0], places[1]);
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_holds_no_text() {
        let (shared, snapshot) = (shared(), snapshot(&[100; 1000]));
        let bodies = [answer(&shared, &snapshot).await, answer(&shared, &snapshot).await];
        let lists = bodies.each_ref().map(|body| body.resources.segments().as_ptr());
        assert_eq!(lists[0], lists[1], "the list of resources is shared");
        assert!(bodies.iter().all(|body| body.waiting.is_none() && body.left() > 100_000));
    }
}
