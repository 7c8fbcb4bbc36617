//! Calls that the client makes: their beginning and their end, which are the same for discovery and
//! for load reports.
//!
//! Every call ends with an error that says how it ended. Not here: the connection (`connection`),
//! the messages (`messages`), and the streams on top of calls (`grpc`).

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_core::ErrorDetail;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::{HeaderMap, HeaderValue, Method, Uri};
use tokio::time::timeout;

use super::connection::{self, Http2Connection};
use super::messages::{Incoming, MessageReader, MessageWriter};
use super::status;
use crate::bootstrap::{Address, XdsServer};
use crate::credentials::{Alpn, Credentials};
use crate::errors::{error_chain, internal, unavailable};
use crate::options::Options;

/// Makes calls of one server.
pub(crate) struct Caller {
    address: Result<Address, String>,
    credentials: Credentials,
    /// The name of the server in requests.
    authority: Arc<str>,
    options: Options,
}

/// Reads the responses of the server on one call.
pub(crate) struct ResponseReader {
    state: CallState,
    limit: usize,
}

enum CallState {
    /// The server has not answered yet.
    Called(ResponseFuture),
    /// The server has answered.
    Answered(MessageReader),
}

impl Caller {
    pub(crate) fn new(xds: &XdsServer, options: Options) -> Self {
        let address = Address::parse(&xds.uri).map_err(|error| error.to_string());
        let authority = address.as_ref().map_or_else(|_| "localhost".into(), authority);
        Self { address, credentials: xds.credentials(Alpn::Http2), authority, options }
    }

    /// Makes a connection; the future has to run for it to live.
    pub(crate) async fn connect(
        &self,
    ) -> Result<(Http2Connection, impl Future<Output = ()> + use<>), String> {
        let address = self.address.as_ref().map_err(Clone::clone)?;
        connection::connect(address, &self.credentials, &self.options).await
    }

    /// Begins a call, in the time that a connection may take. The first message can be sent before
    /// the server has answered, but the server must allow for one more stream.
    pub(crate) async fn open(
        &self,
        sender: SendRequest<Bytes>,
        path: &str,
    ) -> Result<(ResponseReader, MessageWriter), ErrorDetail> {
        let limit = self.options.connect_timeout;
        let allowed = sender.current_max_send_streams();
        match timeout(limit, self.begin_call(sender, path)).await {
            Ok(begun) => begun,
            Err(_) => Err(unavailable(format!(
                "no stream within {limit:?}; the server allows for {allowed} at once"
            ))),
        }
    }

    /// Returns the time for which a server may leave no room for a request. It is less than a
    /// server usually has for a response: it cannot answer what it has not read.
    pub(crate) fn patience(&self) -> Duration {
        self.options.connect_timeout / 2
    }

    async fn begin_call(
        &self,
        sender: SendRequest<Bytes>,
        path: &str,
    ) -> Result<(ResponseReader, MessageWriter), ErrorDetail> {
        let metadata = self.credentials.metadata(SystemTime::now()).await;
        let metadata = metadata.map_err(|error| unavailable(error_chain(&error)))?;
        let request = self.head(path, metadata)?;
        let mut sender = sender.ready().await.map_err(|error| unavailable(error_chain(&error)))?;
        let called = sender.send_request(request, false);
        let (response, out) = called.map_err(|error| unavailable(error_chain(&error)))?;
        // A stream above the limit of the server waits until another one ends.
        let opened = poll_fn(|cx| sender.poll_ready(cx)).await;
        opened.map_err(|error| unavailable(error_chain(&error)))?;
        let limit = self.options.max_response_bytes;
        let responses = ResponseReader { state: CallState::Called(response), limit };
        Ok((responses, MessageWriter::new(out)))
    }

    fn head(&self, path: &str, metadata: HeaderMap) -> Result<http::Request<()>, ErrorDetail> {
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
}

impl ResponseReader {
    /// Reads the next message. Every call ends with an error, which says how it ended. Dropping the
    /// future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Bytes, ErrorDetail> {
        loop {
            let messages = match &mut self.state {
                CallState::Called(response) => {
                    let body = answered(response).await?;
                    self.state = CallState::Answered(MessageReader::new(body, self.limit));
                    continue;
                }
                CallState::Answered(messages) => messages,
            };
            return match messages.next().await {
                Ok(Incoming::Message(message)) => Ok(message),
                Ok(Incoming::End) => Err(final_status(messages).await),
                Ok(Incoming::CutShort) => Err(internal("a response ends in its middle".to_owned())),
                Ok(Incoming::Malformed(error)) => Err(internal(error.to_string())),
                Err(error) => Err(unavailable(error_chain(&error))),
            };
        }
    }
}

/// Waits for the answer, and returns its body if it has one.
async fn answered(response: &mut ResponseFuture) -> Result<RecvStream, ErrorDetail> {
    let response = response.await.map_err(|error| unavailable(error_chain(&error)))?;
    if let Some(error) = status::of(response.headers()) {
        return Err(status::spelled_out(error));
    }
    match status::of_http(response.status()) {
        Some(error) => Err(error),
        None => Ok(response.into_body()),
    }
}

/// Returns the status of a call whose last message was read.
async fn final_status(messages: &mut MessageReader) -> ErrorDetail {
    match messages.trailers().await {
        Ok(Some(trailers)) => status::of(&trailers).map_or_else(
            || internal("the stream ended without a status".to_owned()),
            status::spelled_out,
        ),
        Ok(None) => internal("the stream ended without a status".to_owned()),
        Err(error) => unavailable(error_chain(&error)),
    }
}

/// Returns the name of the server in requests. A socket in the file system has none of its own.
fn authority(address: &Address) -> Arc<str> {
    match address {
        Address::Tcp { .. } => address.to_string().into(),
        Address::Unix(_) => address.host().into(),
    }
}

const AGENT: &str = concat!("chancery/", env!("CARGO_PKG_VERSION"));
