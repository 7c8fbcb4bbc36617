//! `/api/v1/confirm`: what the gate holds back, and the confirmation that lets it pass.
//!
//! It changes what is served, so it is answered to processes on the same machine alone (`local`). Who
//! confirms sends the token of what they read, so that nobody confirms something else. Not here: the
//! judgement (`gate`), and what a confirmation leads to (`serve::change_applier`).

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::local::{self, NotLocal};
use super::{json, query, text};
use crate::gate::{Held, HeldRow, LoadGate, NotConfirmed, Selection, Token};

/// The confirmations of what a gate holds back.
pub(crate) struct Confirmations {
    gate: LoadGate,
    apply: OnceLock<Apply>,
    /// Held while one is applied, so that there is one at a time.
    turn: Arc<Mutex<()>>,
}

/// Lets what has this token pass. It may block. Returns what passed.
type Apply = Arc<dyn Fn(&Selection, &str) -> Result<Vec<Held>, NotConfirmed> + Send + Sync>;

/// The changes that are held back, or were until now.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct HeldDocument {
    /// The number of all audiences.
    pub(crate) count: usize,
    /// The first of them.
    pub(crate) held: Vec<HeldRow>,
    /// The token of all together.
    pub(crate) token: String,
}

/// A confirmation: of all, or of some groups.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirmation {
    /// True if it is of everything that is held back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) all: bool,
    /// The groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<String>,
    /// The token of what was read.
    pub(crate) token: String,
}

/// The reason for which a request is not answered.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    NotLocal(#[from] NotLocal),
    #[error("only GET and POST")]
    Method,
    #[error("the body has to be `application/json`")]
    Kind,
    #[error("the body is larger than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    #[error("the body did not come whole in {} s", BODY_TIME.as_secs())]
    Incomplete,
    #[error("{0}")]
    Malformed(String),
    #[error("the first load is not complete")]
    TooEarly,
    #[error("{0}")]
    NotConfirmed(#[from] NotConfirmed),
    #[error("it failed; the log says why")]
    Failed,
}

impl HeldDocument {
    fn of(held: &[Held]) -> Self {
        let rows = held.iter().take(MOST_ROWS).map(Held::row).collect();
        Self { count: held.len(), held: rows, token: Token::of_all(held).to_string() }
    }
}

impl Confirmations {
    /// Those of a gate. Nothing is confirmed until it is said how.
    pub(crate) fn new(gate: LoadGate) -> Self {
        Self { gate, apply: OnceLock::new(), turn: Arc::default() }
    }

    /// Says how a confirmation is applied.
    pub(crate) fn apply_by(
        &self,
        apply: impl Fn(&Selection, &str) -> Result<Vec<Held>, NotConfirmed> + Send + Sync + 'static,
    ) {
        self.apply.set(Arc::new(apply)).ok();
    }

    /// The answer to one request, whose `Host` was checked.
    pub(super) async fn answer<B>(&self, peer: IpAddr, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
    {
        let answered = match local::check(peer, request.headers()) {
            Err(refused) => Err(refused.into()),
            Ok(()) => match *request.method() {
                Method::GET | Method::HEAD => self.list(request.uri().query().unwrap_or_default()),
                Method::POST => self.confirm(request).await,
                _ => Err(Refused::Method),
            },
        };
        match answered {
            Ok(document) => json(&document),
            Err(refused) => refused.response(),
        }
    }

    /// The changes that are held back from the groups that the query names, or from all.
    fn list(&self, query: &str) -> Result<HeldDocument, Refused> {
        let malformed = || Refused::Malformed("the query is not `group=NAME&…`".to_owned());
        let pairs = query::pairs(query).ok_or_else(malformed)?;
        let group = |(key, name)| if key == "group" { Ok(name) } else { Err(malformed()) };
        let groups = pairs.into_iter().map(group).collect::<Result<Vec<_>, _>>()?;
        let whom = if groups.is_empty() { Selection::All } else { Selection::Groups(groups) };
        Ok(HeldDocument::of(&self.gate.held_from(&whom)))
    }

    async fn confirm<B>(&self, request: Request<B>) -> Result<HeldDocument, Refused>
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
    {
        let is_json = request.headers().get(CONTENT_TYPE).is_some_and(is_json);
        if !is_json {
            return Err(Refused::Kind);
        }
        let Confirmation { all, groups, token } = read(request.into_body()).await?;
        let whom = match (all, groups.is_empty()) {
            (true, true) => Selection::All,
            (false, false) => Selection::Groups(groups),
            _ => return Err(Refused::Malformed("say either `all` or `groups`".to_owned())),
        };
        let apply = Arc::clone(self.apply.get().ok_or(Refused::TooEarly)?);
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // Whoever asked may go away meanwhile; what was confirmed passes all the same.
        let applying = tokio::task::spawn_blocking(move || {
            let applied = apply(&whom, &token);
            drop(turn);
            applied
        });
        let passed = applying.await.map_err(|_| Refused::Failed)??;
        Ok(HeldDocument::of(&passed))
    }
}

fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    kind.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads a confirmation, as far as it is small and comes soon.
async fn read<B>(body: B) -> Result<Confirmation, Refused>
where
    B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
{
    let collected = tokio::time::timeout(BODY_TIME, Limited::new(body, MAX_BODY_BYTES).collect());
    let collected = collected.await.map_err(|_| Refused::Incomplete)?;
    let collected = collected.map_err(|error| match error.is::<LengthLimitError>() {
        true => Refused::TooLarge,
        false => Refused::Incomplete,
    })?;
    serde_json::from_slice(&collected.to_bytes())
        .map_err(|error| Refused::Malformed(format!("the body is no confirmation: {error}")))
}

impl Refused {
    fn response(&self) -> Response<Full<Bytes>> {
        let status = match self {
            Self::NotLocal(_) => StatusCode::FORBIDDEN,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Kind => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Incomplete => StatusCode::REQUEST_TIMEOUT,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TooEarly => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotConfirmed(NotConfirmed::Nothing) => StatusCode::NOT_FOUND,
            Self::NotConfirmed(NotConfirmed::Busy | NotConfirmed::Slow) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::NotConfirmed(
                NotConfirmed::Changed(_)
                | NotConfirmed::Partly { .. }
                | NotConfirmed::Faulty { .. },
            ) => StatusCode::CONFLICT,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut response = text(status, format!("{self}\n"));
        if matches!(self, Self::Method) {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
        }
        response
    }
}

/// The number of bytes of a confirmation.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The time that a body may take to come.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The number of audiences that are listed one by one.
pub(super) const MOST_ROWS: usize = 1000;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::config::Config;

    fn confirmations() -> Confirmations {
        Confirmations::new(LoadGate::new(
            &Config::default(),
            chancery_proto::schema::Schema::bundled(),
        ))
    }

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn post(kind: &str, body: &str) -> Request<Full<Bytes>> {
        let request = Request::post("/api/v1/confirm").header("content-type", kind);
        request.body(Full::from(body.to_owned())).unwrap()
    }

    async fn status(peer: IpAddr, request: Request<Full<Bytes>>) -> u16 {
        let confirmations = confirmations();
        confirmations.apply_by(|_, _| Err(NotConfirmed::Nothing));
        confirmations.answer(peer, request).await.status().as_u16()
    }

    #[tokio::test]
    async fn processes_on_the_same_machine_are_answered_and_nobody_else() {
        let get = || Request::get("/api/v1/confirm").body(Full::default()).unwrap();
        for local in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(status(local.parse().unwrap(), get()).await, 200, "{local}");
        }
        for other in ["10.1.2.3", "::2", "::ffff:10.1.2.3", "0.0.0.0"] {
            assert_eq!(status(other.parse().unwrap(), get()).await, 403, "{other}");
        }
        assert_eq!(status(Ipv6Addr::UNSPECIFIED.into(), get()).await, 403);
        for header in [
            "origin",
            "forwarded",
            "via",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-real-ip",
            "x-envoy-expected-rq-timeout-ms",
        ] {
            let mut request = get();
            request.headers_mut().insert(header, HeaderValue::from_static("null"));
            assert_eq!(status(LOCAL, request).await, 403, "{header}");
        }
    }

    #[tokio::test]
    async fn a_confirmation_is_a_small_document_that_says_whom_and_what() {
        let json = "application/json; charset=utf-8";
        for (kind, body, expected) in [
            (json, r#"{"all": true, "token": "0"}"#, 404),
            (json, r#"{"groups": ["edge"], "token": "0"}"#, 404),
            (json, r#"{"groups": [], "token": "0"}"#, 400),
            (json, r#"{"all": true, "groups": ["edge"], "token": "0"}"#, 400),
            (json, r#"{"all": true}"#, 400),
            (json, r#"{"all": true, "token": "0", "force": true}"#, 400),
            (json, "", 400),
            ("text/plain", r#"{"all": true, "token": "0"}"#, 415),
            (json, &" ".repeat(MAX_BODY_BYTES + 1), 413),
        ] {
            assert_eq!(status(LOCAL, post(kind, body)).await, expected, "{body:.50}");
        }
        let body = r#"{"all": true, "token": "0"}"#;
        let early = confirmations().answer(LOCAL, post(json, body)).await;
        assert_eq!(early.status(), 503);
        let delete = Request::delete("/").body(Full::default()).unwrap();
        assert_eq!(status(LOCAL, delete).await, 405);
        let odd = Request::get("/api/v1/confirm?node=a").body(Full::default()).unwrap();
        assert_eq!(status(LOCAL, odd).await, 400);
    }
}
