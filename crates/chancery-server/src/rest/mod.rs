//! Polls over REST: `POST /v3/discovery:clusters` and its like (S-018 to S-022).
//!
//! Each poll stands alone: it brings its node, and the server keeps no session. A poll that is
//! current is held until something changes, and answered 304 shortly before the client gives up.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::server::Violation;
use chancery_core::server::rest::{Answer, answer as decide};
use chancery_core::{Node, Snapshot, SotwRequest, TypeUrl};
use chancery_proto::json::{request_from_json, response_to_json};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::activity::RequestContext;
use crate::http_error::http_error;
use crate::log_limiter::{LineOrigin, PeerLine, message, name};
use crate::metrics::PollLabels;
use crate::policy::{Client, Refusal};
use crate::request_body::RequestBody;
use crate::server_state::{ServerState, StreamPermit};
use crate::store::Watch;

mod repeats;
use repeats::RepeatedPolls;

/// Answers polls.
pub(crate) struct PollService {
    shared: Arc<ServerState>,
    repeats: RepeatedPolls,
}

/// One poll.
struct RestPoll<'a> {
    service: &'a PollService,
    shared: &'a ServerState,
    context: &'a RequestContext,
    type_url: &'a TypeUrl,
}

/// A response that is an error.
type ErrorResponse = Box<Response<Bytes>>;

impl PollService {
    pub(crate) fn new(shared: &Arc<ServerState>) -> Self {
        Self { shared: Arc::clone(shared), repeats: RepeatedPolls::default() }
    }

    /// Answers one poll for `type_url`.
    pub(crate) async fn answer(
        &self,
        context: &RequestContext,
        type_url: &TypeUrl,
        request: Request<RequestBody>,
    ) -> Response<Bytes> {
        let shared = &self.shared;
        let poll = RestPoll { service: self, shared, context, type_url };
        let response = match StreamPermit::take(shared) {
            Some(_permit) => poll.answer(request).await.unwrap_or_else(|refused| *refused),
            None => http_error(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server has all the streams it takes",
            ),
        };
        shared.metrics.polls.get_or_create(&PollLabels::new(type_url, response.status())).inc();
        response
    }
}

impl RestPoll<'_> {
    async fn answer(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Bytes>, ErrorResponse> {
        let until = Instant::now() + self.hold_time(request.headers());
        let request = self.read(request).await?;
        let node = request.node.as_deref().filter(|node| !node.id.is_empty());
        let client = Client { node, peer: &self.context.peer };
        let mut watch = self.watch(&client)?;
        let mut may_wait = true;
        let mut next = self.next_snapshot(&mut watch, until).await;
        while let Some(snapshot) = next {
            let settings = self.shared.settings(&self.context.peer);
            next = match decide(&snapshot, self.type_url, &request, &settings) {
                Answer::Withheld(why) => return Err(self.withheld(&request, &why)),
                Answer::Unchanged => self.next_snapshot(&mut watch, until).await,
                Answer::Pending(then) => {
                    let newer = self.next_snapshot(&mut watch, until).await;
                    match (&newer, *then) {
                        (None, Answer::Data { version, resources }) => {
                            return self.data(node, &version, &resources);
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
                        return self.data(node, &version, &resources);
                    }
                    newer
                }
                // An answer of a newer core: the client keeps what it has.
                _ => None,
            };
        }
        Ok(not_modified())
    }

    /// Follows the audience of the client. A reassignment while the policy is asked makes its answer
    /// outdated.
    fn watch(&self, client: &Client<'_>) -> Result<Watch, ErrorResponse> {
        loop {
            let asking = self.shared.store.asking(client.node);
            let audience = self.shared.policy.audience(client).map_err(refused)?;
            let watch = self.shared.store.watch(audience, &asking);
            if !watch.is_reassigned() {
                return Ok(watch);
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

    async fn read(&self, request: Request<RequestBody>) -> Result<SotwRequest, ErrorResponse> {
        let limit = self.shared.config.limits.max_request_bytes;
        let announced = request.body().size_hint().lower();
        let body = Limited::new(request.into_body(), limit).collect();
        let patience = self.shared.config.times.handshake_timeout;
        let refused = |status, text: &str| Box::new(http_error(status, text));
        let too_large =
            || refused(StatusCode::PAYLOAD_TOO_LARGE, &format!("{limit} bytes are allowed"));
        if announced > limit as u64 {
            return Err(too_large());
        }
        let body = match tokio::time::timeout(patience, body).await {
            Ok(Ok(body)) => body,
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(too_large());
            }
            Ok(Err(_)) => {
                return Err(refused(StatusCode::BAD_REQUEST, "the body ends in its middle"));
            }
            Err(_) => return Err(refused(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
        };
        request_from_json(&body.to_bytes()).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let text = format!("{error}: {}", cause.unwrap_or_default());
            Box::new(http_error(StatusCode::BAD_REQUEST, &text))
        })
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
        let Some(times) = self.service.repeats.count(self.type_url, request, version) else {
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
        let node = request.node.as_ref().map_or("", |node| &*node.id);
        let (peer, why) = (&self.context.peer, why.to_string());
        if self.admits(PeerLine::PollRefused, node, &why) {
            let (node, why) = (name(node), message(&why));
            warn!(node = &*node, %peer, "a poll was refused: {why}");
        }
        Box::new(http_error(StatusCode::FORBIDDEN, &why))
    }

    fn data(
        &self,
        node: Option<&Node>,
        version: &str,
        resources: &[Arc<chancery_core::Resource>],
    ) -> Result<Response<Bytes>, ErrorResponse> {
        let ServerState { schema, config, metrics, .. } = self.shared;
        let json =
            response_to_json(schema, self.type_url, version, &config.control_plane, resources)
                .map_err(|error| {
                    let reason = error.to_string();
                    if self.admits(PeerLine::Unanswerable, "", &reason) {
                        warn!(r#type = self.type_url.short(), "no answer over REST: {reason}");
                    }
                    Box::new(http_error(StatusCode::INTERNAL_SERVER_ERROR, &reason))
                })?;
        let node = name(node.map_or("", |node| &node.id));
        let (node, of, bytes) = (&*node, self.type_url.short(), json.len());
        debug!(node, r#type = of, version, resources = resources.len(), bytes, "answered a poll");
        metrics.count_poll(self.type_url, bytes);
        let mut response = Response::new(Bytes::from(json));
        let media_type = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        Ok(response)
    }
}

/// Nothing new: neither a success nor a failure for the client (S-020).
fn not_modified() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

fn refused(refusal: Refusal) -> ErrorResponse {
    let status = match refusal {
        Refusal::Unidentified(_) => StatusCode::BAD_REQUEST,
        Refusal::Denied(_) => StatusCode::FORBIDDEN,
        Refusal::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    Box::new(http_error(status, &refusal.to_string()))
}
