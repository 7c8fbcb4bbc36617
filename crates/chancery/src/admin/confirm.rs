//! `/api/v1/confirm`: what the gate holds back, and the confirmation that lets it pass.
//!
//! A confirmation has the token of what was read, so that nobody confirms something else. Not here: who
//! may ask (`api`), the judgement (`gate`), and what a confirmation leads to (`serve::change_applier`).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::api::{ApiError, Described, Turn, Types, document};
use crate::gate::{Held, HeldRow, LoadGate, NotConfirmed, Selection, Token};

/// The confirmations of what a gate holds back.
pub(crate) struct Confirmations {
    gate: LoadGate,
    apply: OnceLock<Apply>,
    /// One is applied at a time, and waits for no page.
    turn: Turn,
}

/// Lets what has this token pass. It may block. Returns what passed.
type Apply = Arc<dyn Fn(&Selection, &str) -> Result<Vec<Held>, NotConfirmed> + Send + Sync>;

document! {
    /// The changes that are held back, or were until now.
    struct HeldDocument {
        /// The number of all audiences.
        count: usize,
        /// The first of them.
        held: Vec<HeldRow>,
        /// The token of all together.
        token: String,
    }
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

impl Described for Confirmation {
    fn schema(types: &mut Types) -> Value {
        types.object("Confirmation", "A confirmation: of all, or of some groups.", |it, types| {
            let (all, groups) = (bool::schema(types), <Vec<String>>::schema(types));
            it.property("all", "True if it is of everything that is held back.", false, all);
            it.property("groups", "The groups.", false, groups);
            it.property("token", "The token of what was read.", true, String::schema(types));
        })
    }
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
        Self { gate, apply: OnceLock::new(), turn: Turn::default() }
    }

    /// Says how a confirmation is applied.
    pub(crate) fn apply_by(
        &self,
        apply: impl Fn(&Selection, &str) -> Result<Vec<Held>, NotConfirmed> + Send + Sync + 'static,
    ) {
        self.apply.set(Arc::new(apply)).ok();
    }

    /// The gate.
    pub(super) fn gate(&self) -> &LoadGate {
        &self.gate
    }

    /// The changes that are held back from these groups, or from all.
    pub(super) fn list(&self, groups: &[String]) -> HeldDocument {
        let of_groups = || Selection::Groups(groups.to_vec());
        let whom = if groups.is_empty() { Selection::All } else { of_groups() };
        HeldDocument::of(&self.gate.held_from(&whom))
    }

    /// The changes that a confirmation lets pass.
    pub(super) async fn confirm<B>(&self, request: Request<B>) -> Result<HeldDocument, ApiError>
    where
        B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
    {
        let is_json = request.headers().get(CONTENT_TYPE).is_some_and(is_json);
        if !is_json {
            let odd = "the body has to be `application/json`";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad-body", odd));
        }
        let Confirmation { all, groups, token } = read(request.into_body()).await?;
        let whom = match (all, groups.is_empty()) {
            (true, true) => Selection::All,
            (false, false) => Selection::Groups(groups),
            _ => return Err(malformed("say either `all` or `groups`")),
        };
        let apply = Arc::clone(self.apply.get().ok_or_else(ApiError::too_early)?);
        // Whoever asked may go away meanwhile; what was confirmed passes all the same.
        let passed = self.turn.run(move || apply(&whom, &token)).await??;
        Ok(HeldDocument::of(&passed))
    }
}

fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default();
    kind.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads a confirmation, as far as it is small and comes soon.
async fn read<B>(body: B) -> Result<Confirmation, ApiError>
where
    B: Body<Data: Send, Error: std::error::Error + Send + Sync + 'static>,
{
    let incomplete = || {
        let message = format!("the body did not come whole in {} s", BODY_TIME.as_secs());
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "incomplete", message)
    };
    let collected = tokio::time::timeout(BODY_TIME, Limited::new(body, MAX_BODY_BYTES).collect());
    let collected = collected.await.map_err(|_| incomplete())?;
    let collected = collected.map_err(|error| match error.is::<LengthLimitError>() {
        true => {
            let message = format!("the body is larger than {MAX_BODY_BYTES} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
        }
        false => incomplete(),
    })?;
    serde_json::from_slice(&collected.to_bytes())
        .map_err(|error| malformed(format!("the body is no confirmation: {error}")))
}

fn malformed(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "bad-body", message)
}

impl From<NotConfirmed> for ApiError {
    fn from(refused: NotConfirmed) -> Self {
        let (status, code) = match &refused {
            NotConfirmed::Nothing => (StatusCode::NOT_FOUND, NOTHING_HELD),
            NotConfirmed::Busy | NotConfirmed::Slow => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            NotConfirmed::Changed(_)
            | NotConfirmed::Partly { .. }
            | NotConfirmed::Faulty { .. } => (StatusCode::CONFLICT, CHANGED),
        };
        Self::new(status, code, refused.to_string())
    }
}

/// The code for a confirmation of what is not held back.
pub(crate) const NOTHING_HELD: &str = "nothing-held";

/// The code for a confirmation of something else than what is held back now.
pub(crate) const CHANGED: &str = "changed";

/// The number of bytes of a confirmation.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The time that a body may take to come.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The number of audiences that are listed one by one.
pub(super) const MOST_ROWS: usize = 1000;

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use hyper::body::Bytes;

    use super::*;
    use crate::config::Config;

    fn confirmations() -> Confirmations {
        Confirmations::new(LoadGate::new(
            &Config::default(),
            chancery_proto::schema::Schema::bundled(),
        ))
    }

    fn post(kind: &str, body: &str) -> Request<Full<Bytes>> {
        let request = Request::post("/api/v1/confirm").header("content-type", kind);
        request.body(Full::from(body.to_owned())).unwrap()
    }

    async fn status(confirmations: Confirmations, request: Request<Full<Bytes>>) -> u16 {
        let refused = confirmations.confirm(request).await.unwrap_err();
        refused.response().status().as_u16()
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
            let confirmations = confirmations();
            confirmations.apply_by(|_, _| Err(NotConfirmed::Nothing));
            assert_eq!(status(confirmations, post(kind, body)).await, expected, "{body:.50}");
        }
        let body = r#"{"all": true, "token": "0"}"#;
        assert_eq!(status(confirmations(), post(json, body)).await, 503);
    }
}
