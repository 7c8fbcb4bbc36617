//! The API below `/api/v1/`: from a request to the page that answers it.
//!
//! ```text
//!   path -> endpoint -> method -> who asks -> parameters -> page -> keys that are wanted -> JSON
//! ```
//!
//! All that is refused is refused in one form (`error`), and all that takes long is made in turn (`turn`).
//! Not here: the pages themselves (`nodes`, `load_reports`, `load_status`, `confirm`).

mod endpoint;
mod error;
mod openapi;
mod parameter;
mod schema;
mod select;
mod turn;

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Bytes};
use serde::Serialize;

pub(crate) use self::endpoint::{CONFIG, CONFIRM, LOAD, NODES};
pub(crate) use self::error::{ApiError, ErrorDocument, NO_SUCH_PATH};
pub(crate) use self::parameter::Asked;
pub(crate) use self::schema::{Described, Types, document};
pub(crate) use self::turn::Turn;

use self::endpoint::{Ask, ENDPOINTS, Endpoint};
use self::select::Selection;
use super::{Admin, Caller, body, local, printed};

/// The beginning of the paths of the API.
pub(super) const PREFIX: &str = "/api/";

/// The answer to a request whose path begins so.
pub(super) async fn answer<B>(
    admin: &Admin,
    caller: &Caller,
    request: Request<B>,
) -> Response<Full<Bytes>>
where
    B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
{
    match answered(admin, caller, request).await {
        Ok(document) => body(StatusCode::OK, "application/json", document),
        Err(error) => error.response(),
    }
}

async fn answered<B>(admin: &Admin, caller: &Caller, request: Request<B>) -> Result<Bytes, ApiError>
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
    local::check(caller.peer, request.headers())?;
    if is_post {
        let document = admin.confirmations.confirm(request).await?;
        return Ok(written(&Selection::default(), &document));
    }
    let asked =
        Asked::read(endpoint.parameters, in_path?, request.uri().query().unwrap_or_default())?;
    page(admin, endpoint, asked).await
}

/// The page of an endpoint that was asked for so.
async fn page(admin: &Admin, endpoint: &Endpoint, asked: Asked) -> Result<Bytes, ApiError> {
    let selection = Selection::of(endpoint, &asked)?;
    match endpoint.ask {
        Ask::OpenApi => Ok(written(&selection, &openapi::document())),
        Ask::Config => Ok(admin.loaded.json().await?),
        Ask::Confirm => Ok(written(&selection, &admin.confirmations.list(asked.texts("group")))),
        Ask::Nodes => in_turn(admin, selection, admin.nodes.page(&asked)?).await,
        Ask::Load => in_turn(admin, selection, admin.load_reports.page(&asked)?).await,
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

/// The paths with what they are for, a line each.
pub(super) fn index() -> String {
    let line = |endpoint: &Endpoint| format!("{}  {}\n", endpoint.path, endpoint.about);
    ENDPOINTS.iter().map(line).collect()
}
