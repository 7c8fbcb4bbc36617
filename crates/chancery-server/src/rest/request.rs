//! Reading the request of a poll: its bytes, and the request that they are.
//!
//! All that is held of it is charged to its client from the first byte on, also while it is read on
//! another thread, and also if nobody waits for it any more. Not here: the decision (`super`), and the
//! limits themselves (`chancery_core::server`).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use chancery_core::SotwRequest;
use chancery_core::server::{RequestLimits, Settings, Violation, check_node};
use chancery_proto::gathered::Gathered;
use chancery_proto::json::{JsonError, request_from_json_within};
use http::{Request, StatusCode};
use http_body::{Body, Frame};

use super::{ErrorResponse, POLL_BYTES, RestPoll, out_of_memory};
use crate::budget::{MemoryCharge, MemoryShortage};
use crate::http_error::http_error;
use crate::request_body::{RequestBody, RequestBodyError};
use crate::slice::{LONG_JSON, WorkSize};
use crate::turns::Line;

/// A request that was read.
pub(super) struct ReadPoll {
    pub(super) request: SotwRequest,
    /// The size of the work on the request, if it is long.
    pub(super) long: Option<WorkSize>,
    /// The charge for the request.
    pub(super) charge: MemoryCharge,
}

/// The reason why the bytes of a poll are not taken as a request.
#[derive(Debug, thiserror::Error)]
enum RefusedRequest {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Node(#[from] Violation),
    #[error(transparent)]
    Memory(#[from] MemoryShortage),
}

impl RestPoll<'_> {
    /// Reads the request.
    pub(super) async fn read(
        &self,
        request: Request<RequestBody>,
        charge: MemoryCharge,
    ) -> Result<ReadPoll, ErrorResponse> {
        let patience = self.shared.config.times.handshake_timeout;
        let body = self.read_body(request.into_body(), &charge);
        let body = tokio::time::timeout(patience, body).await.unwrap_or_else(|_| {
            Err(Box::new(http_error(StatusCode::REQUEST_TIMEOUT, "the body took too long")))
        })?;
        let settings = self.shared.settings(&self.context.peer);
        let long = (body.len() >= LONG_JSON).then(|| WorkSize::of_bytes(body.len()));
        let read = move || Ok((request_of(&body, &settings, &charge)?, charge));
        let read = match long {
            Some(size) => self.beside_workers((Line::End, size), read).await,
            None => Some(read()),
        };
        let ends = || Box::new(http_error(StatusCode::SERVICE_UNAVAILABLE, "the server ends"));
        let (request, charge) =
            read.ok_or_else(ends)?.map_err(|refused| self.answer_to(&refused))?;
        Ok(ReadPoll { request, long, charge })
    }

    /// The answer to a request that is not taken.
    fn answer_to(&self, refused: &RefusedRequest) -> ErrorResponse {
        let text = refused.to_string();
        let (status, text) = match refused {
            RefusedRequest::Memory(shortage) => {
                self.shared.metrics.out_of_memory(*shortage);
                return out_of_memory(*shortage);
            }
            RefusedRequest::Json(JsonError::TooLarge(_)) => (StatusCode::PAYLOAD_TOO_LARGE, text),
            RefusedRequest::Node(node) if node.is_limit() => (StatusCode::PAYLOAD_TOO_LARGE, text),
            RefusedRequest::Node(_) => (StatusCode::BAD_REQUEST, text),
            RefusedRequest::Json(error) => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                (StatusCode::BAD_REQUEST, format!("{text}: {}", cause.unwrap_or_default()))
            }
        };
        Box::new(http_error(status, &text))
    }

    /// The next part of a request, unless others need the memory that its beginning takes.
    async fn next_frame(
        &self,
        body: &mut RequestBody,
        charge: &MemoryCharge,
    ) -> Result<Option<Result<Frame<Bytes>, RequestBodyError>>, ErrorResponse> {
        let next = poll_fn(|cx| match charge.is_asked_back(cx.waker()) {
            true => Poll::Ready(None),
            false => Pin::new(&mut *body).poll_frame(cx).map(Some),
        });
        next.await.ok_or_else(|| {
            self.shared.metrics.asked_back();
            Box::new(http_error(StatusCode::SERVICE_UNAVAILABLE, "other clients need the memory"))
        })
    }

    /// Gathers the bytes of a request, each of which counts while it waits for the others.
    async fn read_body(
        &self,
        mut body: RequestBody,
        charge: &MemoryCharge,
    ) -> Result<Bytes, ErrorResponse> {
        let limit = self.shared.config.limits.max_request_bytes;
        let too_large = || {
            let text = format!("{limit} bytes are allowed");
            Box::new(http_error(StatusCode::PAYLOAD_TOO_LARGE, &text))
        };
        if body.size_hint().lower() > limit as u64 {
            return Err(too_large());
        }
        let mut all = Gathered::default();
        while let Some(frame) = self.next_frame(&mut body, charge).await? {
            let frame = frame.map_err(|_| {
                Box::new(http_error(StatusCode::BAD_REQUEST, "the body ends in its middle"))
            })?;
            let Ok(part) = frame.into_data() else { continue };
            if all.len() + part.len() > limit {
                return Err(too_large());
            }
            all.push(&part);
            let held = charge.set(POLL_BYTES + all.held_bytes());
            self.shared.metrics.counted(held).map_err(out_of_memory)?;
        }
        charge.looks_no_more();
        Ok(all.take())
    }
}

/// Reads a request, and charges for what becomes of it: before it is read for the most that a node
/// of its size should take, and then for what its node takes.
fn request_of(
    body: &[u8],
    settings: &Settings,
    charge: &MemoryCharge,
) -> Result<SotwRequest, RefusedRequest> {
    let limits = settings.request_limits();
    let max_node_bytes = limits.max_node_bytes.min(body.len());
    charge.add(RequestLimits { max_node_bytes, ..limits }.max_node_memory())?;
    let request = request_from_json_within(body, &limits)?;
    let node = match &request.node {
        Some(node) => check_node(node, settings)?,
        None => 0,
    };
    charge.set(POLL_BYTES + body.len() + node)?;
    Ok(request)
}
