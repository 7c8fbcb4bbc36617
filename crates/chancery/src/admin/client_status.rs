//! `POST /v3/discovery:client_status` on the admin interface: CSDS over REST, for those who may read the API.
//!
//! They are let in by `access`. gRPC is not here, because the interface speaks HTTP/1.1. Not here either: the
//! answer itself (`chancery_server::Csds`).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chancery_server::{Csds, CsdsRefused};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{body, text};

/// The status of clients.
pub(crate) struct ClientStatusPage {
    csds: OnceLock<Csds>,
    /// Places for answers until they are read: each is as large as an answer may be.
    places: Arc<Semaphore>,
}

/// An answer with its place.
struct PlacedAnswer {
    text: Bytes,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for PlacedAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Default for ClientStatusPage {
    fn default() -> Self {
        Self { csds: OnceLock::new(), places: Arc::new(Semaphore::new(MOST_ANSWERS)) }
    }
}

impl ClientStatusPage {
    /// Tells of the clients of this server from now on.
    pub(crate) fn tell_of(&self, csds: Csds) {
        self.csds.set(csds).ok();
    }

    /// The answer to one request of a peer that may read.
    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
    {
        match self.answered(request).await {
            Ok(answer) => body(StatusCode::OK, "application/json", answer),
            Err((status, why)) => text(status, format!("{why}\n")),
        }
    }

    async fn answered<B>(&self, request: Request<B>) -> Result<Bytes, (StatusCode, String)>
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
    {
        let refuse = |status: StatusCode, why: &str| (status, why.to_owned());
        if request.method() != Method::POST {
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "only POST"));
        }
        let early = || refuse(StatusCode::SERVICE_UNAVAILABLE, "the first load is not complete");
        let csds = self.csds.get().ok_or_else(early)?;
        let question = Limited::new(request.into_body(), Csds::MAX_QUESTION).collect();
        let question = timeout(QUESTION_TIME, question)
            .await
            .map_err(|_| refuse(StatusCode::REQUEST_TIMEOUT, "the body took too long"))?;
        let question = question.map_err(|fault| match fault.downcast::<LengthLimitError>() {
            Ok(_) => {
                let why = format!("{} bytes are allowed", Csds::MAX_QUESTION);
                (StatusCode::PAYLOAD_TOO_LARGE, why)
            }
            Err(_) => refuse(StatusCode::BAD_REQUEST, "the body ends in its middle"),
        })?;
        let place = timeout(PLACE_TIME, Arc::clone(&self.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            return Err(refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "others have not read their answers",
            ));
        };
        let answer = csds.answer_json(&question.to_bytes()).await;
        let text = answer.map_err(|refused| (status(&refused), refused.to_string()))?;
        Ok(Bytes::from_owner(PlacedAnswer { text, _place: place }))
    }
}

fn status(refused: &CsdsRefused) -> StatusCode {
    match refused {
        CsdsRefused::Malformed(_) => StatusCode::BAD_REQUEST,
        CsdsRefused::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        CsdsRefused::TooSlow(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The path.
pub(super) const CLIENT_STATUS: &str = "/v3/discovery:client_status";

/// The most answers that are made or wait for their readers.
const MOST_ANSWERS: usize = 4;

/// The time that one who asks waits for a place.
const PLACE_TIME: Duration = Duration::from_secs(10);

/// The time for a question to arrive.
const QUESTION_TIME: Duration = Duration::from_secs(10);
