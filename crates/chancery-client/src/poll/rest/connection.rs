//! One HTTP/1.1 connection to a REST server.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::dial::Io;
use crate::errors::error_chain;
use crate::options::Options;

/// A connection on which polls are sent one after the other. It is closed when it is dropped.
pub(super) struct Http1Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: JoinSet<()>,
}

/// The reason why there is no answer.
pub(super) enum PollFailure {
    /// The connection is closed. If it was kept for long, that means nothing for the server.
    Gone(String),
    /// The server sent no answer in time, or a bad one.
    Answer(String),
}

impl PollFailure {
    fn of(error: &hyper::Error) -> Self {
        let text = error_chain(error);
        if error.is_parse() { Self::Answer(text) } else { Self::Gone(text) }
    }

    pub(super) fn into_text(self) -> String {
        match self {
            Self::Gone(why) | Self::Answer(why) => why,
        }
    }
}

impl Http1Connection {
    pub(super) async fn new(io: Box<dyn Io>) -> Result<Self, String> {
        let (sender, connection) = http1::Builder::new()
            .max_headers(HEADERS)
            .max_buf_size(HEADER_BYTES)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|error| format!("HTTP: {}", error_chain(&error)))?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // The next poll gets the error.
            let _ = connection.await;
        });
        Ok(Self { sender, _driver: driver })
    }

    /// Sends a request and reads the whole response, within the time for that.
    pub(super) async fn ask(
        &mut self,
        request: Request<Full<Bytes>>,
        options: &Options,
    ) -> Result<(StatusCode, Bytes), PollFailure> {
        let limit = options.rest_timeout;
        match timeout(limit, self.converse(request, options.max_response_bytes)).await {
            Ok(answer) => answer,
            Err(_) => Err(PollFailure::Answer(format!("no answer within {limit:?}"))),
        }
    }

    async fn converse(
        &mut self,
        request: Request<Full<Bytes>>,
        limit: usize,
    ) -> Result<(StatusCode, Bytes), PollFailure> {
        self.sender.ready().await.map_err(|error| PollFailure::of(&error))?;
        let response = self.sender.send_request(request).await;
        let response = response.map_err(|error| PollFailure::of(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, limit).collect().await.map_err(|error| {
            PollFailure::Answer(if error.is::<LengthLimitError>() {
                format!("an answer of more than {limit} bytes")
            } else {
                format!("the answer ends in its middle: {error}")
            })
        })?;
        Ok((head.status, body.to_bytes()))
    }
}

const HEADERS: usize = 100;
const HEADER_BYTES: usize = 64 * 1024;
