//! Polls over REST: `POST /v3/discovery:clusters` and its like (S-018 to S-022).
//!
//! Each poll stands alone: it brings its node, and the server keeps no session. A poll that is
//! current is held until something changes, and answered 304 shortly before the client gives up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::server::rest::{Answer, answer as decide};
use chancery_core::server::{Entries, Violation};
use chancery_core::{Node, Snapshot, SotwRequest, TypeUrl};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::activity::{ActiveRequest, RequestContext};
use crate::body::ServerBody;
use crate::budget::ValuesPermit;
use crate::budget::{MemoryCharge, MemoryShortage};
use crate::http_error::http_error;
use crate::log_limiter::{LineOrigin, PeerLine, message, name};
use crate::metrics::{PollLabels, SECRET};
use crate::policy::{Client, Refusal};
use crate::request_body::RequestBody;
use crate::server_state::{ServerState, StreamPermit, permit_values};
use crate::slice::WorkSize;
use crate::status::DecidedPoll;
use crate::store::{Caller, Watch};
use crate::turns::Line;

mod body;
mod repeats;
mod request;
pub(crate) use body::PollBody;
use repeats::RepeatedPolls;
use request::ReadPoll;

/// The number of bytes that a poll holds beside its body.
const POLL_BYTES: usize = 4 * 1024;

/// Answers polls.
pub(crate) struct PollService {
    shared: Arc<ServerState>,
    repeats: RepeatedPolls,
}

/// One poll.
struct RestPoll<'a> {
    service: &'a PollService,
    shared: &'a Arc<ServerState>,
    context: &'a RequestContext,
    type_url: &'a TypeUrl,
}

/// An answer without data: an error, or that nothing is new.
type ErrorResponse = Box<Response<Bytes>>;

impl PollService {
    pub(crate) fn new(shared: &Arc<ServerState>) -> Self {
        Self { shared: Arc::clone(shared), repeats: RepeatedPolls::default() }
    }

    /// Answers one poll for `type_url`.
    pub(crate) async fn answer(
        &self,
        context: &RequestContext,
        active: ActiveRequest,
        type_url: &TypeUrl,
        request: Request<RequestBody>,
    ) -> Response<ServerBody> {
        let shared = &self.shared;
        let poll = RestPoll { service: self, shared, context, type_url };
        let response = match StreamPermit::take(shared, &context.share) {
            Some(permit) => match poll.answer(request).await {
                Ok(body) => response_of(body.counted(permit, active)),
                Err(other) => other.map(ServerBody::full),
            },
            None => {
                let text = "the server takes no more polls, or no more of this client";
                http_error(StatusCode::SERVICE_UNAVAILABLE, text).map(ServerBody::full)
            }
        };
        shared.metrics.polls.get_or_create(&PollLabels::new(type_url, response.status())).inc();
        response
    }
}

impl RestPoll<'_> {
    /// The answer with data; an error is any other answer.
    async fn answer(&self, request: Request<RequestBody>) -> Result<PollBody, ErrorResponse> {
        let began = Instant::now();
        let until = began + self.hold_time(request.headers());
        let charge = self.shared.charge(&self.context.share, POLL_BYTES).map_err(out_of_memory)?;
        let ReadPoll { request, long, charge } = self.read(request, charge).await?;
        let request = Arc::new(request);
        let known = request.node.as_ref().filter(|node| !node.id.is_empty());
        let node = known.map(|node| &**node);
        let client = Client { node, peer: &self.context.peer };
        let book = self.shared.book();
        let reassignments = book.reassignments();
        let (mut watch, _values) = self.watch(&client, known)?;
        let audience = watch.audience().clone();
        let mut may_wait = true;
        let mut load = book.load();
        let decided = |load, given: Option<&str>| {
            let (Some(node), stated) = (known, &*request.version) else { return };
            let (peer, type_url) = (&self.context.peer, self.type_url);
            let (audience, names) = (&audience, &request.names);
            book.polled(&DecidedPoll {
                began,
                node,
                peer,
                type_url,
                names,
                audience,
                reassignments,
                load,
                stated,
                given,
            });
        };
        let mut next = self.next_snapshot(&mut watch, until).await;
        while let Some(snapshot) = next {
            next = match self.decide(&snapshot, &request, long).await {
                Answer::Withheld(why) => return Err(self.withheld(&request, &why)),
                Answer::Unchanged => {
                    decided(load, None);
                    load = book.load();
                    self.next_snapshot(&mut watch, until).await
                }
                Answer::Pending(then) => {
                    let newer = self.next_snapshot(&mut watch, until).await;
                    match (&newer, *then) {
                        (None, Answer::Data { version, resources }) => {
                            decided(load, Some(&version));
                            return self.data(node, &version, resources, charge).await;
                        }
                        (_, Answer::Withheld(why)) => return Err(self.withheld(&request, &why)),
                        _ => newer,
                    }
                }
                Answer::Data { version, resources } => {
                    let wait = std::mem::take(&mut may_wait) && self.repeats(&request, &version);
                    let newer =
                        if wait { self.next_snapshot(&mut watch, until).await } else { None };
                    if newer.is_none() {
                        decided(load, Some(&version));
                        return self.data(node, &version, resources, charge).await;
                    }
                    newer
                }
                // An answer of a newer core: the client keeps what it has.
                _ => None,
            };
        }
        Err(Box::new(not_modified()))
    }

    /// The answer to the request as of a snapshot.
    async fn decide(
        &self,
        snapshot: &Arc<Snapshot>,
        request: &Arc<SotwRequest>,
        long: Option<WorkSize>,
    ) -> Answer {
        let settings = self.shared.settings(&self.context.peer);
        let Some(size) = long else {
            return decide(snapshot, self.type_url, request, &settings);
        };
        let (snapshot, request) = (Arc::clone(snapshot), Arc::clone(request));
        let type_url = self.type_url.clone();
        let decide = move || decide(&snapshot, &type_url, &request, &settings);
        self.beside_workers((Line::Front, size), decide).await.unwrap_or(Answer::Unchanged)
    }

    /// Does a long piece of work on another thread.
    async fn beside_workers<T, F>(&self, piece: (Line, WorkSize), work: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.shared.work_threads.beside_workers(&self.context.share, piece, work).await
    }

    /// Follows the audience of the client. A reassignment while the policy is asked makes its answer
    /// outdated.
    fn watch(
        &self,
        client: &Client<'_>,
        node: Option<&Arc<Node>>,
    ) -> Result<(Watch, Option<ValuesPermit>), ErrorResponse> {
        let peer = Arc::clone(&self.context.peer);
        let caller = Caller { node: node.cloned(), peer, since: Instant::now(), is_poll: true };
        loop {
            let asking = self.shared.store.asking(caller.clone());
            let audience =
                self.shared.policy.audience(client).map_err(|it| self.refused(node, it))?;
            let values = permit_values(&self.context.share, &audience);
            let values = values.map_err(|it| self.refused(node, it))?;
            let watch = self.shared.store.watch(audience, &asking);
            if !watch.is_reassigned() {
                return Ok((watch, values));
            }
        }
    }

    /// The time for which the client may be held: less than that after which it gives up (S-021).
    fn hold_time(&self, headers: &HeaderMap) -> Duration {
        let timeout = headers.get("x-envoy-expected-rq-timeout-ms").and_then(|it| it.to_str().ok());
        let patience = timeout.and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let most = self.shared.config.times.rest_hold;
        patience.map_or(most, |patience| most.min(patience.mul_f64(0.8)))
    }

    /// The next snapshot; `None` if none comes in time. Polls are answered early when the connection
    /// drains, and when audiences were reassigned: the client may belong to another one now.
    async fn next_snapshot(&self, watch: &mut Watch, until: Instant) -> Option<Arc<Snapshot>> {
        loop {
            let state = tokio::select! {
                biased;
                state = watch.state() => state,
                () = self.context.activity.drained() => return None,
                () = tokio::time::sleep_until(until) => return None,
            };
            if state.reassigned {
                return None;
            }
            if state.snapshot.is_some() {
                return state.snapshot;
            }
        }
    }

    /// Over REST a rejected configuration shows only as an old version on the next poll. A client
    /// that asks again and again for what it was sent must not loop at full speed (S-022).
    fn repeats(&self, request: &SotwRequest, version: &str) -> bool {
        let client = (self.context.share.key(), &*self.context.peer);
        let repeats = &self.service.repeats;
        let Some(times) = repeats.count(client, self.type_url, request, version) else {
            return false;
        };
        let node = request.node.as_ref().map_or("", |node| &*node.id);
        if self.admits(PeerLine::NotAccepted, node, version) {
            let (node, still) = (name(node), name(&request.version));
            let (node, still, of) = (&*node, &*still, self.type_url.short());
            warn!(node, r#type = of, served = version, still, times, "served, but not accepted");
        }
        true
    }

    /// Returns true if a line about this poll is to be logged.
    fn admits(&self, line: PeerLine, node: &str, detail: &str) -> bool {
        let (peer, of) = (self.context.peer.address, self.type_url.short());
        let origin = LineOrigin { peer, proven: false, node, of, detail };
        self.shared.log_limiter.admits(line, &origin, Instant::now())
    }

    /// The refusal of a stranger that asks for a secret (S-137).
    fn withheld(&self, request: &SotwRequest, why: &Violation) -> ErrorResponse {
        let why = why.to_string();
        self.tell_of_refusal(request.node.as_ref(), SECRET, &why);
        Box::new(http_error(StatusCode::FORBIDDEN, &why))
    }

    /// The refusal of a client by the policy.
    fn refused(&self, node: Option<&Arc<Node>>, refusal: Refusal) -> ErrorResponse {
        self.tell_of_refusal(node, refusal.name(), &refusal.to_string());
        refused(refusal)
    }

    /// Logs and counts that a poll is refused because of its client.
    fn tell_of_refusal(&self, node: Option<&Arc<Node>>, reason: &'static str, why: &str) {
        self.shared.metrics.client_refused(reason);
        let node = node.map_or("", |node| &*node.id);
        let peer = &self.context.peer;
        if self.admits(PeerLine::PollRefused, node, why) {
            let (node, why) = (name(node), message(why));
            warn!(node = &*node, %peer, "a poll was refused: {why}");
        }
    }

    async fn data(
        &self,
        node: Option<&Node>,
        version: &str,
        resources: Entries,
        charge: MemoryCharge,
    ) -> Result<PollBody, ErrorResponse> {
        // The request is kept until the answer is there.
        let held = charge.add(PollBody::bytes_of(&resources));
        self.shared.metrics.counted(held).map_err(out_of_memory)?;
        let body = PollBody::new(self.shared, self.type_url, version, resources, charge).await;
        let body = body.map_err(|error| {
            let reason = error.to_string();
            if self.admits(PeerLine::Unanswerable, "", &reason) {
                warn!(r#type = self.type_url.short(), "no answer over REST: {reason}");
            }
            Box::new(http_error(StatusCode::INTERNAL_SERVER_ERROR, &reason))
        })?;
        let node = name(node.map_or("", |node| &node.id));
        let (node, of, bytes) = (&*node, self.type_url.short(), body.left());
        let resources = body.resources();
        debug!(node, r#type = of, version, resources, bytes, "answered a poll");
        self.shared.metrics.count_poll(self.type_url, usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(body)
    }
}

fn response_of(body: PollBody) -> Response<ServerBody> {
    let mut response = Response::new(ServerBody::poll(body));
    let media_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

/// Nothing new: neither a success nor a failure for the client (S-020).
fn not_modified() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

fn out_of_memory(shortage: MemoryShortage) -> ErrorResponse {
    Box::new(http_error(StatusCode::SERVICE_UNAVAILABLE, &shortage.to_string()))
}

fn refused(refusal: Refusal) -> ErrorResponse {
    let status = match refusal {
        Refusal::Unidentified(_) | Refusal::Unstated(_) => StatusCode::BAD_REQUEST,
        Refusal::Denied(_) => StatusCode::FORBIDDEN,
        Refusal::Unavailable(_) | Refusal::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Box::new(http_error(status, &refusal.to_string()))
}
