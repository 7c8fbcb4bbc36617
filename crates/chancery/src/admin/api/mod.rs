//! The API below `/api/v1/`: from a request to the page that answers it.
//!
//! ```text
//!   path -> endpoint -> method -> who asks -> parameters -> page -> keys that are wanted -> JSON
//! ```
//!
//! All that is refused is refused in one form (`error`), and all that takes long is made in turn (`turn`).
//! Not here: the pages themselves (`nodes`, `load_reports`, `loaded_document`, `status`, `confirm`).

mod endpoint;
mod error;
mod openapi;
mod parameter;
mod schema;
mod select;
mod turn;

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Either;
use hyper::body::{Body, Bytes};
use serde::Serialize;

pub(crate) use self::endpoint::{CONFIG, CONFIRM, LOAD, NODES, RESOURCES, STATUS, WAIT};
pub(crate) use self::error::{ApiError, ErrorDocument, NO_SUCH_PATH, TOO_EARLY};
pub(crate) use self::parameter::Asked;
pub(crate) use self::schema::{Described, Types, document};
pub(crate) use self::turn::Turn;

use self::endpoint::{Ask, ENDPOINTS, Endpoint};
use self::select::Selection;
use super::status::{EventBody, StatusPages};
use super::{Admin, AdminBody, Caller, body, local, printed};

/// The beginning of the paths of the API.
pub(super) const PREFIX: &str = "/api/";

/// The answer to a request whose path begins so.
pub(super) async fn answer<B>(
    admin: &Admin,
    caller: &Caller,
    request: Request<B>,
) -> Response<AdminBody>
where
    B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
{
    match answered(admin, caller, request).await {
        Ok(Answer::Document(document)) => {
            body(StatusCode::OK, "application/json", document).map(Either::Left)
        }
        Ok(Answer::Events(events)) => {
            let mut response = Response::new(Either::Right(events));
            let kind = HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(error) => error.response().map(Either::Left),
    }
}

/// An answer: a document, or events.
enum Answer {
    Document(Bytes),
    Events(EventBody),
}

async fn answered<B>(
    admin: &Admin,
    caller: &Caller,
    request: Request<B>,
) -> Result<Answer, ApiError>
where
    B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
{
    admin.hosts.check(&request).map_err(|foreign| {
        ApiError::new(StatusCode::FORBIDDEN, "foreign-host", foreign.to_string())
    })?;
    let (endpoint, in_path) = endpoint::find(request.uri().path()).ok_or_else(|| {
        ApiError::unknown(NO_SUCH_PATH, "the API has no such path").hint("`/` lists what there is")
    })?;
    let is_post = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST if endpoint.post.is_some() => true,
        _ if endpoint.post.is_some() => return Err(ApiError::method("GET, HEAD, POST")),
        _ => return Err(ApiError::method("GET, HEAD")),
    };
    match endpoint.ask {
        // It changes something.
        Ask::Confirm => local::check(caller.peer, request.headers())?,
        _ => admin.access.check(caller, request.headers()).await?,
    }
    if is_post {
        let document = admin.confirmations.confirm(request).await?;
        return Ok(Answer::Document(written(&Selection::default(), &document)));
    }
    let asked =
        Asked::read(endpoint.parameters, in_path?, request.uri().query().unwrap_or_default())?;
    if endpoint.ask == Ask::Events {
        if *request.method() == Method::HEAD {
            return Err(ApiError::method("GET"));
        }
        let last_seen = request.headers().get("last-event-id").and_then(|id| id.to_str().ok());
        let lifetime = Arc::clone(&caller.lifetime);
        return Ok(Answer::Events(admin.status.events(&asked, last_seen, lifetime)?));
    }
    page(admin, endpoint, asked).await.map(Answer::Document)
}

/// The page of an endpoint that was asked for so.
async fn page(admin: &Admin, endpoint: &Endpoint, asked: Asked) -> Result<Bytes, ApiError> {
    let selection = Selection::of(endpoint, &asked)?;
    match endpoint.ask {
        Ask::OpenApi => Ok(written(&selection, &openapi::document())),
        Ask::Config => match selection.keys() {
            None => Ok(admin.loaded.json().await?),
            Some(keys) => {
                let work = admin.loaded.part(keys);
                admin.turn.run(move || work().into()).await
            }
        },
        Ask::Confirm => Ok(written(&selection, &admin.confirmations.list(asked.texts("group")))),
        Ask::Nodes => in_turn(admin, selection, admin.nodes.page(&asked)?).await,
        Ask::Load => in_turn(admin, selection, admin.load_reports.page(&asked)?).await,
        Ask::Status => {
            let held = admin.loaded.held_loads(admin.confirmations.gate());
            in_turn(admin, selection, admin.status.summary(&held, &asked)?).await
        }
        Ask::Resources => in_turn(admin, selection, admin.status.resources(&asked)?).await,
        Ask::Loads => in_turn(admin, selection, admin.status.loads(&asked)?).await,
        Ask::Node => {
            let held = admin.loaded.held_loads(admin.confirmations.gate());
            let work = admin.status.node(&admin.turn, held, &asked).await?;
            in_turn(admin, selection, work).await
        }
        Ask::Resource => {
            let work = admin.status.resource(&admin.turn, &asked).await?;
            in_turn(admin, selection, work).await
        }
        Ask::Wait => Ok(written(&selection, &StatusPages::wait(admin, &asked).await?)),
        Ask::Events => Err(ApiError::failed()),
    }
}

/// The document that some work makes, when it is its turn.
async fn in_turn<D: Serialize>(
    admin: &Admin,
    selection: Selection,
    work: impl FnOnce() -> Result<D, ApiError> + Send + 'static,
) -> Result<Bytes, ApiError> {
    admin.turn.run(move || work().map(|document| written(&selection, &document))).await?
}

fn written(selection: &Selection, document: &impl Serialize) -> Bytes {
    printed(selection.text(document)).into()
}

/// The number of rows on a page that is asked for.
pub(super) fn limit(asked: &Asked) -> usize {
    usize::try_from(asked.number(&endpoint::LIMIT)).unwrap_or(usize::MAX)
}

/// The number of nodes that a load has to land on.
pub(super) fn min_nodes(asked: &Asked) -> usize {
    usize::try_from(asked.number(&endpoint::MIN_NODES)).unwrap_or(usize::MAX)
}

/// The time after which a waiter is told how it stands.
pub(super) fn wait_time(asked: &Asked) -> Duration {
    Duration::from_secs(asked.number(&endpoint::TIMEOUT))
}

/// The paths with what they are for, a line each.
pub(super) fn index() -> String {
    let line = |endpoint: &Endpoint| format!("{}  {}\n", endpoint.path, endpoint.about);
    ENDPOINTS.iter().map(line).collect()
}
