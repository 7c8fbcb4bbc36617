//! Discovery over REST: polls for each type, on a connection that is kept if possible (C-044).
//!
//! A server may have several addresses. One of them is asked until it fails. A poll fails when all
//! addresses have failed; the machine decides what follows (C-067). Some servers answer an empty
//! 404 if they have none of the resources, so that is a response without resources. Redirects are
//! not followed: any status other than 200, 304 and this 404 is a failure.

mod connection;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use chancery_core::client::{ErrorKind, Response};
use chancery_core::{SotwRequest, TypeUrl, Variant};
use chancery_proto::json::request_to_json;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use tokio::time::timeout;

use crate::bootstrap::Address;
use crate::bootstrap::scheme::RestUri;
use crate::credentials::{Alpn, Credentials};
use crate::dial;
use crate::errors::error_chain;
use crate::poll::answer::PollAnswer;
use crate::server_context::ServerContext;
use crate::tasks::blocking;
use connection::{Http1Connection, PollFailure};

/// One server that is polled over REST.
pub(crate) struct Rest {
    uri: RestUri,
    /// The index of the address to ask: the one that answered last, or the next one.
    current: AtomicUsize,
    credentials: Credentials,
    context: ServerContext,
}

/// Polls one type of a server.
pub(crate) struct RestPoller<'a> {
    rest: &'a Rest,
    of: TypeUrl,
    /// The connection of the last poll, and the index of its address.
    kept: Option<(usize, Http1Connection)>,
}

impl Rest {
    pub(crate) fn new(uri: RestUri, context: ServerContext) -> Self {
        let credentials = context.server.credentials(Alpn::Http1);
        Self { uri, current: AtomicUsize::new(0), credentials, context }
    }

    pub(crate) fn poller(&self, of: &TypeUrl) -> RestPoller<'_> {
        RestPoller { rest: self, of: of.clone(), kept: None }
    }

    fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Makes the next address the one to ask, unless another poll has done so already.
    fn move_on(&self, from: usize) {
        let next = (from + 1) % self.uri.addresses.len();
        let _ = self.current.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn head(&self, path: &str, address: &Address) -> Result<Request<()>, String> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        let path = format!("{}{path}", self.uri.prefix);
        *request.uri_mut() = path.parse().map_err(|error| format!("`{path}`: {error}"))?;
        let host = HeaderValue::try_from(address.to_string());
        let host = host.map_err(|_| format!("`{address}` is no name of a host"))?;
        let patience =
            u64::try_from(self.context.options.rest_timeout.as_millis()).unwrap_or(u64::MAX);
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON);
        headers.insert(USER_AGENT, AGENT);
        headers.insert(PATIENCE, patience.into());
        Ok(request)
    }
}

impl RestPoller<'_> {
    /// Polls the server, at one address after the other until one answers.
    pub(crate) async fn poll(&mut self, request: &SotwRequest) -> Result<PollAnswer, String> {
        let Some(path) = self.rest.context.paths.rest(&self.of) else {
            let why = format!("REST has no path for `{}`", self.of.message_name());
            return Ok(PollAnswer::Unusable(ErrorKind::Missing, why));
        };
        let body = Bytes::from(request_to_json(request));
        let mut failed = Vec::new();
        for _ in &self.rest.uri.addresses {
            let place = self.rest.current();
            let Some(address) = self.rest.uri.addresses.get(place) else { break };
            match self.ask(place, address, path, &body).await {
                Ok(answer) => return Ok(answer),
                Err(why) => failed.push(format!("{address}: {why}")),
            }
            self.kept = None;
            self.rest.move_on(place);
        }
        Err(failed.join("; "))
    }

    /// Asks one address. A connection that was kept may have been closed for good reasons, so that
    /// is no failure yet.
    async fn ask(
        &mut self,
        place: usize,
        address: &Address,
        path: &str,
        body: &Bytes,
    ) -> Result<PollAnswer, String> {
        let metadata = self.rest.credentials.metadata(SystemTime::now()).await;
        let metadata = metadata.map_err(|error| error_chain(&error))?;
        let head = self.rest.head(path, address)?;
        let request = || asked(&head, &metadata, body);
        if let Some((at, mut connection)) = self.kept.take()
            && at == place
        {
            match connection.ask(request(), &self.rest.context.options).await {
                Ok(answer) => {
                    self.kept = Some((place, connection));
                    return self.read(answer).await;
                }
                Err(PollFailure::Gone(_)) => {}
                Err(PollFailure::Answer(why)) => return Err(why),
            }
        }
        let options = &self.rest.context.options;
        let (dial, limit) = (&options.dial, options.connect_timeout);
        let io = dial::connect(dial, address, &self.rest.credentials, limit).await?;
        let connected = timeout(limit, Http1Connection::new(io)).await;
        let mut connection = connected.map_err(|_| format!("no connection within {limit:?}"))??;
        let answer = connection.ask(request(), options).await.map_err(PollFailure::into_text)?;
        self.kept = Some((place, connection));
        self.read(answer).await
    }

    async fn read(&self, (status, body): (StatusCode, Bytes)) -> Result<PollAnswer, String> {
        match status {
            StatusCode::OK => self.response(body).await.map(PollAnswer::Response),
            StatusCode::NOT_MODIFIED => Ok(PollAnswer::Unchanged),
            // A 404 with a body is from somebody who does not know the path, such as a proxy.
            StatusCode::NOT_FOUND if body.is_empty() => Ok(PollAnswer::Response(self.nothing())),
            status => Err(format!("it answered with HTTP status {status}")),
        }
    }

    /// Returns a response without resources.
    fn nothing(&self) -> Response {
        Response {
            variant: Variant::Sotw,
            type_url: self.of.clone(),
            version: "".into(),
            nonce: "".into(),
            resources: Vec::new(),
            removed: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Reads a response. Reading JSON is slow, so a long response is read on another thread.
    async fn response(&self, body: Bytes) -> Result<Response, String> {
        let (reader, of) = (self.rest.context.reader.clone(), self.of.clone());
        let is_long = body.len() >= LONG;
        let read = move || reader.read_json(&of, &body).map_err(|error| error_chain(&error));
        if !is_long {
            return read();
        }
        blocking(read).await.map_err(|error| error.to_string())?
    }
}

fn asked(head: &Request<()>, metadata: &HeaderMap, body: &Bytes) -> Request<Full<Bytes>> {
    let mut request = head.clone().map(|()| Full::new(body.clone()));
    request.headers_mut().extend(metadata.clone());
    request
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("chancery/", env!("CARGO_PKG_VERSION")));
/// The header that tells a server how long it may hold a poll.
const PATIENCE: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// The size in bytes from which a response is long: reading it takes some milliseconds.
const LONG: usize = 256 * 1024;
