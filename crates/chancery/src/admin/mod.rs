//! The admin interface: readiness, the loaded resources with their faults, and metrics.
//!
//! It is a small HTTP/1.1 server of its own, for operators and their tools. It is read only and has
//! no login, so it listens on loopback by default. It shows names, places and versions of resources
//! and never a body (S-138).

mod hosts;
mod load_status;
mod readiness;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Bytes};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

pub(crate) use hosts::AdminHosts;
pub(crate) use load_status::LoadStatus;
pub(crate) use readiness::{Readiness, ReadinessState};

/// The data that the admin interface shows.
pub(crate) struct Admin {
    /// The readiness of the server for clients.
    pub(crate) readiness: Readiness,
    /// The loaded resources, and the faults of the last load.
    pub(crate) loaded: LoadStatus,
    /// The metrics.
    pub(crate) registry: Registry,
    /// The names under which it may be asked.
    pub(crate) hosts: AdminHosts,
}

/// Answers requests until `stop` is cancelled.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        match accepted {
            Ok((stream, _)) => {
                failing = false;
                let admin = Arc::clone(&admin);
                connections.spawn(async move {
                    connection(stream, admin).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // One line says it until it works again: there are ten attempts in a second.
                if !std::mem::replace(&mut failing, true) {
                    warn!(%error, "the admin interface cannot accept a connection");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, admin: Arc<Admin>) {
    let service = service_fn(|request| {
        let response = answer(&admin, &request);
        async { Ok::<_, Infallible>(response) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "an admin connection broke");
    }
}

/// The answer to one request.
fn answer<B: Body>(admin: &Admin, request: &Request<B>) -> Response<Full<Bytes>> {
    let head = request.method() == Method::HEAD;
    if request.method() != Method::GET && !head {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    if let Err(foreign) = admin.hosts.check(request) {
        return text(StatusCode::FORBIDDEN, format!("{foreign}\n"));
    }
    let mut response = match request.uri().path() {
        "/" => text(StatusCode::OK, INDEX),
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/ready" => ready(admin),
        "/config" => body(StatusCode::OK, "application/json", admin.loaded.json()),
        "/metrics" => metrics(&admin.registry),
        _ => text(StatusCode::NOT_FOUND, "not found; / lists what there is\n"),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn ready(admin: &Admin) -> Response<Full<Bytes>> {
    let state = admin.readiness.state();
    let status = match state {
        ReadinessState::Ready => StatusCode::OK,
        ReadinessState::Loading | ReadinessState::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    let faults = admin.loaded.fault_count();
    let content = match (state, faults) {
        (ReadinessState::Ready, 1..) => format!("{state}, with faults: {faults}; see /config\n"),
        _ => format!("{state}\n"),
    };
    text(status, content)
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    let mut encoded = String::new();
    match prometheus_client::encoding::text::encode(&mut encoded, registry) {
        Ok(()) => body(StatusCode::OK, OPEN_METRICS, encoded),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn text(status: StatusCode, content: impl Into<Bytes>) -> Response<Full<Bytes>> {
    body(status, "text/plain; charset=utf-8", content)
}

/// A response with this body; hyper leaves the body out of the answer to a HEAD request.
fn body(
    status: StatusCode,
    kind: &'static str,
    content: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(content.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

const INDEX: &str = "\
/ready    200 while clients should come, 503 and why while not
/healthz  200 while the process lives
/config   what is loaded, from which file and line, and what is wrong (JSON)
/metrics  what is counted (OpenMetrics)
";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The number of connections at the same time; more are closed.
const MAX_CONNECTIONS: usize = 64;

/// The number of bytes of a request line with its headers.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The time a client may take to send its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a failed accept: most fail because there are no free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
