//! A call of gRPC on which both sides speak: how it begins, what is heard on it, and how it ends.
//!
//! It is the same for discovery and for load reports. Not here: what is said on it, and when.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chancery_core::ErrorDetail;
use chancery_proto::frames::Messages;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Uri};
use tokio::time::timeout;

use super::connection::{self, Http2Connection};
use super::status;
use crate::bootstrap::{Address, XdsServer};
use crate::credentials::{Alpn, Credentials};
use crate::errors::{error_chain, internal, unavailable};
use crate::options::Options;

/// One server, as calls need it.
pub(crate) struct Caller {
    address: Result<Address, String>,
    credentials: Credentials,
    /// What the server is called in requests.
    authority: Arc<str>,
    options: Options,
}

/// What the server says on a call.
pub(crate) struct Inbox {
    state: CallState,
    messages: Messages,
}

enum CallState {
    Called(ResponseFuture),
    Answered(RecvStream),
}

impl Caller {
    pub(crate) fn new(xds: &XdsServer, options: Options) -> Self {
        let address = Address::parse(&xds.uri).map_err(|error| error.to_string());
        let authority = address.as_ref().map_or_else(|_| "localhost".into(), authority);
        Self { address, credentials: xds.credentials(Alpn::Http2), authority, options }
    }

    /// A connection, and what has to run for it to live.
    pub(crate) async fn connect(
        &self,
    ) -> Result<(Http2Connection, impl Future<Output = ()> + use<>), String> {
        let address = self.address.as_ref().map_err(Clone::clone)?;
        connection::connect(address, &self.credentials, &self.options).await
    }

    /// Begins a call, in the time that a connection may take. The server need not have said anything
    /// for the first message to go out, but it must allow for one more stream.
    pub(crate) async fn open(
        &self,
        sender: SendRequest<Bytes>,
        path: &str,
    ) -> Result<(Inbox, SendStream<Bytes>), ErrorDetail> {
        let limit = self.options.connect_timeout;
        let allowed = sender.current_max_send_streams();
        match timeout(limit, self.begin(sender, path)).await {
            Ok(begun) => begun,
            Err(_) => Err(unavailable(format!(
                "no stream within {limit:?}; the server allows for {allowed} at once"
            ))),
        }
    }

    /// The time that a server may leave no room for a request. It is less than a server has
    /// for an answer as a rule: what it has not read, it cannot answer.
    pub(crate) fn patience(&self) -> Duration {
        self.options.connect_timeout / 2
    }

    async fn begin(
        &self,
        sender: SendRequest<Bytes>,
        path: &str,
    ) -> Result<(Inbox, SendStream<Bytes>), ErrorDetail> {
        let metadata = self.credentials.metadata(SystemTime::now()).await;
        let metadata = metadata.map_err(|error| unavailable(error_chain(&error)))?;
        let request = self.head(path, metadata)?;
        let mut sender = sender.ready().await.map_err(|error| unavailable(error_chain(&error)))?;
        let called = sender.send_request(request, false);
        let (response, out) = called.map_err(|error| unavailable(error_chain(&error)))?;
        // A stream above what the server allows for is kept back until another one ends.
        let opened = poll_fn(|cx| sender.poll_ready(cx)).await;
        opened.map_err(|error| unavailable(error_chain(&error)))?;
        let messages = Messages::new(self.options.max_response_bytes);
        Ok((Inbox { state: CallState::Called(response), messages }, out))
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

impl Inbox {
    /// The next message; the error says how the call ended, which it does with one of some sort.
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Bytes, ErrorDetail> {
        loop {
            let body = match &mut self.state {
                CallState::Called(response) => {
                    self.state = CallState::Answered(answered(response).await?);
                    continue;
                }
                CallState::Answered(body) => body,
            };
            let message = self.messages.next().map_err(|error| internal(error.to_string()))?;
            if let Some(message) = message {
                return Ok(message);
            }
            let Some(chunk) = body.data().await else {
                let is_whole = self.messages.is_between();
                return Err(if is_whole { end(body).await } else { cut_short() });
            };
            let chunk = chunk.map_err(|error| unavailable(error_chain(&error)))?;
            let _ = body.flow_control().release_capacity(chunk.len());
            self.messages.push(chunk);
        }
    }
}

/// The body of an answer that has one.
async fn answered(response: &mut ResponseFuture) -> Result<RecvStream, ErrorDetail> {
    let response = response.await.map_err(|error| unavailable(error_chain(&error)))?;
    if let Some(error) = status::of(response.headers()) {
        return Err(status::told(error));
    }
    match status::of_http(response.status()) {
        Some(error) => Err(error),
        None => Ok(response.into_body()),
    }
}

/// How the call ended, as its trailers say.
async fn end(body: &mut RecvStream) -> ErrorDetail {
    match body.trailers().await {
        Ok(Some(trailers)) => status::of(&trailers)
            .map_or_else(|| internal("the stream ended without a status".to_owned()), status::told),
        Ok(None) => internal("the stream ended without a status".to_owned()),
        Err(error) => unavailable(error_chain(&error)),
    }
}

fn cut_short() -> ErrorDetail {
    internal("a response ends in its middle".to_owned())
}

/// A socket in the file system has no name of its own.
fn authority(address: &Address) -> Arc<str> {
    match address {
        Address::Tcp { .. } => address.to_string().into(),
        Address::Unix(_) => address.host().into(),
    }
}

const AGENT: &str = concat!("chancery/", env!("CARGO_PKG_VERSION"));
