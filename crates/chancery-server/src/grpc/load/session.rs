//! One stream of load reports: what its client is told, and its part in the book.
//!
//! The policy and the snapshot of the client are looked at when it has spoken and then once in each interval,
//! so that a change of either is told soon (S-132). The stream watches no audience: it would be woken, and
//! counted among those of its node, for what it is told in some seconds anyway. A list of clusters is made
//! only if they are others than at the last look, and is held only until it is told.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use chancery_core::server::check_node;
use chancery_core::server::load::{LeftOut, LoadReporting, LoadStream};
use chancery_core::{Node, ResourceSet, TypeUrl};
use chancery_proto::wire::{self, LoadPart, LoadReportParts};
use tokio::time::Instant;
use tonic::{Code, Status};
use tracing::{debug, warn};

use crate::budget::MemoryCharge;
use crate::grpc::framing::frame_message;
use crate::grpc::status;
use crate::load_reports::LoadReports;
use crate::log_limiter::{LineOrigin, PeerLine, message, name};
use crate::policy::{Client, Peer};
use crate::server_state::{ServerState, StreamPermit};
use crate::store::{AudienceName, Caller};

/// One stream.
pub(in crate::grpc) struct LoadSession {
    permit: StreamPermit,
    peer: Arc<Peer>,
    id: u64,
    reports: LoadReports,
    stream: LoadStream,
    /// The clusters that the client was told by name, and how it reports. They may be gone by now: a client
    /// that does not read keeps none of them.
    named: Option<(Weak<ResourceSet>, LoadReporting)>,
    /// The bytes of the names that the client is yet to be told.
    untold: usize,
    /// The report that is being read, and the number of its clusters that were.
    reading: Option<(LoadReportParts, usize)>,
    left_out: LeftOut,
    looked: Option<Instant>,
    /// False if the client is to report nothing. Then nothing that it reports is taken.
    is_wanted: bool,
    opened: Instant,
}

/// The most clusters of one report that are looked at.
const MOST_CLUSTERS: usize = 20_000;

impl LoadSession {
    pub(in crate::grpc) fn open(
        permit: StreamPermit,
        peer: Arc<Peer>,
        reports: LoadReports,
    ) -> Self {
        permit.shared().metrics.load_streams.inc();
        Self {
            id: permit.shared().next_stream(),
            permit,
            peer,
            reports,
            stream: LoadStream::default(),
            named: None,
            untold: 0,
            reading: None,
            left_out: LeftOut::default(),
            looked: None,
            is_wanted: false,
            opened: Instant::now(),
        }
    }

    pub(super) fn shared(&self) -> &Arc<ServerState> {
        self.permit.shared()
    }

    /// Takes a message of the client, which is read part by part from now on.
    pub(super) fn receive(&mut self, message: Bytes) -> Result<(), Status> {
        let parts = LoadReportParts::new(message);
        if self.looked.is_none() {
            let settings = &self.shared().config.protocol;
            let node = parts.node(&settings.request_limits());
            let node = node.map_err(|error| status::of_decode_error(&error))?;
            if let Some(node) = &node {
                check_node(node, settings).map_err(|it| status::of_violation(&it))?;
            }
            self.identify(node)?;
        }
        self.shared().metrics.load_reports.inc();
        self.reading = self.is_wanted.then_some((parts, 0));
        Ok(())
    }

    /// Reads the next part of the report. Returns false if there is no more. What the book keeps is charged
    /// together with `beside`.
    pub(super) fn read_part(
        &mut self,
        charge: &MemoryCharge,
        beside: usize,
    ) -> Result<bool, Status> {
        let Some((parts, count)) = &mut self.reading else { return Ok(false) };
        let part = parts.next_part().map_err(|error| status::of_decode_error(&error))?;
        let Some(part) = part.filter(|_| *count < MOST_CLUSTERS) else {
            self.left_out.rows += u64::from(*count >= MOST_CLUSTERS);
            self.reading = None;
            self.say_left_out();
            return Ok(false);
        };
        *count += 1;
        let LoadPart::Cluster(stats) = part else {
            self.left_out.rows += 1;
            return Ok(true);
        };
        let mut held = beside + parts.size() + self.untold;
        let now = self.reports.now();
        let mut book = self.reports.book();
        held += book.held_bytes(self.id);
        let before = book.totals(self.id);
        let mut allows = |more| {
            let may = charge.set(held + more + NEXT_REPORT).is_ok();
            held += if may { more } else { 0 };
            may
        };
        let left_out = book.record(now, self.id, &stats, &mut allows);
        let counted = book.totals(self.id).less(before);
        drop(book);
        self.left_out.add(left_out);
        self.shared().metrics.count_calls(&counted);
        Ok(true)
    }

    /// The next response as a frame, if the client is to be told something.
    pub(super) fn respond(&mut self, now: Instant) -> Result<Option<Bytes>, Status> {
        if self.next_look().is_some_and(|at| at <= now) {
            self.look()?;
        }
        self.untold = 0;
        Ok(self.stream.poll().map(|response| frame_message(&wire::encode_load_response(&response))))
    }

    /// The time of the next look at what the client is to report.
    pub(super) fn next_look(&self) -> Option<Instant> {
        // A longer interval would keep a change of the configuration from the client for as long.
        let interval = self.stream.told().unwrap_or(LONGEST_LOOK).min(LONGEST_LOOK);
        Some(self.looked? + interval)
    }

    /// The number of bytes that are held for the client.
    pub(super) fn held_bytes(&self) -> usize {
        let reading = self.reading.as_ref().map_or(0, |(parts, _)| parts.size());
        reading + self.untold + self.reports.book().held_bytes(self.id)
    }

    /// Notes the status with which the stream is ended.
    pub(super) fn ends(&self, status: &Status) {
        let (code, why) = (status.code(), message(status.message()));
        let is_fault = !matches!(code, Code::Ok | Code::Unavailable);
        let (stream, node) = (self.id, self.node_id());
        if is_fault && self.admits(PeerLine::StreamRefused, &why) {
            warn!(stream, node = &*name(&node), peer = %self.peer, why = &*why, "stream of load reports closed");
        }
    }

    fn identify(&mut self, node: Option<Arc<Node>>) -> Result<(), Status> {
        self.stream.receive(node);
        let node = self.stream.node().cloned();
        self.reports.book().open(self.reports.now(), self.id, node);
        let (stream, node) = (self.id, self.node_id());
        debug!(stream, node = &*name(&node), peer = %self.peer, "stream of load reports opened");
        self.look()
    }

    /// Looks what the client is to report now.
    fn look(&mut self) -> Result<(), Status> {
        self.looked = Some(Instant::now());
        let shared = Arc::clone(self.shared());
        let node = self.stream.node().cloned();
        let client = Client { node: node.as_deref(), peer: &self.peer };
        let audience = shared.policy.audience(&client)?;
        let reporting = shared.policy.load_reporting(&client);
        self.is_wanted = reporting.is_some();
        if let Some(reporting) = reporting {
            self.reports.book().is_to_report(self.id, reporting.interval);
        }
        let caller =
            Caller { node, peer: Arc::clone(&self.peer), since: self.opened, is_poll: true };
        let named = self.named.take();
        self.stream.want(reporting, || {
            let set = clusters(&shared, audience, caller);
            let now = (set.as_ref().map_or_else(Weak::new, Arc::downgrade), reporting?);
            // A set that is held on to has its place for itself, so no other one is taken for it.
            let is_told =
                set.is_some() && named.is_some_and(|it| it.0.ptr_eq(&now.0) && it.1 == now.1);
            self.named = Some(now);
            let names = (!is_told).then(|| names(set.as_deref(), &shared));
            self.untold = names.iter().flatten().map(|name| HELD_NAME_BYTES + name.len()).sum();
            names
        });
        Ok(())
    }

    /// Counts what was left out of a report, and tells of it.
    fn say_left_out(&mut self) {
        let left_out = std::mem::take(&mut self.left_out);
        if left_out.is_nothing() {
            return;
        }
        self.shared().metrics.count_left_out(&left_out);
        let LeftOut { names, numbers, rows, memory } = left_out;
        let detail = format!("{} {} {} {}", names > 0, numbers > 0, rows > 0, memory > 0);
        if self.admits(PeerLine::LoadLeftOut, &detail) {
            let (stream, node) = (self.id, self.node_id());
            let node = &*name(&node);
            warn!(stream, node, peer = %self.peer, names, numbers, rows, memory, "parts of a load report are left out");
        }
    }

    fn node_id(&self) -> String {
        self.stream.node().map(|node| node.id.clone()).unwrap_or_default()
    }

    fn admits(&self, line: PeerLine, detail: &str) -> bool {
        let (peer, node) = (self.peer.address, &*self.node_id());
        let origin = LineOrigin { peer, proven: false, node, of: "lrs", detail };
        self.shared().log_limiter.admits(line, &origin, Instant::now())
    }
}

impl Drop for LoadSession {
    fn drop(&mut self) {
        while !self.reports.book().close_part(self.id) {}
        self.shared().metrics.load_streams.dec();
    }
}

/// The clusters that the client sees, once there are any.
fn clusters(
    shared: &ServerState,
    audience: AudienceName,
    caller: Caller,
) -> Option<Arc<ResourceSet>> {
    let mut watch = shared.store.watch(audience, &shared.store.asking(caller));
    let cx = Context::from_waker(Waker::noop());
    let Poll::Ready(state) = watch.poll_state(&cx, Instant::now()) else { return None };
    Some(Arc::clone(state.snapshot?.set(&TypeUrl::new(CLUSTER))))
}

/// The names of clusters, as many as a response can name.
fn names(set: Option<&ResourceSet>, shared: &ServerState) -> BTreeSet<Arc<str>> {
    let mut room = shared.config.protocol.max_response_bytes;
    let names = set.into_iter().flat_map(|set| set.iter().map(|resource| resource.name().as_str()));
    let fitting = names.take_while(|name| match room.checked_sub(name.len() + NAME_BYTES) {
        Some(rest) => {
            room = rest;
            true
        }
        None => false,
    });
    fitting.map(Arc::from).collect()
}

/// The longest time between two looks at what a client is to report.
const LONGEST_LOOK: std::time::Duration = std::time::Duration::from_secs(10);

/// The bytes that new rows leave of what the client may hold: its next report arrives in them. Otherwise the
/// stream would end of it.
const NEXT_REPORT: usize = 128 * 1024;

/// The bytes of a name in a message beside its text: its field and its length.
const NAME_BYTES: usize = 6;

/// About the bytes of a name that is held, beside its text: its counts, and its place among the names.
const HELD_NAME_BYTES: usize = 48;

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
