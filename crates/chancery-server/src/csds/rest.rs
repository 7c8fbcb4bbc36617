//! `POST /v3/discovery:client_status`: CSDS over REST.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use super::{Csds, CsdsRefused};
use crate::body::ServerBody;
use crate::http_error::http_error;
use crate::request_body::RequestBody;

impl Csds {
    /// The answer to one question in JSON, which has so much time to arrive.
    pub(crate) async fn answer_rest(
        &self,
        question: RequestBody,
        patience: Duration,
    ) -> Result<Bytes, Box<Response<Bytes>>> {
        let question = Limited::new(question, Self::MAX_QUESTION).collect();
        let late = |_| error(StatusCode::REQUEST_TIMEOUT, "the body took too long");
        let question = timeout(patience, question).await.map_err(late)?;
        let question = question.map_err(|fault| match fault.downcast::<LengthLimitError>() {
            Ok(_) => {
                let text = format!("{} bytes are allowed", Self::MAX_QUESTION);
                error(StatusCode::PAYLOAD_TOO_LARGE, &text)
            }
            Err(_) => error(StatusCode::BAD_REQUEST, "the body ends in its middle"),
        })?;
        let answered = self.answer_json(&question.to_bytes()).await;
        answered.map_err(|refused| error(status(&refused), &refused.to_string()))
    }
}

/// A response with JSON in its body.
pub(crate) fn json_response(answer: ServerBody) -> Response<ServerBody> {
    let mut response = Response::new(answer);
    let media_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, media_type);
    response
}

fn status(refused: &CsdsRefused) -> StatusCode {
    match refused {
        CsdsRefused::Malformed(_) => StatusCode::BAD_REQUEST,
        CsdsRefused::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        CsdsRefused::TooSlow(_) => StatusCode::SERVICE_UNAVAILABLE,
        CsdsRefused::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn error(status: StatusCode, text: &str) -> Box<Response<Bytes>> {
    Box::new(http_error(status, text))
}
