//! The rules by which the API is read: who may, and who may not.
//!
//! ```text
//!   a process on the same machine                        -> yes (`local`)
//!   over TLS, with a certificate of `admin-tls.client-ca` -> yes
//!   over TLS, with a token of `admin-tokens`              -> yes
//!   with a token, and not over TLS                       -> no: others may have read the token on its way
//! ```
//!
//! A web page may never. Probes and metrics are for whoever reaches them. Not here: the tokens (`tokens`), and
//! what only the same machine may (`api`).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tracing::warn;

use super::api::ApiError;
use super::local::{self, NotLocal};
use super::tokens::Tokens;
use super::{Caller, Channel};

/// The rules by which the API is read from other machines.
#[derive(Debug, Default)]
pub(crate) struct Access {
    tokens: Option<Tokens>,
    failures: Failures,
}

/// The tokens that were refused, for the log.
#[derive(Debug, Default)]
struct Failures(Mutex<(Option<Instant>, u64)>);

impl Access {
    /// Lets those in who have one of these tokens, if there are any.
    pub(crate) fn new(tokens: Option<Tokens>) -> Self {
        Self { tokens, failures: Failures::default() }
    }

    /// Checks if a peer may read the API.
    pub(super) async fn check(&self, caller: &Caller, headers: &HeaderMap) -> Result<(), ApiError> {
        let refused = match local::check(caller.peer, headers) {
            Ok(()) => return Ok(()),
            Err(NotLocal::WebPage) => return Err(NotLocal::WebPage.into()),
            Err(refused) => refused,
        };
        if caller.channel == Channel::Certified {
            return Ok(());
        }
        let Some(credentials) = headers.get(AUTHORIZATION) else {
            return Err(match (&self.tokens, caller.channel) {
                (Some(_), Channel::Tls) => unauthorized("a token is needed"),
                _ => ApiError::from(refused).hint(ELSEWHERE),
            });
        };
        if caller.channel == Channel::Plain && !caller.peer.to_canonical().is_loopback() {
            let message = "a token that does not come over TLS is not looked at";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "token-in-the-clear", message).hint(
                "ask with https://, and replace the token: others may have read it on its way",
            ));
        }
        let token = bearer(credentials);
        let name = match (&self.tokens, token) {
            (Some(tokens), Some(token)) => tokens.find(token).await,
            _ => None,
        };
        if name.is_some() {
            return Ok(());
        }
        self.failures.say(caller);
        Err(unauthorized("the token is none of this server"))
    }
}

/// The token in the header, if it has one.
fn bearer(credentials: &HeaderValue) -> Option<&str> {
    let (scheme, token) = credentials.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn unauthorized(message: &str) -> ApiError {
    let error = ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
    let challenge = HeaderValue::from_static("Bearer realm=\"chancery\"");
    error.header(WWW_AUTHENTICATE, challenge).hint("`admin-tokens` of the server has the tokens")
}

impl Failures {
    /// Says that a token was refused: the first time, and how many more there were, once a minute at most.
    fn say(&self, caller: &Caller) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, more) = &mut *last;
        if said.is_some_and(|said| said.elapsed() < EVERY) {
            *more += 1;
            return;
        }
        warn!(peer = %caller.peer, more = *more, "a token for the admin API was refused");
        *last = (Some(Instant::now()), 0);
    }
}

const ELSEWHERE: &str = "from other machines it is read over TLS, with a certificate or a token: `admin-tls` and \
                         `admin-tokens` of the server say whose";

/// The time between two lines about tokens that were refused.
const EVERY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn with_token() -> (tempfile::TempDir, Access) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        fs::write(&path, format!("ci read {TOKEN}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        (dir, Access::new(Some(Tokens::load(path).unwrap())))
    }

    fn bearer(token: &str) -> (&'static str, &str) {
        ("authorization", token)
    }

    /// The status and the body for a peer with these headers, and the challenge if there is one.
    async fn asked(
        access: &Access,
        (peer, channel): (&str, Channel),
        headers: &[(&'static str, &str)],
    ) -> (u16, String) {
        let caller = Caller { peer: peer.parse().unwrap(), channel, lifetime: Default::default() };
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        let Err(refused) = access.check(&caller, &headers.collect()).await else {
            return (200, String::new());
        };
        let response = refused.response();
        let is_challenged = response.headers().contains_key(WWW_AUTHENTICATE);
        assert_eq!(is_challenged, response.status() == 401);
        let status = response.status().as_u16();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
        (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_api_is_read_by_those_whom_the_operator_knows() {
        // S-137
        let (_dir, access) = with_token();
        let (right, wrong) = (format!("Bearer {TOKEN}"), format!("Bearer {TOKEN}0"));
        let (far, near) = ("10.1.2.3", "127.0.0.1");
        for (caller, headers, status, told) in [
            ((near, Channel::Plain), &[][..], 200, ""),
            ((near, Channel::Plain), &[("via", "1.1 a")], 403, "passed-on"),
            ((near, Channel::Plain), &[("via", "1.1 a"), bearer(&right)], 200, ""),
            ((near, Channel::Plain), &[("via", "1.1 a"), bearer(&wrong)], 401, "unauthorized"),
            ((near, Channel::Plain), &[("origin", "http://a"), bearer(&right)], 403, "web-page"),
            ((far, Channel::Plain), &[], 403, "not-local"),
            ((far, Channel::Plain), &[bearer(&right)], 403, "token-in-the-clear"),
            ((far, Channel::Tls), &[], 401, "a token is needed"),
            ((far, Channel::Tls), &[bearer(&right)], 200, ""),
            ((far, Channel::Tls), &[bearer(&wrong)], 401, "unauthorized"),
            ((far, Channel::Tls), &[bearer(TOKEN)], 401, "unauthorized"),
            ((far, Channel::Tls), &[bearer("Basic YTpi")], 401, "unauthorized"),
            ((far, Channel::Certified), &[], 200, ""),
            ((far, Channel::Certified), &[("origin", "null")], 403, "web-page"),
        ] {
            let (found, body) = asked(&access, caller, headers).await;
            assert!(
                found == status && body.contains(told),
                "{caller:?} {headers:?}: {found} {body}"
            );
            assert!(!body.contains(TOKEN), "{body}");
        }
    }

    #[tokio::test]
    async fn without_tokens_none_is_right() {
        let access = Access::default();
        let right = format!("bearer {TOKEN}");
        let told = asked(&access, ("10.1.2.3", Channel::Tls), &[("authorization", &right)]).await;
        assert_eq!(told.0, 401);
        let told = asked(&access, ("10.1.2.3", Channel::Tls), &[]).await;
        assert!(told.0 == 403 && told.1.contains("`admin-tls`"), "{told:?}");
    }
}
