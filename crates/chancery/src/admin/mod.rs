//! The admin interface: probes, metrics, and the API.
//!
//! It is a small HTTP/1.1 server of its own, for operators and their tools. It listens on loopback by
//! default, and is read only but for `confirm`. It shows names, places and versions of resources and never
//! a body (S-138). Probes and metrics are for whoever reaches it, the API for processes on the same
//! machine.

mod access;
mod api;
mod client_status;
mod confirm;
mod hosts;
mod lifetime;
mod load_reports;
mod load_status;
mod loaded_document;
mod local;
mod metrics_page;
mod nodes;
mod readiness;
mod serve;
mod shared_document;
mod status;
mod tls;
mod tokens;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use chancery_core::printable::{PrintForm, Printable, printable};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes};
use serde::Serialize;

pub(crate) use access::Access;
pub(crate) use api::{
    CONFIG, CONFIRM, Described, ErrorDocument, LOAD, NO_SUCH_PATH, NODES, RESOURCES, STATUS,
    TOO_EARLY, Turn, Types, WAIT, document,
};
pub(crate) use client_status::ClientStatusPage;
pub(crate) use confirm::{CHANGED, Confirmation, Confirmations, HeldDocument, NOTHING_HELD};
pub(crate) use hosts::AdminHosts;
pub(crate) use lifetime::Lifetime;
pub(crate) use load_reports::{LoadDocument, LoadReportsPage, LoadRow};
pub(crate) use load_status::{LoadFindings, LoadStatus};
pub(crate) use metrics_page::MetricsPage;
pub(crate) use nodes::{NodeRow, NodesDocument, NodesPage};
pub(crate) use readiness::{Readiness, ReadinessState};
pub(crate) use serve::{MAX_CONNECTIONS, start};
pub(crate) use status::{
    AwaitedRow, BUSY, EventBody, EventKind, EventRow, HeldResource, LoadShown, NodeDocument,
    NodeState, NodeStatusRow, RejectionRow, ResourceDocument, ResourceState, ResourcesDocument,
    StatusPages, StatusSummary, StreamRow, TypeRow, UNKNOWN_RESOURCE, WaitDocument, WaitOutcome,
};
pub(crate) use tls::AdminTls;
pub(crate) use tokens::{InvalidTokens, Tokens};

use self::client_status::CLIENT_STATUS;
use crate::gate::Held;

/// The data that the admin interface shows.
pub(crate) struct Admin {
    /// The readiness of the server for clients.
    pub(crate) readiness: Readiness,
    /// The loaded resources, and the present faults and warnings.
    pub(crate) loaded: LoadStatus,
    /// The metrics.
    pub(crate) metrics: MetricsPage,
    /// The names under which it may be asked.
    pub(crate) hosts: AdminHosts,
    /// Those who may read the API from other machines.
    pub(crate) access: Access,
    /// TLS for them.
    pub(crate) tls: Option<Arc<AdminTls>>,
    /// The confirmations of what is held back.
    pub(crate) confirmations: Confirmations,
    /// The nodes that are connected.
    pub(crate) nodes: NodesPage,
    /// The load reports of clients.
    pub(crate) load_reports: LoadReportsPage,
    /// The pages about what clients hold.
    pub(crate) status: StatusPages,
    /// The status of clients, as CSDS tells it.
    pub(crate) client_status: ClientStatusPage,
    /// The turn to make a page of the API.
    pub(crate) turn: Turn,
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The address.
    peer: IpAddr,
    /// The way on which it asks.
    channel: Channel,
    /// The time of the connection.
    lifetime: Arc<Lifetime>,
}

/// The way on which somebody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// HTTP, which others on the way can read.
    Plain,
    /// TLS.
    Tls,
    /// TLS, with a certificate of an authority of the operator.
    Certified,
}

/// The body of an answer: a text, or events that are sent as they come.
pub(crate) type AdminBody = Either<Full<Bytes>, EventBody>;

/// The answer to one request of this peer.
async fn answer<B>(admin: &Admin, caller: &Caller, request: Request<B>) -> Response<AdminBody>
where
    B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
{
    if request.uri().path().starts_with(api::PREFIX) {
        return uncached(api::answer(admin, caller, request).await);
    }
    if request.uri().path() == CLIENT_STATUS {
        let answer = match admin.hosts.check(&request) {
            Ok(()) => match admin.access.check(caller, request.headers()).await {
                Ok(()) => admin.client_status.answer(request).await,
                Err(refused) => refused.response(),
            },
            Err(foreign) => text(StatusCode::FORBIDDEN, format!("{foreign}\n")),
        };
        return uncached(answer).map(Either::Left);
    }
    page(admin, &request).map(Either::Left)
}

/// The answer for probes and for people.
fn page<B>(admin: &Admin, request: &Request<B>) -> Response<Full<Bytes>> {
    let head = request.method() == Method::HEAD;
    if request.method() != Method::GET && !head {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    if let Err(foreign) = admin.hosts.check(request) {
        return text(StatusCode::FORBIDDEN, format!("{foreign}\n"));
    }
    uncached(match request.uri().path() {
        "/" => text(StatusCode::OK, INDEX.to_owned() + &api::index()),
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/ready" => ready(admin),
        "/config" => moved(CONFIG),
        "/metrics" => metrics(&admin.metrics),
        _ => text(StatusCode::NOT_FOUND, "not found; / lists what there is\n"),
    })
}

/// The answer at a path that has another one by now.
fn moved(to: &'static str) -> Response<Full<Bytes>> {
    let mut moved = text(StatusCode::PERMANENT_REDIRECT, format!("it is at {to} now\n"));
    moved.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    moved
}

fn uncached<B>(mut response: Response<B>) -> Response<B> {
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
    let mut content = match (state, faults) {
        (ReadinessState::Ready, 1..) => {
            format!("{state}, with faults: {faults}; see /api/v1/config\n")
        }
        _ => format!("{state}\n"),
    };
    if state == ReadinessState::Ready {
        content += &faulty(&admin.loaded);
    }
    let held = admin.loaded.held();
    if state == ReadinessState::Ready && !held.is_empty() {
        content += &held_back(&held);
    }
    text(status, content)
}

/// The layers with faults, a line for each of the first.
fn faulty(loaded: &LoadStatus) -> String {
    let (lines, count) = loaded.faulty(MOST_HELD);
    let mut text: String = lines.iter().map(|line| format!("- {line}\n")).collect();
    if count > lines.len() {
        text += &format!("- and {} more layers; see /api/v1/config\n", count - lines.len());
    }
    text
}

/// The changes that wait for a confirmation, a line for each of the first audiences.
fn held_back(held: &[Held]) -> String {
    let mut text = "held back until it is confirmed (`chancery confirm --list`):\n".to_owned();
    for one in held.iter().take(MOST_HELD) {
        text += &format!("- from {}: {}\n", Printable(&one.audience), one.why());
        if one.edits.count > 0 {
            text += &format!("  waiting: {}\n", one.waiting());
        }
    }
    match held.len().saturating_sub(MOST_HELD) {
        0 => text,
        more => text + &format!("- and from {more} more; see /api/v1/config\n"),
    }
}

fn metrics(page: &MetricsPage) -> Response<Full<Bytes>> {
    match page.text() {
        Ok(text) => body(StatusCode::OK, OPEN_METRICS, text),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn text(status: StatusCode, content: impl Into<Bytes>) -> Response<Full<Bytes>> {
    body(status, "text/plain; charset=utf-8", content)
}

fn json(document: &impl Serialize) -> Response<Full<Bytes>> {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    body(StatusCode::OK, "application/json", printed(text))
}

/// A document on one line.
pub(crate) fn line(document: &impl Serialize) -> String {
    printed(serde_json::to_string(document).unwrap_or_default())
}

/// JSON in the form in which it is sent.
fn printed(text: String) -> String {
    let mut printed = match printable(&text, PrintForm::Json) {
        Cow::Borrowed(_) => text,
        Cow::Owned(escaped) => escaped,
    };
    printed.push('\n');
    printed
}

/// The number of bytes that a row takes in a document with a list of rows.
fn written_bytes(row: &impl Serialize) -> usize {
    let text = serde_json::to_string_pretty(row).unwrap_or_default();
    let indented = text.lines().count() * "    \n".len();
    printable(&text, PrintForm::Json).len() + indented
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

/// The number of audiences that `/ready` names.
const MOST_HELD: usize = 10;

const INDEX: &str = "\
/ready    200 while clients should come, 503 and why while not
/healthz  200 while the process lives
/metrics  what is counted (OpenMetrics)
/v3/discovery:client_status  with POST how clients stand (CSDS, JSON); for those who may read the API
";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Duration;

    use chancery_catalog::Catalog;
    use chancery_server::{LoadBounds, LoadReports};
    use http_body_util::BodyExt;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::config::Config;
    use crate::gate::LoadGate;

    pub(super) const TIME: Duration = Duration::from_secs(60);

    /// An interface of a server that has loaded nothing.
    pub(super) fn admin() -> Arc<Admin> {
        Arc::new(Admin {
            readiness: Readiness::default(),
            loaded: LoadStatus::new(Catalog::default()),
            metrics: MetricsPage::new(Registry::default()),
            hosts: AdminHosts::default(),
            access: Access::default(),
            tls: None,
            confirmations: Confirmations::new(LoadGate::new(
                &Config::default(),
                chancery_proto::schema::Schema::bundled(),
            )),
            nodes: NodesPage::default(),
            load_reports: LoadReportsPage::new(LoadReports::new(LoadBounds::default())),
            status: StatusPages::default(),
            client_status: ClientStatusPage::default(),
            turn: Turn::default(),
        })
    }

    async fn asked(admin: Arc<Admin>, method: Method, path: &'static str) -> (StatusCode, Bytes) {
        let request =
            Request::builder().method(method).uri(path).body(Full::<Bytes>::default()).unwrap();
        let peer = [127, 0, 0, 1].into();
        let caller = Caller { peer, channel: Channel::Plain, lifetime: Arc::default() };
        let answered = tokio::time::timeout(TIME, answer(&admin, &caller, request));
        let response = answered.await.unwrap();
        (response.status(), response.into_body().collect().await.unwrap().to_bytes())
    }

    /// Occupies the builder of `/api/v1/config` until the sender is used or dropped.
    async fn occupied(admin: &Arc<Admin>) -> mpsc::Sender<()> {
        let (go, gone) = mpsc::channel();
        let (begun, began) = tokio::sync::oneshot::channel();
        let admin = Arc::clone(admin);
        tokio::spawn(async move { admin.loaded.occupy(begun, gone).await });
        tokio::time::timeout(TIME, began).await.unwrap().unwrap();
        go
    }

    #[tokio::test]
    async fn who_asks_for_the_readiness_does_not_wait_for_who_asks_for_the_configuration() {
        let admin = admin();
        let go = occupied(&admin).await;
        let asking: Vec<_> = [Method::GET, Method::HEAD]
            .map(|method| tokio::spawn(asked(Arc::clone(&admin), method, CONFIG)))
            .into();
        for path in ["/ready", "/healthz", "/metrics", "/"] {
            let (_, text) = asked(Arc::clone(&admin), Method::GET, path).await;
            assert!(!text.is_empty());
        }
        assert!(asking.iter().all(|asking| !asking.is_finished()));
        drop(go);
        for asking in asking {
            let (status, document) = asking.await.unwrap();
            assert_eq!(status, StatusCode::OK);
            let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
            assert_eq!(document["fault_count"], 0);
        }
    }
}
