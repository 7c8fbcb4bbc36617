//! One stream: requests when there is room for them, responses when they may be read.
//!
//! The first request does not wait for the server's headers (C-030). A response is read when the
//! watchers have applied the one before (C-038), while requests go out all the time.

use std::time::SystemTime;

use bytes::Bytes;
use chancery_core::ErrorDetail;
use chancery_core::client::Reply;
use chancery_proto::frames::{Messages, framed};
use chancery_proto::wire::encode_request;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Uri};

use super::Line;
use super::status;
use crate::dial::{told, unavailable};

/// Serves one stream to its end, and tells the machine how that was.
pub(super) async fn run(line: Line, sender: SendRequest<Bytes>) {
    let error = tokio::select! {
        error = line.converse(sender) => error,
        () = line.engine.closed(&line.ticket) => return,
    };
    line.engine.ended(&line.ticket, error);
}

impl Line {
    async fn converse(&self, sender: SendRequest<Bytes>) -> ErrorDetail {
        let (response, out) = match self.open(sender).await {
            Ok(opened) => opened,
            Err(error) => return error,
        };
        if !self.engine.opened(&self.ticket) {
            return ErrorDetail::default();
        }
        // Whatever stops the writing is seen by the reading, which knows more of it and goes on.
        let write = async {
            self.write(out).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            error = self.read(response) => error,
            () = write => ErrorDetail::default(),
        }
    }

    async fn open(
        &self,
        sender: SendRequest<Bytes>,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), ErrorDetail> {
        let metadata = self.credentials.metadata(SystemTime::now()).await;
        let metadata = metadata.map_err(|error| unavailable(told(&error)))?;
        let request = self.head(metadata)?;
        let mut sender = sender.ready().await.map_err(|error| unavailable(told(&error)))?;
        sender.send_request(request, false).map_err(|error| unavailable(told(&error)))
    }

    fn head(&self, metadata: HeaderMap) -> Result<http::Request<()>, ErrorDetail> {
        let type_url = self.ticket.stream.type_url.as_ref();
        let path = self.paths.method(type_url, self.server.protocol.variant);
        let path =
            path.ok_or_else(|| unavailable("the type has no service of its own".to_owned()))?;
        let uri = Uri::builder().scheme("http").authority(&*self.authority).path_and_query(path);
        let uri = uri.build().map_err(|error| unavailable(error.to_string()))?;
        let mut request = http::Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.version_mut() = http::Version::HTTP_2;
        let headers = request.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("application/grpc"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        headers.insert("user-agent", HeaderValue::from_static(AGENT));
        headers.extend(metadata);
        Ok(request)
    }

    async fn write(&self, mut out: SendStream<Bytes>) {
        loop {
            out.reserve_capacity(1);
            let room = std::future::poll_fn(|cx| out.poll_capacity(cx)).await;
            let Some(Ok(_)) = room else { return };
            let request =
                std::future::poll_fn(|cx| self.engine.poll_request(&self.ticket, cx)).await;
            let Some(request) = request else {
                // Nobody is left to be told that this cannot be said either.
                out.send_data(Bytes::new(), true).ok();
                return;
            };
            if out.send_data(framed(&encode_request(&request)), false).is_err() {
                return;
            }
        }
    }

    /// Reads until the stream ends, which it does with an error of some sort.
    async fn read(&self, response: ResponseFuture) -> ErrorDetail {
        let response = match response.await {
            Ok(response) => response,
            Err(error) => return unavailable(told(&error)),
        };
        if let Some(error) = status::of(response.headers()) {
            return status::told(error);
        }
        if let Some(error) = status::of_http(response.status()) {
            return error;
        }
        let mut body = response.into_body();
        match self.read_messages(&mut body).await {
            Ok(()) => end(&mut body).await,
            Err(error) => error,
        }
    }

    async fn read_messages(&self, body: &mut RecvStream) -> Result<(), ErrorDetail> {
        let mut messages = Messages::new(self.limit);
        loop {
            while let Some(message) =
                messages.next().map_err(|error| internal(error.to_string()))?
            {
                let may = std::future::poll_fn(|cx| self.engine.poll_read(&self.ticket, cx)).await;
                if !may || !self.engine.received(&self.ticket, self.decoded(&message)?) {
                    return Err(ErrorDetail::default());
                }
            }
            let Some(chunk) = body.data().await else { break };
            let chunk = chunk.map_err(|error| unavailable(told(&error)))?;
            let _ = body.flow_control().release_capacity(chunk.len());
            messages.push(chunk);
        }
        if messages.is_between() {
            Ok(())
        } else {
            Err(internal("a response ends in its middle".to_owned()))
        }
    }

    fn decoded(&self, message: &Bytes) -> Result<Reply, ErrorDetail> {
        let expected = self.ticket.stream.type_url.as_ref();
        let variant = self.server.protocol.variant;
        let reply = self.reader.read(variant, expected, message);
        reply.map_err(|error| internal(told(&error)))
    }
}

/// How the stream ended, as its trailers say.
async fn end(body: &mut RecvStream) -> ErrorDetail {
    match body.trailers().await {
        Ok(Some(trailers)) => status::of(&trailers)
            .map_or_else(|| internal("the stream ended without a status".to_owned()), status::told),
        Ok(None) => internal("the stream ended without a status".to_owned()),
        Err(error) => unavailable(told(&error)),
    }
}

fn internal(message: String) -> ErrorDetail {
    ErrorDetail { code: ErrorDetail::INTERNAL, message }
}

const AGENT: &str = concat!("chancery/", env!("CARGO_PKG_VERSION"));
